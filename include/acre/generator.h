/* SPDX-License-Identifier: MIT */
/** @file generator.h
 *  @brief Random numbers: Philox4x32-10, mt19937, and fills on a device.
 *
 * A generator is one of two engines with the label of a device. Philox is
 * counter based: a draw is a function of (seed, offset), so that fills are the
 * same on every device and need no state there. mt19937 is sequential and has
 * no offset; its state travels in the layout that PyTorch's CPU generator uses.
 *
 * Fills are deterministic. With Philox, element i of a fill depends only on
 * (seed, offset, i): 32-bit elements use word i of the word stream that starts
 * at the offset, 64-bit elements words 2i and 2i+1; normals come in pairs
 * (2k, 2k+1), made of the words of both. The offset then grows by the words
 * used, rounded up to 4. With mt19937, element i is the i-th draw.
 *
 * Graph capture. A fill on a stream in capture is recorded and not run, so it
 * needs an offset that is settled at each replay: see
 * acre_generator_capture_begin(). Between its begin and end the generator
 * refuses random seeds, offsets, states and clones with ACRE_ERR_STATE, and
 * accepts a seed only if it is the one it has. mt19937 fills cannot be captured.
 *
 * Fork: see acre/base.h. A child has copies of all generators in their states at the fork, so
 * both processes go on with the same numbers unless one is seeded anew.
 */
#ifndef ACRE_GENERATOR_H
#define ACRE_GENERATOR_H

#include <acre/backend.h>
#include <acre/device.h>

ACRE_BEGIN_DECLS

/** The seed of a generator that nobody seeded. */
#define ACRE_GENERATOR_SEED_DEFAULT UINT64_C(67280421310721)

/** Bytes of the state of a Philox generator: seed, then offset, native endian. */
#define ACRE_PHILOX_STATE_BYTES 16

/** Bytes of the state of an mt19937 generator. */
#define ACRE_MT19937_STATE_BYTES 5056

/* ---- The raw Philox engine -------------------------------------------------------- */

/** Philox4x32-10 as a stream of 32-bit words. Lives where the user puts it.
 *
 * Threads: one at a time per engine. Calls with NULL do nothing, draws answer 0.
 */
typedef struct acre_philox {
    uint32_t key[2];     /**< Low and high half of the seed.                          */
    uint32_t counter[4]; /**< Block number, 128 bits, low word first; the upper half
                              starts as the subsequence.                              */
    uint32_t words[4];   /**< The block at counter, once a word of it was drawn.      */
    uint32_t position;   /**< Words of the block already drawn, 0 to 3.               */
} acre_philox;

/** One block: ten rounds over a counter with a key. */
ACRE_API void acre_philox_block(const uint32_t counter[4], const uint32_t key[2],
                                uint32_t out_words[4]);

/** Starts an engine at the first word of a block of a subsequence. */
ACRE_API void acre_philox_init(acre_philox *engine, uint64_t seed, uint64_t subsequence,
                               uint64_t block_offset);

/** The next word. After the fourth of a block the 128-bit counter steps. */
ACRE_API uint32_t acre_philox_next(acre_philox *engine);

/** Skips whole blocks: the same as drawing 4 * @p blocks words. */
ACRE_API void acre_philox_skip(acre_philox *engine, uint64_t blocks);

/** The number in [0, 1) that a word stands for. */
ACRE_API float acre_philox_uniform(uint32_t word);

/* ---- Generators ------------------------------------------------------------------- */

/** Which engine. */
typedef enum acre_generator_kind {
    ACRE_GENERATOR_PHILOX = 1,  /**< Counter based, with an offset. */
    ACRE_GENERATOR_MT19937 = 2, /**< Sequential, without one.       */
} acre_generator_kind;

/** A generator. Threads: every call may come from any thread at any time. */
typedef struct acre_generator acre_generator;

