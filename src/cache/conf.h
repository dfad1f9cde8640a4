/* SPDX-License-Identifier: MIT */
/* Options of a cache: values, where they come from, and the table that reads
 * them from PyTorch's grammar (base/conf.h).
 *
 * Values are read under the cache's lock; reading a string happens in a copy,
 * without the lock. A bad string changes nothing.
 */
#ifndef SRC_CACHE_CONF_H
#define SRC_CACHE_CONF_H

#include <acre/cache.h>

/* Entries of the table of divisions; entry k serves sizes of [2^k, 2^(k+1)) MiB. */
#define CONF_DIVISION_COUNT 16

struct cache_conf {
    uint64_t large_segment_bytes;  /* of requests in (1 MiB, 10 MiB)                    */
    uint64_t max_split_bytes;      /* blocks from here on stay whole; UINT64_MAX: none  */
    uint64_t max_non_split_rounding_bytes; /* 0: cache_conf_rounding decides            */
    uint64_t pinned_max_round_threshold_bytes; /* UINT64_MAX: none                      */
    uint64_t pinned_max_cached_bytes;          /* UINT64_MAX: none                      */
    uint64_t pinned_reserve_segment_bytes;     /* 0: none                               */
    double gc_threshold;           /* share of the limit, 0: off                        */
    double memory_fraction;        /* [0, 1]                                            */
    uint32_t divisions[CONF_DIVISION_COUNT]; /* powers of two; 0 and 1: plain rounding  */
    uint32_t policy;               /* acre_policy                                       */
    uint32_t backend;              /* index in the words of option backend              */
    uint32_t pinned_num_register_threads;
    uint32_t pinned_numa_node;     /* a node, or UINT32_MAX: local, less 1: off         */
    uint32_t handle_choice;        /* index in the words of expandable_segments_handle_type */
    char snapshot_path[256];       /* snapshot_on_oom; "": none                         */
    bool is_expandable;            /* expandable_segments                               */
    bool is_rejecting;             /* throw_on_cudamalloc_oom                           */
    bool drops_lock;               /* release_lock_on_cudamalloc                        */
    bool reuses_in_capture;        /* graph_capture_record_stream_reuse                 */
    bool reuses_across_streams;    /* cross_stream_reuse                                */
    bool is_stitched;              /* stitched_memory                                   */
    bool pinned_uses_background_threads;
    bool pinned_uses_register;
    bool pinned_catches_all;
};

/* Waste allowed in a block that stays whole; default a large segment. */
static inline uint64_t cache_conf_rounding(const struct cache_conf *conf)
{
    return conf->max_non_split_rounding_bytes ? conf->max_non_split_rounding_bytes
                                              : conf->large_segment_bytes;
}

/* Sets the defaults. */
void cache_conf_init(struct cache_conf *conf);

/* Reads a string as at run time: options that PyTorch resets are reset first,
 * and the backend cannot change. out_given gets a bit per option named; it may
 * be NULL. Errors: ACRE_ERR_CONFIG, ACRE_ERR_HOST_MEMORY; conf is unchanged. */
acre_status cache_conf_read(struct cache_conf *conf, const char *source, const char *text,
                            uint64_t *out_given);

/* Sets the defaults, then reads all sources in the order include/acre/cache.h
 * gives; config may be NULL. out_text gets the string that counts as the last
 * one set; it belongs to the environment or to config. */
acre_status cache_conf_load(struct cache_conf *conf, const acre_cache_config *config,
                            const char **out_text, uint64_t *out_given);

/* Says in the log, once per process and option, which of the given options the
 * policy does not use. Call without a lock. */
void cache_conf_report_unused(acre_policy policy, uint64_t given);

/* Whether the environment forbids caching (PYTORCH_NO_CUDA_MEMORY_CACHING). */
bool cache_conf_environment_disables(void);
/* Whether it asks for stream-ordered memory instead of caches: backend:cudaMallocAsync. */
bool cache_conf_environment_is_async(void);

/* Value of an option that PyTorch writes -1 for when there is no limit. */
int64_t cache_conf_signed(uint64_t value);

struct text;
/* Writes the effective values, one option a line. */
void cache_conf_print(const struct cache_conf *conf, struct text *out);

#endif
