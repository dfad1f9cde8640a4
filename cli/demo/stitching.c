/* SPDX-License-Identifier: MIT */
/* The stop of the demo that shows fragmentation: half of the memory is free, in
 * holes, and a request for less than that fails on plain segments. Stitched pages
 * serve it. */
#include "cli/text/print.h"
#include "cli/demo/tour.h"

#include <stdlib.h>
#include <string.h>

#define MIB    ((size_t)1 << 20)
#define PAGE   (2 * MIB)
#define HELD   32                      /* blocks of a page: all that may be held */
#define WANTED ((HELD / 2 - 2) * PAGE) /* less than what the holes have          */

static bool stitching_fill(acre_device *device, void *block, char *host, int value, size_t bytes)
{
    memset(host, value, bytes);
    return acre_copy(device, block, host, bytes, ACRE_COPY_HOST_TO_DEVICE) == ACRE_OK;
}

static bool is_filled(acre_device *device, const void *block, char *host, int value, size_t bytes)
{
    if (acre_copy(device, host, block, bytes, ACRE_COPY_DEVICE_TO_HOST) != ACRE_OK)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != value)
            return false;
    return true;
}

/* Fills every block that is live with a value of its own, then looks: no byte is in
 * two blocks. large may be NULL. */
static bool contents_hold(acre_device *device, void *const *blocks, void *large)
{
    char *host = malloc(WANTED);
    bool holds = host != NULL;

    for (int i = 0; i < HELD && holds; i += 2)
        holds = stitching_fill(device, blocks[i], host, i, PAGE);
    if (holds && large)
        holds = stitching_fill(device, large, host, HELD, WANTED);
    for (int i = 0; i < HELD && holds; i += 2)
        holds = is_filled(device, blocks[i], host, i, PAGE);
    if (holds && large)
        holds = is_filled(device, large, host, HELD, WANTED);
    free(host);
    return holds;
}

/* Fills what may be held with blocks of a page, frees every second one and asks for
 * most of that in one piece. */
static bool stitching_fragment(struct tour *tour, const char *conf, acre_status *out_status,
                               bool *out_holds, acre_cache_stats *stats)
{
    acre_cache_config config = {.struct_size = sizeof config,
                                .policy = ACRE_POLICY_ACRE,
                                .conf = conf,
                                .limit_bytes = HELD * PAGE,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    void *blocks[HELD], *whole, *large = NULL;
    acre_cache *cache;

    TRY(acre_cache_create(tour->device[0], &config, &cache));
    TRY(acre_cache_alloc(cache, HELD * PAGE, NULL, &whole)); /* one segment */
    TRY(acre_cache_free(cache, whole));
    for (int i = 0; i < HELD; i++)
        TRY(acre_cache_alloc(cache, PAGE, NULL, &blocks[i]));
    for (int i = 1; i < HELD; i += 2)
        TRY(acre_cache_free(cache, blocks[i]));
    *out_status = acre_cache_alloc(cache, WANTED, NULL, &large);
    *out_holds = contents_hold(tour->device[0], blocks, large);
    stats->struct_size = sizeof *stats;
    TRY(acre_cache_stats_get(cache, stats));
    if (large)
        TRY(acre_cache_free(cache, large));
    for (int i = 0; i < HELD; i += 2)
        TRY(acre_cache_free(cache, blocks[i]));
    acre_cache_destroy(cache);
    return true;
}

bool tour_stitching(struct tour *tour)
{
    acre_cache_stats plain, stitched;
    acre_status on_plain, on_stitched;
    bool plain_holds, stitched_holds;
    acre_device_info info = {.struct_size = sizeof info};

    report_say(tour->report,
               "A job holds all it may; half of that is free, in holes. On plain segments a "
               "request for most of it fails. Stitched memory maps the free pages side by "
               "side at new addresses and serves it, without a byte more.");
    TRY(acre_device_info_get(tour->device[0], &info));
    if (info.page_bytes != PAGE) {
        report_fact(tour->report, "left out", "pages of this device are not of %s",
                    print_bytes(PAGE));
        return true;
    }
    if (!stitching_fragment(tour, "stitched_memory:False", &on_plain, &plain_holds, &plain) ||
        !stitching_fragment(tour, "", &on_stitched, &stitched_holds, &stitched))
        return false;
    report_fact(tour->report, "held, and free in holes", "%s, %s", print_bytes(HELD * PAGE),
                print_bytes(HELD / 2 * PAGE));
    report_fact(tour->report, "asked for in one piece", "%s", print_bytes(WANTED));
    report_fact(tour->report, "on plain segments", "%s", acre_status_name(on_plain));
    report_fact(tour->report, "stitched", "%s, all contents right: %s",
                acre_status_name(on_stitched), stitched_holds ? "yes" : "no");
    report_fact(tour->report, "held at most, stitched", "%s",
                print_bytes((uint64_t)stitched.reserved_bytes.all.peak));
    EXPECT(on_plain == ACRE_ERR_DEVICE_MEMORY && plain_holds);
    EXPECT(on_stitched == ACRE_OK && stitched_holds);
    EXPECT(stitched.reserved_bytes.all.peak <= (int64_t)(HELD * PAGE));
    return true;
}
