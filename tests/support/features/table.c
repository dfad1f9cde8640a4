/* SPDX-License-Identifier: MIT */
#include "tests/support/features/table.h"

#include "tests/support/features/ground.h"

#include <stdarg.h>

static char works[KIND_COUNT][FEATURE_COUNT]; /* 'y', 'n', or '-': no such memory */

/* ---- Running ------------------------------------------------------------------------------- */

/* Runs features on a new stage; whatever they answer, nothing is damaged and nothing is left.
 * Without a feature that is refused, everything goes on. */
static acre_status cell_run(acre_backend *backend, enum kind kind, const enum feature *features,
                            int count)
{
    struct stage stage;
    acre_status status = stage_open(&stage, backend, kind);

    if (status == ACRE_OK)
        status = stage_run(&stage, features, count);
    if (status == ACRE_ERR_UNSUPPORTED) {
        if (stage.has_contents)
            EXPECT_EQ(stage_verify(&stage), ACRE_OK);
        EXPECT_EQ(stage_run(&stage, NULL, 0), ACRE_OK);
    }
    stage_close(&stage);
    return status;
}

/* Every feature alone, then every pair: two features that work alone work together. */
static void table_fill(const char *name, acre_backend *backend)
{
    for (int k = 0; k < KIND_COUNT; k++) {
        struct stage stage;
        acre_status status = stage_open(&stage, backend, (enum kind)k);
        EXPECT(status == ACRE_OK || status == ACRE_ERR_UNSUPPORTED);
        stage_close(&stage);
        memset(works[k], status == ACRE_OK ? 'n' : '-', FEATURE_COUNT);
        for (int f = 0; f < FEATURE_COUNT && status == ACRE_OK; f++)
            for (int g = -1; g < f; g++) {
                enum feature pair[2] = {(enum feature)f, (enum feature)(g < 0 ? f : g)};
                acre_status found = cell_run(backend, (enum kind)k, pair, g < 0 ? 1 : 2);
                if (g < 0)
                    works[k][f] = found == ACRE_OK ? 'y' : 'n';
                bool is_expected = works[k][f] == 'y' && (g < 0 || works[k][g] == 'y');
                if (found != (is_expected ? ACRE_OK : ACRE_ERR_UNSUPPORTED))
                    t_fail(__FILE__, __LINE__, "%s, %s: %s with %s: %s (%s)", name, kind_names[k],
                           feature_names[f], g < 0 ? "nothing" : feature_names[g],
                           acre_status_name(found), acre_last_error());
            }
    }
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* Why a cell says no: each is written here, and in the file. */
static const char *reason_of(const char *backend, enum kind kind, enum feature feature)
{
    bool is_host = strcmp(backend, "host") == 0, is_opencl = strcmp(backend, "opencl") == 0;

    if (feature == FEATURE_SUB_STREAMS)
        return "d";
    if (is_host && (feature == FEATURE_CAPTURE || feature == FEATURE_RECORDING ||
                    feature == FEATURE_PEERS))
        return "c";
    if (is_opencl && (feature == FEATURE_CAPTURE || feature == FEATURE_RECORDING))
        return "g";
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
    "with contents verified, and also with every device call and every host allocation failing in\n"
    "turn (on `host` there are no device calls to fail; the short form of the tests draws some\n"
    "failures of pairs and of drivers, the long form takes all).\n"
    "A feature that says no answers `ACRE_ERR_UNSUPPORTED` and changes nothing. Two features\n"
    "that say yes on a kind of memory work together there, whichever two they are. A private pool\n"
    "of stitched memory is used by captures and recordings, but not allocated from while they\n"
    "last (`ACRE_ERR_STATE`): allocate before.\n"
    "\n"
    "`tests/model/test_features.c` and `test_features_opencl.c` write this file and compare it:\n"
    "run them with `ACRE_FEATURES_WRITE=1` after a change. `cuda` and `hip` were run on stand-ins\n"
    "for the drivers, `opencl` on two devices of PoCL. Sub-streams are streams of green\n"
    "contexts.\n";
static const char tail[] =
    "\n"
    "- a: stream-ordered memory lies in pools of the driver, which offers nothing of this kind.\n"
    "- b: plain segments cannot leave their addresses and come back; only mapped pages can. Make\n"
    "  the pool with `ACRE_POOL_STITCHED`, or set `expandable_segments:True`.\n"
    "- c: host memory is a device without streams and peers.\n"
    "- d: the device has no green contexts, whose streams are meant here.\n"
    "- e: stitched memory joins free pages at new addresses and takes them apart, so the division\n"
    "  of an earlier moment cannot be made again.\n"
    "- f: the device does not share memory of this kind between processes.\n"
    "- g: OpenCL does not capture queues into graphs.\n";

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

static void section_write(const char *name)
{
    size_t at = add(0, "\n## %s\n\n| |", name);

    for (int f = 0; f < FEATURE_COUNT; f++)
        at = add(at, " %s |", feature_names[f]);
    at = add(at, "\n|---|");
    for (int f = 0; f < FEATURE_COUNT; f++)
        at = add(at, "---|");
    for (int k = 0; k < KIND_COUNT; k++) {
        if (works[k][0] == '-')
            continue; /* the device has no such memory */
        at = add(at, "\n| %s |", kind_names[k]);
        for (int f = 0; f < FEATURE_COUNT; f++) {
            bool is_yes = works[k][f] == 'y';
            const char *reason = is_yes ? "" : reason_of(name, (enum kind)k, (enum feature)f);
            if (*reason == '?')
                t_fail(__FILE__, __LINE__, "%s, %s: %s says no without a reason", name,
                       kind_names[k], feature_names[f]);
            at = add(at, " %s%s |", is_yes ? "yes" : "no: ", reason);
        }
    }
    add(at, "\n");
}

/* ---- The file ------------------------------------------------------------------------------ */

#define PATH ACRE_SOURCE "/docs/FEATURES.md"

/* Compares a piece with what stands in the file from first (NULL: the beginning) to the next
 * section or the reasons. */
static void piece_compare(const char *first, const char *piece)
{
    static char found[1 << 16];
    bool is_writing = getenv("ACRE_FEATURES_WRITE") != NULL;
    FILE *file = fopen(PATH, "r");

    REQUIRE(file);
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    fclose(file);
    char *begin = first ? strstr(found, first) : found;
    if (!begin && is_writing)
        begin = strstr(found, "\n- a:"); /* a new section comes before the reasons */
    REQUIRE(begin);
    char *end = begin + strlen(begin), *section = strstr(begin + 1, "\n## "),
         *reasons = strstr(begin + 1, "\n- a:");
    if (first && !strstr(found, first))
        end = begin;
    else if (section)
        end = section;
    else if (reasons)
        end = reasons;
    if (is_writing) {
        file = fopen(PATH, "w");
        REQUIRE(file);
        fprintf(file, "%.*s%s%s", (int)(begin - found), found, piece, end);
        fclose(file);
    } else if ((size_t)(end - begin) != strlen(piece) ||
               strncmp(begin, piece, strlen(piece)) != 0) {
        t_fail(__FILE__, __LINE__, "docs/FEATURES.md differs from this:\n%s", piece);
    }
}

void table_section(const char *name)
{
    char first[64];
    acre_backend *backend = backend_open(name);

    table_fill(name, backend);
    backend_close(name, backend);
    section_write(name);
    snprintf(first, sizeof first, "\n## %s\n", name);
    piece_compare(first, text);
}

void table_head(void)
{
    piece_compare(NULL, head);
}

void table_tail(void)
{
    piece_compare("\n- a:", tail);
}
