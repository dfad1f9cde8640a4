/* SPDX-License-Identifier: MIT */
/* Every kind of memory with every feature and every pair of features, on every backend that is
 * here: contents are verified, each cell works or answers ACRE_ERR_UNSUPPORTED and changes nothing,
 * and device calls and host allocations fail in turn. The table is compared with
 * docs/FEATURES.md; ACRE_FEATURES_WRITE=1 writes it there. */
#include "base/heap.h"
#include "tests/support/features/stage.h"
#include "tests/support/standin_bed.h"

#include <stdarg.h>

static const char *const backends[] = {"sim", "host", "cuda", "hip"};
enum { BACKENDS = 4 };

#define SIM "devices:2,memory:64MiB"

static acre_backend *ground_open(const char *name)
{
    acre_sim_config config = {.struct_size = sizeof config};
    acre_backend *backend = NULL;

    if (strcmp(name, "host") == 0) {
        REQUIRE_OK(acre_backend_find("host", &backend));
    } else if (strcmp(name, "sim") == 0) {
        REQUIRE_OK(acre_sim_parse(SIM, &config));
        config.name = "features";
        REQUIRE_OK(acre_sim_create(&config, &backend));
    } else {
        standin_use_vendor(name);
        REQUIRE_OK(standin_backend(name, SIM, &backend));
    }
    return backend;
}

static void ground_close(const char *name, acre_backend *backend)
{
    if (strcmp(name, "host") == 0)
        return;
    if (strcmp(name, "sim") == 0) {
        acre_sim_usage usage = {.struct_size = sizeof usage};
        REQUIRE_OK(acre_sim_usage_get(backend, &usage));
        EXPECT_EQ(usage.alloc_count, 0);
        EXPECT_EQ(usage.event_count, 0);
        EXPECT_EQ(usage.graph_count, 0);
    }
    acre_backend_unregister(backend);
    if (strcmp(name, "sim") != 0)
        standin_end();
}

/* ---- The table ---------------------------------------------------------------------------- */

static char works[BACKENDS][KIND_COUNT][FEATURE_COUNT]; /* 'y', 'n', or '-': no such memory */

/* Runs features on a new stage; whatever they answer, nothing is damaged and nothing is left. */
static acre_status run_cell(acre_backend *backend, enum kind kind, const enum feature *features,
                            int count)
{
    struct stage stage;
    acre_status status = stage_open(&stage, backend, kind);

    if (status == ACRE_OK)
        status = stage_run(&stage, features, count);
    if (status == ACRE_ERR_UNSUPPORTED && stage.has_contents)
        EXPECT_EQ(stage_verify(&stage), ACRE_OK);
    stage_close(&stage);
    return status;
}

/* Every feature alone, then every pair: two features that work alone work together. */
static void fill_table(int b, acre_backend *backend)
{
    for (int k = 0; k < KIND_COUNT; k++) {
        struct stage stage;
        acre_status status = stage_open(&stage, backend, (enum kind)k);
        EXPECT(status == ACRE_OK || status == ACRE_ERR_UNSUPPORTED);
        stage_close(&stage);
        memset(works[b][k], status == ACRE_OK ? 'n' : '-', FEATURE_COUNT);
        for (int f = 0; f < FEATURE_COUNT && status == ACRE_OK; f++)
            for (int g = -1; g < f; g++) {
                enum feature pair[2] = {(enum feature)f, (enum feature)(g < 0 ? f : g)};
                acre_status found = run_cell(backend, (enum kind)k, pair, g < 0 ? 1 : 2);
                if (g < 0)
                    works[b][k][f] = found == ACRE_OK ? 'y' : 'n';
                bool is_expected = works[b][k][f] == 'y' && (g < 0 || works[b][k][g] == 'y');
                if (found != (is_expected ? ACRE_OK : ACRE_ERR_UNSUPPORTED))
                    t_fail(__FILE__, __LINE__, "%s, %s: %s with %s: %s (%s)", backends[b],
                           kind_names[k], feature_names[f],
                           g < 0 ? "nothing" : feature_names[g], acre_status_name(found),
                           acre_last_error());
            }
    }
}

