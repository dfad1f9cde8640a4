/* SPDX-License-Identifier: MIT */
/* The stop of the demo that fills the pictures of its report: a small training
 * loop on each device, every allocation of which is told to the view.
 *
 * Weights stay; each step allocates activations forward and gives them back
 * backward, with workspaces in between and a batch that a second stream brings
 * along; the first step leaves the state of the optimizer behind. */
#include "cli/text/print.h"
#include "cli/demo/tour.h"

#include <string.h>
#include <time.h>

#define LAYERS 12
#define STEPS  6
#define KIB    1024u
#define MIB    (1024u * KIB)

struct training_piece {
    void *pointer;
    uint64_t bytes;
};

struct training {
    struct tour *tour;
    acre_cache *cache;
    int device;           /* number, in the view too              */
    void *streams[2];     /* of the work, and of the batches      */
    int64_t device_calls; /* of the cache, when last looked       */
    struct training_piece weights[LAYERS], moments[LAYERS], activations[LAYERS], batch;
    uint64_t count;    /* of allocations                       */
    uint64_t began_us; /* times in the view count from here    */
};

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Tells the view about segments when the cache went to the device. */
static bool training_look(struct training *training)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_cache_layout *layout;

    TRY(acre_cache_stats_get(training->cache, &stats));
    int64_t calls = stats.num_device_alloc + stats.num_device_free;
    if (calls == training->device_calls)
        return true;
    training->device_calls = calls;
    TRY(acre_cache_layout_create(training->cache, &layout));
    acre_status status =
        acre_view_layout_add(report_view(training->tour->report), training->device, layout);
    acre_cache_layout_destroy(layout);
    TRY(status);
    return true;
}

static bool training_take(struct training *training, int stream, uint64_t bytes, const char *what,
                          const char *where, struct training_piece *out)
{
    acre_view *view = report_view(training->tour->report);
    acre_view_frame frames[] = {{what, "cli/demo/training.c", 0},
                                {where, "cli/demo/training.c", 0},
                                {"training step", "cli/demo/training.c", 0}};
    acre_view_event event = {.action = ACRE_VIEW_ALLOC,
                             .device = training->device,
                             .bytes = bytes,
                             .time_us = now_us() - training->began_us,
                             .stream = (uint64_t)(uintptr_t)training->streams[stream]};

    TRY(acre_cache_alloc(training->cache, bytes, training->streams[stream], &out->pointer));
    out->bytes = bytes;
    training->count++;
    if (!training_look(training))
        return false;
    TRY(acre_view_stack_add(view, frames, 3, &event.stack));
    TRY(acre_cache_block_bytes(training->cache, out->pointer, &event.block_bytes));
    event.address = (uint64_t)(uintptr_t)out->pointer;
    TRY(acre_view_event_add(view, &event));
    return true;
}

static bool training_give(struct training *training, int stream, struct training_piece *piece)
{
    acre_view_event event = {.action = ACRE_VIEW_FREE_COMPLETED,
                             .device = training->device,
                             .address = (uint64_t)(uintptr_t)piece->pointer,
                             .bytes = piece->bytes,
                             .time_us = now_us() - training->began_us,
                             .stream = (uint64_t)(uintptr_t)training->streams[stream]};

    if (!piece->pointer)
        return true;
    TRY(acre_cache_free(training->cache, piece->pointer));
    piece->pointer = NULL;
    TRY(acre_view_event_add(report_view(training->tour->report), &event));
    return true;
}

static bool run_forward(struct training *training, int step)
{
    struct training_piece workspace;
    char where[32];

    for (int i = 0; i < LAYERS; i++) {
        uint64_t rows = 6 + (uint64_t)(step * 5) % 4; /* the batch varies */
        snprintf(where, sizeof where, "layer %d forward", i);
        if (!training_take(training, 0, rows * 512 * KIB + (uint64_t)i * 64 * KIB, "activation",
                           where, &training->activations[i]) ||
            !training_take(training, 0, (2 + (uint64_t)i % 3) * MIB, "workspace", where,
                           &workspace) ||
            !training_give(training, 0, &workspace))
            return false;
    }
    return true;
}