/** Creates a generator with the default seed and offset 0.
 *
 * @p device is a label; its index is taken as it is, the device need not exist.
 * Errors: ACRE_ERR_INVALID (kind), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_generator_create(acre_generator_kind kind, acre_device_id device,
                                           acre_generator **out);

/** Destroys a generator; fills under way finish. NULL is accepted. */
ACRE_API void acre_generator_destroy(acre_generator *generator);

/** An independent copy: same engine, state and device label.
 *  Errors: ACRE_ERR_STATE (in capture), ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_generator_clone(acre_generator *generator, acre_generator **out);

/** A second generator over the same state: draws of one move the other.
 *  Allowed during capture. Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_generator_share(acre_generator *generator, acre_generator **out);

/** The generator that everybody shares for a device; index -1 is the current one.
 *
 * It is made and seeded at random on first use: mt19937 for the CPU and the
 * reference device, Philox for others. It belongs to the library: do not
 * destroy it. Errors: those of acre_device_get(), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_generator_default(acre_device_type type, int index,
                                            acre_generator **out);

/** Destroys all default generators; nobody may use one any more. For programs
 *  that count what they leave behind. */
ACRE_API void acre_generator_default_clear(void);

/** The device label of a generator; index -1 for NULL. */
ACRE_API acre_device_id acre_generator_device(const acre_generator *generator);

/** Sets the seed. Philox: the offset becomes 0. mt19937: uses the low 32 bits
 *  only (the whole seed is reported), and forgets cached normals.
 *  Errors: ACRE_ERR_STATE (in capture, another seed). */
ACRE_API acre_status acre_generator_set_seed(acre_generator *generator, uint64_t seed);

/** The seed as it was given. Errors: ACRE_ERR_INVALID (NULL). */
ACRE_API acre_status acre_generator_get_seed(acre_generator *generator, uint64_t *out);

/** Seeds from the operating system: 53 bits for Philox, 64 for mt19937.
 *
 * @p out_seed may be NULL.
 * Errors: ACRE_ERR_STATE (in capture), ACRE_ERR_IO (no random numbers).
 */
ACRE_API acre_status acre_generator_seed_random(acre_generator *generator, uint64_t *out_seed);

/** The offset in 32-bit draws, a multiple of 4.
 *  Errors: ACRE_ERR_UNSUPPORTED (mt19937), ACRE_ERR_STATE (in capture). */
ACRE_API acre_status acre_generator_get_offset(acre_generator *generator, uint64_t *out);

/** Sets the offset. Errors: ACRE_ERR_INVALID (not a multiple of 4),
 *  ACRE_ERR_UNSUPPORTED (mt19937), ACRE_ERR_STATE (in capture). */
ACRE_API acre_status acre_generator_set_offset(acre_generator *generator, uint64_t offset);

/** Takes @p words draws, rounded up to 4, and gives the offset they start at.
 *  Errors: ACRE_ERR_RANGE (past 2^64), ACRE_ERR_UNSUPPORTED (mt19937). */
ACRE_API acre_status acre_generator_advance(acre_generator *generator, uint64_t words,
                                            uint64_t *out_offset);

/** Bytes that acre_generator_get_state() writes; 0 for NULL. */
ACRE_API size_t acre_generator_state_bytes(const acre_generator *generator);

/** Writes the state; @p bytes is acre_generator_state_bytes().
 *
 * mt19937, native endian: u64 seed at 0, i32 left at 8, i32 seeded at 12, u64
 * next at 16, 624 u64 words at 24, three doubles at 5016 (the second is the
 * cached normal), i32 "it is valid" at 5040, float cached normal at 5048, byte
 * "it is valid" at 5052. The rest is zero.
 * Errors: ACRE_ERR_INVALID (size), ACRE_ERR_STATE (in capture).
 */
ACRE_API acre_status acre_generator_get_state(acre_generator *generator, void *out,
                                              size_t bytes);

/** Sets the state; a refused one changes nothing.
 *
 * Philox takes 16 bytes, or 8 (the seed alone: offset 0).
 * Errors: ACRE_ERR_INVALID (size, offset not a multiple of 4),
 *         ACRE_ERR_FORMAT (not a state of mt19937), ACRE_ERR_STATE (in capture).
 */
