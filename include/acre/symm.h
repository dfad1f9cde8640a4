/* SPDX-License-Identifier: MIT */
/** @file symm.h
 *  @brief Symmetric memory: the same buffer on every rank, each able to reach all of them.
 *
 * A rank allocates a block, meets the others of a group (acre_symm_rendezvous) and gets a
 * handle with an address, valid in its own process, for every rank's block. Beside each
 * buffer lies a signal pad: 32-bit words through which ranks tell each other that data is
 * there. acre/collective.h moves and reduces data on top of it.
 *
 *     offset 0        buffer_bytes   pad_offset = rounded up to 16     block_bytes
 *     | user buffer ...| 0..15 bytes | signal pad ...........| tail ...|
 *
 * Nothing hangs: every step has a deadline, and a rank whose process ended is named in the
 * error of every other rank that waits for it, within a second.
 *
 * Blocks live on plain shared host memory or on a device whose memory travels as
 * descriptors or over a fabric. On a device that runs no kernels of this library (CUDA, HIP),
 * rendezvous, addresses, barriers, put, get, memset32 and write_value32 work; the rest answers
 * ACRE_ERR_UNSUPPORTED, and kernels of the user work on the addresses. Ranks are processes of
 * one user on one host, or threads of one process.
 *
 * Blocks on host memory also have ranks on several hosts, where mpirun of Open MPI or MPICH
 * started them and Acre was built with that MPI. The memory of a rank on another host has no
 * address here (acre_symm_info.is_direct); put, get, signals, barriers and collectives reach it
 * through MPI's one-sided windows, with the same deadlines. Across hosts a block's memory stays
 * mapped until all ranks have released it, and a barrier that runs out of time may let those
 * pass who saw the late rank before it left.
 *
 * A group keeps two descriptors per other rank from its first rendezvous on, a block on host
 * memory keeps one.
 *
 * Threads: any; a handle may serve several at once, each channel one at a time on a rank.
 *
 * Fork: groups, blocks and handles are the parent's; a child makes its own. There, calls that meet
 * other ranks, or write what they see, are ACRE_ERR_FORKED for inherited ones.
 */
#ifndef ACRE_SYMM_H
#define ACRE_SYMM_H

#include <acre/device.h>
#include <acre/store.h>

ACRE_BEGIN_DECLS

/* ---- Groups ----------------------------------------------------------------------- */

/** An ordered set of ranks that meet through a store. */
typedef struct acre_group acre_group;

/** Bits of acre_group_config.flags; ranks must agree on them. */
#define ACRE_GROUP_ALLOW_OVERLAP 0x1u /**< Two ranks may use one device.              */
#define ACRE_GROUP_NO_MULTICAST 0x2u  /**< Multicast operations are not offered.      */
#define ACRE_GROUP_HAS_CLIQUE 0x4u    /**< acre_group_config.clique is meant.         */

/** What a group is to be. */
typedef struct acre_group_config {
    uint32_t struct_size;   /**< sizeof(acre_group_config).                               */
    uint32_t flags;         /**< ACRE_GROUP_* bits. The environment variables
                                 ACRE_SYMM_ALLOW_OVERLAPPING_DEVICES and
                                 ACRE_SYMM_DISABLE_MULTICAST set the first two when "1".  */
    int32_t rank;           /**< Of the caller, from 0.                                   */
    int32_t world_size;     /**< Number of ranks, 1 to 1024.                              */
    const char *name;       /**< Unique in this process; copied.                          */
    const char *store_name; /**< Under which ranks find each other; NULL: name. Differs
                                 from it where several ranks live in one process.         */
    acre_store *store;      /**< Must live longer than the group and its handles. May be
                                 NULL for a world of one.                                 */
    uint64_t timeout_ms;    /**< Of a rendezvous and of collectives; 0: 300,000.          */
    int32_t clique;         /**< Fabric clique of the rank's device; negative: none.      */
} acre_group_config;

/** Registers a group. Meets nobody yet: that is the first rendezvous.
 *
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_RANGE (rank or size), ACRE_ERR_EXISTS (the name).
 */