/* Why a cell says no: each is written here, and in the file. */
static const char *reason_of(const char *backend, enum kind kind, enum feature feature)
{
    bool is_host = strcmp(backend, "host") == 0;

    if (feature == FEATURE_SUB_STREAMS)
        return "d";
    if (is_host && (feature == FEATURE_CAPTURE || feature == FEATURE_RECORDING ||
                    feature == FEATURE_RECORD_STREAM || feature == FEATURE_PEERS))
        return "c";
    if (kind == KIND_ORDERED)
        return "a";
    if (feature == FEATURE_SLEEP)
        return "b";
    if (feature == FEATURE_CHECKPOINT && kind == KIND_STITCHED)
        return "e";
    if (feature == FEATURE_SHARE)
        return "f";
    return "?";
}

static const char head[] =
    "# What goes with what\n"
    "\n"
    "Kinds of memory, and features of caches on them. Each cell and each pair of features was run\n"
    "with contents verified. On the reference device each cell was also run with every device\n"
    "call and every host allocation failing in turn, and each pair with some of them failing.\n"
    "A feature that says no answers `ACRE_ERR_UNSUPPORTED` and changes nothing. Two features\n"
    "that say yes on a kind of memory work together there, whichever two they are.\n"
    "\n"
    "`tests/model/test_features.c` writes this file and compares it: run it with\n"
    "`ACRE_FEATURES_WRITE=1` after a change. `cuda` and `hip` were run on stand-ins for the\n"
    "drivers. Sub-streams are streams of green contexts.\n";
static const char tail[] =
    "\n"
    "- a: stream-ordered memory lies in pools of the driver, which offers nothing of this kind.\n"
    "- b: plain segments cannot leave their addresses and come back; only mapped pages can. Make\n"
    "  the pool with `ACRE_POOL_STITCHED`, or set `expandable_segments:True`.\n"
    "- c: host memory is a device without streams and peers.\n"
    "- d: the device has no green contexts, whose streams are meant here.\n"
    "- e: stitched memory joins free pages at new addresses and takes them apart, so the division\n"
    "  of an earlier moment cannot be made again.\n"
    "- f: the device does not share memory of this kind between processes.\n";

static char text[16384];

static size_t add(size_t at, const char *format, ...) __attribute__((format(printf, 2, 3)));
static size_t add(size_t at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    at += (size_t)vsnprintf(text + at, sizeof text - at, format, args);
    va_end(args);
    return at;
}

static void write_text(void)
{
    size_t at = add(0, "%s", head);

    for (int b = 0; b < BACKENDS; b++) {
        at = add(at, "\n## %s\n\n| |", backends[b]);
        for (int f = 0; f < FEATURE_COUNT; f++)
            at = add(at, " %s |", feature_names[f]);
        at = add(at, "\n|---|");
        for (int f = 0; f < FEATURE_COUNT; f++)
            at = add(at, "---|");
        for (int k = 0; k < KIND_COUNT; k++) {
            if (works[b][k][0] == '-')
                continue; /* the device has no such memory */
            at = add(at, "\n| %s |", kind_names[k]);
            for (int f = 0; f < FEATURE_COUNT; f++) {
                bool is_yes = works[b][k][f] == 'y';
                const char *reason =
                    is_yes ? "" : reason_of(backends[b], (enum kind)k, (enum feature)f);
                if (*reason == '?')
                    t_fail(__FILE__, __LINE__, "%s, %s: %s says no without a reason", backends[b],
                           kind_names[k], feature_names[f]);
                at = add(at, " %s%s |", is_yes ? "yes" : "no: ", reason);
            }
        }
        at = add(at, "\n");
    }
    add(at, "%s", tail);
}