ACRE_API acre_status acre_generator_set_state(acre_generator *generator, const void *state,
                                              size_t bytes);

/** Draws words on the host; with Philox the words from the offset on.
 *  Errors: ACRE_ERR_INVALID (NULL), ACRE_ERR_RANGE (offset past 2^64). */
ACRE_API acre_status acre_generator_random32(acre_generator *generator, uint32_t *out,
                                             size_t count);

/** Draws 64-bit numbers on the host, each (first word << 32) | second word.
 *  Errors: as acre_generator_random32(). */
ACRE_API acre_status acre_generator_random64(acre_generator *generator, uint64_t *out,
                                             size_t count);

/* ---- Fills ------------------------------------------------------------------------ */

/** Type of the elements of a fill. */
typedef enum acre_real_type {
    ACRE_REAL_F32 = 1, /**< float  */
    ACRE_REAL_F64 = 2, /**< double */
} acre_real_type;

/** Where the numbers of a fill go. */
typedef struct acre_fill {
    acre_device *device; /**< NULL: dst is host memory, filled before the call returns.     */
    void *stream;        /**< Native stream that runs the fill; see acre_launch_kernel().   */
    void *dst;           /**< Memory of the device, aligned to its elements; it must stay
                              until the stream has run the fill.                            */
    size_t count;        /**< Elements; 0 draws nothing.                                    */
    acre_real_type type; /**< What they are.                                                */
} acre_fill;

/** Fills with numbers from [low, high), or with low when both are equal.
 *
 * On a device with ACRE_CAP_LAUNCH the fill is queued on the stream; on the
 * CPU device it runs at once. A failed call draws nothing.
 * Errors: ACRE_ERR_INVALID (dst is not memory of the device, sizes, bounds),
 *         ACRE_ERR_UNSUPPORTED (the device can do neither; mt19937 in capture),
 *         ACRE_ERR_STATE (the stream is in a capture this generator is not part
 *         of), ACRE_ERR_RANGE, ACRE_ERR_HOST_MEMORY and what the launch answers.
 */
ACRE_API acre_status acre_generator_uniform(acre_generator *generator, const acre_fill *fill,
                                            double low, double high);

/** Fills with numbers of a normal distribution; deviation is not negative.
 *  Errors: as acre_generator_uniform(). */
ACRE_API acre_status acre_generator_normal(acre_generator *generator, const acre_fill *fill,
                                           double mean, double deviation);

/* ---- Capture ---------------------------------------------------------------------- */

/** What one capture draws from one generator. */
typedef struct acre_generator_capture acre_generator_capture;

/** Makes a Philox generator part of the capture that @p stream is in.
 *
 * Fills on streams of that capture then count from an offset that starts at 0
 * and is added, at each replay, to the offset the generator has by then. One
 * capture at a time per generator.
 * Errors: ACRE_ERR_STATE (the stream is not in capture; already part of one),
 *         ACRE_ERR_UNSUPPORTED (mt19937, no capture), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_generator_capture_begin(acre_generator *generator,
                                                  acre_device *device, void *stream,
                                                  acre_generator_capture **out);

/** Ends it; call it before or after acre_capture_end(). @p out_words may be NULL
 *  and gets the draws of one replay. Errors: ACRE_ERR_STATE (ended before). */
ACRE_API acre_status acre_generator_capture_end(acre_generator_capture *capture,
                                                uint64_t *out_words);

/** Queues the seed and offset of the next launch of the graph on @p stream, and
 *  advances the generator. Call it before each acre_graph_launch() on that
 *  stream; launches of one graph must not overlap.
 *  Errors: ACRE_ERR_STATE (not ended), ACRE_ERR_RANGE, those of the launch. */
ACRE_API acre_status acre_generator_capture_replay(acre_generator_capture *capture,
                                                   acre_device *device, void *stream);

/** Drops it, after the graph and its launches are gone. NULL is accepted. */
ACRE_API void acre_generator_capture_destroy(acre_generator_capture *capture);

ACRE_END_DECLS

#endif