ACRE_API acre_status acre_group_create(const acre_group_config *config, acre_group **out);
/** The group that the environment describes, with a store of its own.
 *
 * Reads ACRE_RANK, ACRE_WORLD_SIZE, ACRE_STORE, or else RANK, WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT, where rank 0 then serves the store; or what mpirun of Open MPI and MPICH sets,
 * on one host or several; none of them: a world of one. ACRE_SYMM_WIRE names what reaches other
 * hosts: "openmpi", "mpich", "mpi" (that of the mpirun), "none"; ACRE_SYMM_HOST gives this host
 * another name, so that ranks of one machine can be taken for several.
 * Errors: ACRE_ERR_CONFIG names the variable; those of acre_group_create and stores.
 */
ACRE_API acre_status acre_group_create_env(const char *name, acre_group **out);
/** Finds a group by name. Errors: ACRE_ERR_NOT_FOUND names it. */
ACRE_API acre_status acre_group_find(const char *name, acre_group **out);
/** Forgets the name. Handles of the group keep working. NULL is accepted. */
ACRE_API void acre_group_destroy(acre_group *group);
/** The caller's rank; -1 for NULL. */
ACRE_API int acre_group_rank(const acre_group *group);
/** The number of ranks; 0 for NULL. */
ACRE_API int acre_group_world_size(const acre_group *group);
/** Waits until every rank of the group is here, without any memory.
 *  Errors: as acre_symm_rendezvous(). */
ACRE_API acre_status acre_group_barrier(acre_group *group);

/* ---- Blocks ----------------------------------------------------------------------- */

/** How a block is to be allocated. Zero means default everywhere. */
typedef struct acre_symm_config {
    uint32_t struct_size; /**< sizeof(acre_symm_config).                                     */
    uint32_t has_id;      /**< 1: alloc_id is meant.                                         */
    acre_device *device;  /**< NULL: plain shared host memory.                               */
    const char *group;    /**< Name of the group for rendezvous that names none; NULL or "". */
    uint64_t alloc_id;    /**< Persistent: the same memory each time, never given back.      */
} acre_symm_config;

/** Allocates a block, zeroed. Not collective; ranks rendezvous in the same order.
 *
 * Size 0 is allowed; rendezvous never finds a block of size 0. With an id, a block that was freed
 * comes back, contents and cached rendezvous included.
 * Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_DEVICE_MEMORY, ACRE_ERR_UNSUPPORTED (the device
 *         cannot share memory), ACRE_ERR_BUSY (the id is in use), ACRE_ERR_INVALID (the id
 *         has another size, device or group; the text gives both).
 */
ACRE_API acre_status acre_symm_alloc(const acre_symm_config *config, size_t bytes, void **out);
/** Forgets a block; its memory lives until the last handle is gone. Unknown addresses are
 *  ignored. */
ACRE_API void acre_symm_free(void *base);
/** The size asked for, by exact base. Errors: ACRE_ERR_NOT_FOUND. */
ACRE_API acre_status acre_symm_alloc_size(const void *base, size_t *out);
/** Whether a pointer, also an interior one, lies in the buffer of a block. */
ACRE_API bool acre_symm_contains(const void *pointer);
/** Size of the signal pads of later blocks; 0 restores 9216. A multiple of 16.
 *  Errors: ACRE_ERR_INVALID. */
ACRE_API acre_status acre_symm_set_pad_bytes(size_t bytes);
/** The present size. */
ACRE_API size_t acre_symm_pad_bytes(void);
/** Whether blocks on devices of a type can be written and reduced all at once; false where
 *  there are none. */
ACRE_API bool acre_symm_has_multicast(acre_device_type type, int index);
/** Chooses what symmetric memory on a device type is made of: "shared" for the CPU, "virtual"
 *  for others.
 *  Errors: ACRE_ERR_NOT_FOUND (the name), ACRE_ERR_STATE (in use already). */
ACRE_API acre_status acre_symm_set_backend(acre_device_type type, const char *name);
/** The name chosen; "" for types that have none. */
ACRE_API const char *acre_symm_backend(acre_device_type type);
/** Registers a backend whose device memory is symmetric host memory, for a cache on top: what
 *  is allocated there lies in blocks and may be rendezvoused at its offset.
 *
 * Its one device has type ACRE_DEVICE_CPU and total bytes of the machine's memory.
 */
ACRE_API acre_status acre_symm_backend_create(const char *name, acre_backend **out);

/* ---- Handles ---------------------------------------------------------------------- */