TEST(every_cell_is_as_the_file_says)
{
    static char found[sizeof text];
    const char *path = ACRE_SOURCE "/docs/FEATURES.md";

    for (int b = 0; b < BACKENDS; b++) {
        acre_backend *backend = ground_open(backends[b]);
        fill_table(b, backend);
        ground_close(backends[b], backend);
    }
    write_text();
    FILE *file = fopen(path, getenv("ACRE_FEATURES_WRITE") ? "w+" : "r");
    REQUIRE(file);
    if (getenv("ACRE_FEATURES_WRITE")) {
        fputs(text, file);
        rewind(file);
    }
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    fclose(file);
    if (strcmp(text, found) != 0)
        printf("%s", text);
    EXPECT(strcmp(text, found) == 0);
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* One run with the nth device call or host allocation failing. Returns false when there was no
 * such call any more. */
static bool fail_once(acre_backend *backend, enum kind kind, const enum feature *features,
                      int count, uint64_t nth, bool is_heap)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ANY, .nth = nth};
    uint64_t before = heap_live_count();
    struct stage stage;

    if (is_heap)
        heap_fail_nth(nth);
    else
        REQUIRE_OK(acre_sim_fault_arm(backend, &fault));
    acre_status status = stage_open(&stage, backend, kind);
    if (status == ACRE_OK)
        status = stage_run(&stage, features, count);
    bool is_hit = is_heap ? heap_fail_disarm() : acre_sim_fault_disarm(backend) > 0;
    if (!is_hit)
        EXPECT(status == ACRE_OK || status == ACRE_ERR_UNSUPPORTED);
    stage_close(&stage);
    EXPECT(heap_live_count() <= before + 64); /* what the library keeps for later */
    acre_sim_usage usage = {.struct_size = sizeof usage};
    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    if (usage.alloc_count)
        t_fail(__FILE__, __LINE__, "%s, %s with %s: %llu allocations left when call %llu fails: %s",
               kind_names[kind], feature_names[features[0]], feature_names[features[count - 1]],
               (unsigned long long)usage.alloc_count, (unsigned long long)nth,
               acre_status_name(status));
    return is_hit;
}

/* How many failures a cell is given; fewer than 1,000 are drawn instead of counted up. A
 * sanitizer takes seconds for what else takes milliseconds, so its short form draws a few. */
static uint64_t fail_count(bool are_pairs)
{
    if (t_slowness() > 1 && !getenv("ACRE_TEST_LONG"))
        return are_pairs ? 1 : 6;
    return are_pairs ? t_count(2, 1000) : 1000;
}

static void fail_cells(bool is_heap, bool are_pairs)
{
    acre_backend *backend = ground_open("sim");
    uint64_t seed = t_seed();

    for (int k = 0; k < KIND_ORDERED; k++)
        for (int f = 0; f < FEATURE_COUNT; f++)
            for (int g = are_pairs ? 0 : f; g <= (are_pairs ? f - 1 : f); g++) {
                enum feature pair[2] = {(enum feature)f, (enum feature)g};
                uint64_t runs = fail_count(are_pairs);
                bool is_sample = runs < 1000;
                for (uint64_t nth = 1; nth <= runs; nth++) {
                    uint64_t which = is_sample ? 1 + t_random(&seed) % 60 : nth;
                    if (!fail_once(backend, (enum kind)k, pair, are_pairs ? 2 : 1, which,
                                   is_heap) &&
                        !is_sample)
                        break;
                }
            }
    ground_close("sim", backend);
}

TEST(every_device_call_may_fail)
{
    fail_cells(false, false);
}

TEST(every_host_allocation_may_fail)
{
    fail_cells(true, false);
}

TEST(device_calls_may_fail_in_every_pair)
{
    fail_cells(false, true);
}

TEST(host_allocations_may_fail_in_every_pair)
{
    fail_cells(true, true);
}

T_MAIN()