static bool run_backward(struct training *training, int step)
{
    struct training_piece gradient;
    char where[32];

    for (int i = LAYERS - 1; i >= 0; i--) {
        snprintf(where, sizeof where, "layer %d backward", i);
        if (!training_take(training, 0, 4 * MIB, "gradient", where, &gradient) ||
            !training_give(training, 0, &training->activations[i]))
            return false;
        if (step == 0 &&
            !training_take(training, 0, 8 * MIB, "optimizer state", where, &training->moments[i]))
            return false;
        if (!training_give(training, 0, &gradient))
            return false;
    }
    return true;
}

static bool run_step(struct training *training, int step)
{
    char name[32];
    acre_view_event mark = {.action = ACRE_VIEW_MARK,
                            .device = training->device,
                            .text = name,
                            .time_us = now_us() - training->began_us};
    struct training_piece next;

    snprintf(name, sizeof name, "step %d", step + 1);
    TRY(acre_view_event_add(report_view(training->tour->report), &mark));
    return training_take(training, 1, 3 * MIB, "batch", "copy to the device", &next) &&
           run_forward(training, step) && run_backward(training, step) &&
           training_give(training, 1, &training->batch) && (training->batch = next, true);
}

static bool run_device(struct training *training, uint64_t *peaks)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    char where[32];

    for (int i = 0; i < LAYERS; i++) {
        snprintf(where, sizeof where, "layer %d", i);
        if (!training_take(training, 0, 4 * MIB, "weights", where, &training->weights[i]))
            return false;
    }
    for (int step = 0; step < STEPS; step++)
        if (!run_step(training, step))
            return false;
    TRY(acre_cache_stats_get(training->cache, &stats));
    peaks[0] = (uint64_t)stats.allocated_bytes.all.peak;
    peaks[1] = (uint64_t)stats.reserved_bytes.all.peak;
    for (int i = 0; i < LAYERS; i++)
        if (!training_give(training, 0, &training->moments[i]) ||
            !training_give(training, 0, &training->weights[i]))
            return false;
    if (!training_give(training, 1, &training->batch))
        return false;
    TRY(acre_cache_empty(training->cache));
    return training_look(training);
}

bool tour_training(struct tour *tour)
{
    acre_cache_config config = {.struct_size = sizeof config, .flags = ACRE_CACHE_NO_ENVIRONMENT};
    uint64_t peaks[2] = {0, 0}, count = 0;

    report_say(tour->report,
               "A small training loop on both devices, told to a view as it runs: weights that "
               "stay, activations that come and go, a batch on a second stream. The report "
               "shows every allocation over time; \"acre view\" makes the same page of a "
               "recording.");
    for (int i = 0; i < 2; i++) {
        struct training training = {.tour = tour, .device = i, .began_us = now_us()};
        TRY(acre_stream_native_create(tour->device[i], 0, 0, &training.streams[1]));
        TRY(acre_cache_create(tour->device[i], &config, &training.cache));
        bool is_fine = run_device(&training, peaks);
        acre_cache_destroy(training.cache);
        TRY(acre_stream_native_destroy(tour->device[i], training.streams[1]));
        if (!is_fine)
            return false;
        count += training.count;
    }
    report_fact(tour->report, "allocations told", "%llu", (unsigned long long)count);
    report_fact(tour->report, "most allocated on a device", "%s", print_bytes(peaks[0]));
    report_fact(tour->report, "most held from it", "%s", print_bytes(peaks[1]));
    EXPECT(count == 2 * (LAYERS * 2 + STEPS * (3 * LAYERS + 1)) && peaks[0] <= peaks[1]);
    return true;
}