/** What rendezvous gives: every rank's block as seen from here. */
typedef struct acre_symm acre_symm;

/** Facts about a handle. */
typedef struct acre_symm_info {
    uint32_t struct_size;   /**< sizeof(acre_symm_info), set by the caller.              */
    int rank;               /**< Of the caller in the group.                             */
    int world_size;         /**< Number of ranks.                                        */
    acre_device *device;    /**< NULL: host memory.                                      */
    size_t buffer_bytes;    /**< As asked for, equal on all ranks.                       */
    size_t pad_bytes;       /**< Of each signal pad.                                     */
    size_t pad_offset;      /**< From buffer to pad.                                     */
    size_t block_bytes;     /**< Of the whole block.                                     */
    size_t offset;          /**< Of the pointer given to rendezvous, from its block.     */
    uint32_t channels;      /**< Channels of put, wait and barrier: 0 to this - 1.       */
    bool has_multicast;     /**< All ranks offer the multicast operations.               */
    bool is_direct;         /**< Every rank's memory can be read and written in place:
                                 world_within_direct_access.                             */
} acre_symm_info;

/** Meets the other ranks of a group around the block that holds @p pointer.
 *
 * Collective the first time for a block and group, local afterwards. @p group NULL or "":
 * the default of the block.
 * Errors: ACRE_ERR_INVALID (no block holds the pointer, and nobody was contacted; no group; ranks
 *         differ: the text says which and in what),
 *         ACRE_ERR_NOT_FOUND (the group), ACRE_ERR_TIMEOUT (names the ranks that are
 *         missing), ACRE_ERR_PEER (names the rank that is gone or failed),
 *         ACRE_ERR_UNSUPPORTED (ranks on several hosts without a wire between them, or with
 *         device memory). All ranks fail together.
 */
ACRE_API acre_status acre_symm_rendezvous(void *pointer, const char *group, acre_symm **out);
/** Ends a handle. Mappings go with the last handle of a block that was freed. NULL is
 *  accepted. */
ACRE_API void acre_symm_release(acre_symm *symm);
/** Facts about it. */
ACRE_API acre_status acre_symm_info_get(const acre_symm *symm, acre_symm_info *out);
/** Address of @p bytes of a rank's buffer, @p offset bytes from the block's base.
 *  Errors: ACRE_ERR_RANGE (rank), ACRE_ERR_INVALID (beyond the end; gives both sizes),
 *  ACRE_ERR_UNSUPPORTED (the rank is on another host). */
ACRE_API acre_status acre_symm_buffer(const acre_symm *symm, int rank, size_t offset,
                                      size_t bytes, void **out);
/** Address of the handle's offset in a rank's buffer; as acre_symm_buffer() otherwise. */
ACRE_API acre_status acre_symm_remote(const acre_symm *symm, int rank, size_t bytes,
                                      void **out);
/** Address of a rank's signal pad from element @p first on; @p count 0 means all that are
 *  left, and @p out_count gives how many. Errors: ACRE_ERR_RANGE, ACRE_ERR_INVALID. */
ACRE_API acre_status acre_symm_pad(const acre_symm *symm, int rank, size_t element_bytes,
                                   size_t first, size_t count, void **out, size_t *out_count);

/* ---- Signals ---------------------------------------------------------------------- */

/* Common to all three: channel 0 to channels - 1, else ACRE_ERR_RANGE. timeout_ms 0 waits for
 * ever, but not for a process that is gone. Errors: ACRE_ERR_TIMEOUT (the handle stays
 * usable), ACRE_ERR_PEER names the rank whose process ended. On device memory they run on the
 * device's default stream and are waited for. */

/** Sets the word (channel, own rank) of @p rank's pad from 0 to 1, after all earlier writes;
 *  waits while the signal before it was not consumed. */
ACRE_API acre_status acre_symm_put_signal(acre_symm *symm, int rank, int channel,
                                          uint64_t timeout_ms);
/** Waits for the signal of @p rank and takes it; later reads see what it wrote before. */
ACRE_API acre_status acre_symm_wait_signal(acre_symm *symm, int rank, int channel,
                                           uint64_t timeout_ms);
/** Waits until every rank has come to this channel. */
ACRE_API acre_status acre_symm_barrier(acre_symm *symm, int channel, uint64_t timeout_ms);

ACRE_END_DECLS

#endif
