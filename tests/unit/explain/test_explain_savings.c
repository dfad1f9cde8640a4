/* SPDX-License-Identifier: MIT */
/* Savings are computed from layers, passes and sizes of a recording. */
#include "explain/savings.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* Stacks of the scene. */
enum { LAYER_FIRST, LAYER_LAST, HEAD, BACKWARD, OPTIMIZER };

static const char frames[] =
    "\"frames\": [{\"filename\": \"/a/b/model.py\", \"line\": 10, \"name\": \"forward\"},"
    "{\"filename\": \"/a/b/model.py\", \"line\": 11, \"name\": \"forward\"},"
    "{\"filename\": \"/a/b/model.py\", \"line\": 30, \"name\": \"forward\"},"
    "{\"filename\": \"/a/b/train.py\", \"line\": 5, \"name\": \"backward\"},"
    "{\"filename\": \"/x/torch/optim/adam.py\", \"line\": 9, \"name\": \"step\"}],"
    "\"stacks\": [[0], [1], [2], [3], [4]]";

/* A snapshot in the making: every block lies behind the one before it and stays live. */
static struct {
    char blocks[8192], events[8192];
    size_t blocks_length, events_length;
    uint64_t bytes;
} scene;

static void scene_alloc(uint64_t mib, int stack)
{
    unsigned long long bytes = mib * MIB;
    const char *comma = scene.bytes ? "," : "";

    scene.blocks_length += (size_t)snprintf(
        scene.blocks + scene.blocks_length, sizeof scene.blocks - scene.blocks_length,
        "%s{\"size\": %llu, \"state\": \"active_allocated\", \"stack\": %d}", comma, bytes, stack);
    scene.events_length += (size_t)snprintf(
        scene.events + scene.events_length, sizeof scene.events - scene.events_length,
        "%s{\"action\": \"alloc\", \"addr\": %llu, \"size\": %llu, \"stream\": 0, \"stack\": %d}",
        comma, (unsigned long long)(MIB + scene.bytes), bytes, stack);
    scene.bytes += bytes;
}

/* Ends the scene with a failed request of a stack, and computes. */
static struct savings scene_compute(int stack, struct notes *notes)
{
    static char text[32768];
    struct snapshot *snapshot = NULL;
    struct device_state *state = NULL;
    struct savings savings;
    uint64_t event;

    snprintf(text, sizeof text,
             "{%s, \"segments\": [{\"device\": 0, \"address\": %llu, \"total_size\": %llu,"
             " \"allocated_size\": %llu, \"active_size\": %llu, \"stream\": 0,"
             " \"segment_type\": \"large\", \"blocks\": [%s]}], \"device_traces\": [[%s,"
             " {\"action\": \"oom\", \"device_free\": 0, \"size\": 1048576, \"stream\": 0,"
             " \"stack\": %d}]]}",
             frames, (unsigned long long)MIB, (unsigned long long)scene.bytes,
             (unsigned long long)scene.bytes, (unsigned long long)scene.bytes, scene.blocks,
             scene.events, stack);
    REQUIRE_OK(snapshot_read(files_write("savings.json", text, strlen(text)), &snapshot));
    event = snapshot->devices[0].entry_count - 1;
    REQUIRE_OK(device_state_create(snapshot, 0, event, &snapshot_history(snapshot, 0)[event],
                                   &state));
    REQUIRE_OK(savings_compute(snapshot, 0, state, notes, &savings));
    device_state_destroy(state);
    snapshot_destroy(snapshot);
    memset(&scene, 0, sizeof scene);
    return savings;
}

TEST(a_training_step_is_taken_apart)
{
    struct notes notes = {0};

    scene_alloc(8, BACKWARD);
    scene_alloc(16, OPTIMIZER);
    for (int i = 0; i < 4; i++) {
        scene_alloc(4, LAYER_FIRST);
        scene_alloc(2, LAYER_LAST);
    }
    scene_alloc(12, HEAD);
    scene_alloc(8, BACKWARD);
    scene_alloc(6, OPTIMIZER);
    struct savings savings = scene_compute(OPTIMIZER, &notes);
    EXPECT_EQ(savings.batch_bytes, 18 * MIB);
    /* 24 MiB in layers; four times 2 MiB are kept, and 6 MiB are there while one is recomputed */
    EXPECT_EQ(savings.layer_count, 4);
    EXPECT_EQ(savings.checkpoint_bytes, 10 * MIB);
    EXPECT_EQ(savings.old_gradient_bytes, 8 * MIB);
    EXPECT_EQ(savings.temporary_bytes, 6 * MIB);
    /* a quarter stays, and 4 bytes for each 256 numbers */
    EXPECT_EQ(savings.optimizer_bytes, 12 * MIB - 16 * MIB / 256);
    EXPECT_EQ(savings.large_bytes, 12 * MIB);
    EXPECT_STR_EQ(savings.large_text, "forward (b/model.py:30)");
    notes_fini(&notes);
}

TEST(in_a_forward_pass_every_gradient_is_old)
{
    struct notes notes = {0};

    scene_alloc(4, HEAD);
    scene_alloc(8, BACKWARD);
    struct savings savings = scene_compute(HEAD, &notes);
    EXPECT_EQ(savings.old_gradient_bytes, 8 * MIB);
    scene_alloc(4, HEAD);
    scene_alloc(8, BACKWARD);
    savings = scene_compute(BACKWARD, &notes);
    EXPECT_EQ(savings.old_gradient_bytes, 0);
    notes_fini(&notes);
}

TEST(layers_of_a_recorded_network_are_found)
{
    const char *path = t_shared("snapshots/Wedsonlin-assignment2-systems-results-"
                                "medium_512_training_memory_snapshot.pickle.gz");
    struct notes notes = {0};
    struct snapshot *snapshot = NULL;
    struct device_state *state = NULL;
    struct savings savings;
    uint64_t event;

    if (!path)
        T_SKIP("no snapshots at hand");
    REQUIRE_OK(snapshot_read(path, &snapshot));
    REQUIRE_OK(device_state_of_peak(snapshot, 0, &event));
    REQUIRE_OK(device_state_create(snapshot, 0, event, NULL, &state));
    REQUIRE_OK(savings_compute(snapshot, 0, state, &notes, &savings));
    EXPECT_EQ(savings.layer_count, 24);
    EXPECT(savings.checkpoint_bytes < state->categories[CATEGORY_ACTIVATIONS]);
    EXPECT(savings.checkpoint_bytes > state->categories[CATEGORY_ACTIVATIONS] / 4 * 3);
    device_state_destroy(state);
    snapshot_destroy(snapshot);
    notes_fini(&notes);
}

TEST(two_repetitions_are_no_layers)
{
    struct notes notes = {0};

    for (int i = 0; i < 2; i++) {
        scene_alloc(4, LAYER_FIRST);
        scene_alloc(2, LAYER_LAST);
    }
    scene_alloc(3, OPTIMIZER); /* the first step makes the state: nothing is temporary */
    struct savings savings = scene_compute(OPTIMIZER, &notes);
    EXPECT_EQ(savings.layer_count, 0);
    EXPECT_EQ(savings.checkpoint_bytes, 0);
    EXPECT_EQ(savings.temporary_bytes, 0);
    notes_fini(&notes);
}

T_MAIN()
