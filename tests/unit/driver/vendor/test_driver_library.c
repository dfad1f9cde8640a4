/* SPDX-License-Identifier: MIT */
/* Finding a vendor's library: the list of entry points, and why there is none. The
 * stand-ins keep state per process, so each is met in a child. */
#include "driver/vendor/library.h"

#include "tests/support/t.h"

#include <unistd.h>

#define STANDIN(folder) ACRE_BUILD "/tests/standin/" folder "libcuda.so.1"

/* ---- The list ---------------------------------------------------------------------- */

static const struct {
    const char *name, *cuda, *hip;
} rows[] = {
#define ROW(need, name, cuda, older, hip, parameters) {#name, #cuda, #hip},
    DRIVER_MAP(ROW)
#undef ROW
};

TEST(every_entry_has_a_name_of_its_own)
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        EXPECT(strncmp(rows[i].cuda, "cu", 2) == 0 || strcmp(rows[i].cuda, "NONE") == 0);
        EXPECT(strncmp(rows[i].hip, "hip", 3) == 0 || strcmp(rows[i].hip, "NONE") == 0);
        EXPECT(strcmp(rows[i].cuda, rows[i].hip) != 0);
        for (int j = 0; j < i; j++) {
            EXPECT(strcmp(rows[i].name, rows[j].name) != 0);
            EXPECT(strcmp(rows[i].cuda, rows[j].cuda) != 0 || rows[i].cuda[0] == 'N');
            EXPECT(strcmp(rows[i].hip, rows[j].hip) != 0 || rows[i].hip[0] == 'N');
        }
    }
}

TEST(entries_are_named_as_the_vendor_does)
{
    EXPECT_STR_EQ(library_symbol(VENDOR_CUDA, ENTRY_alloc), "cuMemAlloc_v2");
    EXPECT_STR_EQ(library_symbol(VENDOR_HIP, ENTRY_alloc), "hipMalloc");
    EXPECT_STR_EQ(library_symbol(VENDOR_HIP, ENTRY_multicast_bind), "?");
    EXPECT_STR_EQ(library_symbol(VENDOR_CUDA, ENTRY_hip_copy), "?");
    EXPECT_STR_EQ(library_title(VENDOR_CUDA), "CUDA");
    EXPECT_STR_EQ(library_title(VENDOR_HIP), "HIP");
}

TEST(results_become_statuses)
{
    EXPECT_EQ(library_status(DRIVER_SUCCESS), ACRE_OK);
    EXPECT_EQ(library_status(DRIVER_OUT_OF_MEMORY), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(library_status(DRIVER_NOT_READY), ACRE_ERR_NOT_READY);
    EXPECT_EQ(library_status(DRIVER_INVALID_HANDLE), ACRE_ERR_INVALID);
    EXPECT_EQ(library_status(DRIVER_NOT_SUPPORTED), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(library_status(DRIVER_HOST_ALREADY), ACRE_ERR_EXISTS);
    EXPECT_EQ(library_status(904), ACRE_ERR_STATE);
    EXPECT_EQ(library_status(700), ACRE_ERR_DEVICE);
    EXPECT_EQ(library_status(909), ACRE_ERR_DEVICE);
    for (driver_result result = 0; result < 2000; result++)
        if (result != DRIVER_OUT_OF_MEMORY)
            EXPECT_NE(library_status(result), ACRE_ERR_DEVICE_MEMORY);
}

/* ---- Why there is none --------------------------------------------------------------- */

/* Opens what the variable names; the reason is one line. */
static void expect_reason(enum library_vendor vendor, const char *path, const char *reason)
{
    static const char *const variables[] = {"ACRE_CUDA_LIBRARY", "ACRE_HIP_LIBRARY"};
    struct driver_library library;

    setenv(variables[vendor], path, 1);
    EXPECT_EQ(library_open(vendor, &library), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), reason);
    EXPECT(strchr(acre_last_error(), '\n') == NULL);
}

TEST(an_absent_library_is_a_reason)
{
    expect_reason(VENDOR_CUDA, "/nowhere/libcuda.so.1", "no CUDA driver: ");
    EXPECT_HAS(acre_last_error(), "/nowhere/libcuda.so.1");
    expect_reason(VENDOR_HIP, "/nowhere/libamdhip64.so", "no HIP driver: ");
}

TEST(a_file_that_is_no_library_is_a_reason)
{
    expect_reason(VENDOR_CUDA, ACRE_SOURCE "/README.md", "no CUDA driver: ");
}

TEST(another_library_is_a_reason)
{
    expect_reason(VENDOR_CUDA, "libm.so.6", "libm.so.6 has no cuInit");
    expect_reason(VENDOR_HIP, "libm.so.6", "libm.so.6 has no hipInit");
}

static void skip_without(const char *path)
{
    if (access(path, R_OK) != 0)
        T_SKIP("the stand-ins were not built");
}

static void meet_broken(void *unused)
{
    (void)unused;
    expect_reason(VENDOR_CUDA, STANDIN("broken/"), "a newer one is needed");
}

static void meet_stub(void *unused)
{
    (void)unused;
    setenv("STANDIN_INIT", "34", 1);
    expect_reason(VENDOR_CUDA, STANDIN(""),
                  "the toolkit's stub for linking, which finds no device (cuInit: "
                  "CUDA_ERROR_STUB_LIBRARY); install the driver");
    EXPECT_EQ(acre_last_native(), 34);
}

static void meet_nothing(void *unused)
{
    (void)unused;
    setenv("STANDIN_INIT", "100", 1);
    expect_reason(VENDOR_CUDA, STANDIN(""), "CUDA_ERROR_NO_DEVICE");
}

static void meet_ancient(void *unused)
{
    (void)unused;
    setenv("STANDIN_VERSION", "10020", 1);
    expect_reason(VENDOR_CUDA, STANDIN(""), "too old: version 10020; 11000 (CUDA 11.0) or later");
}

TEST(drivers_that_do_not_work_are_reasons)
{
    skip_without(STANDIN("broken/"));
    EXPECT_EQ(t_child(meet_broken, NULL), 0);
    EXPECT_EQ(t_child(meet_stub, NULL), 0);
    EXPECT_EQ(t_child(meet_nothing, NULL), 0);
    EXPECT_EQ(t_child(meet_ancient, NULL), 0);
}

/* ---- What is there --------------------------------------------------------------------- */

static struct driver_library opened(enum library_vendor vendor, const char *path)
{
    struct driver_library library;

    setenv(vendor == VENDOR_CUDA ? "ACRE_CUDA_LIBRARY" : "ACRE_HIP_LIBRARY", path, 1);
    REQUIRE_OK(library_open(vendor, &library));
    return library;
}

static void meet_whole(void *unused)
{
    struct driver_library library = opened(VENDOR_CUDA, STANDIN(""));

    (void)unused;
    EXPECT_EQ(library.groups, ACRE_CAP_STREAMS | ACRE_CAP_COPY | ACRE_CAP_LAUNCH |
                                  ACRE_CAP_VALUES | ACRE_CAP_VIRTUAL | ACRE_CAP_SHARE_FD |
                                  ACRE_CAP_MULTICAST | ACRE_CAP_CAPTURE | ACRE_CAP_HOST_MEMORY |
                                  ACRE_CAP_POINTERS | ACRE_CAP_PEERS | ACRE_CAP_IPC |
                                  ACRE_CAP_CURRENT | ACRE_CAP_GREEN | ACRE_CAP_ASYNC |
                                  ACRE_CAP_FABRIC | ACRE_CAP_IPC_EVENTS);
    EXPECT_EQ(library_check(&library, ENTRY_alloc, DRIVER_OUT_OF_MEMORY),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "cuMemAlloc_v2: ");
    EXPECT_HAS(acre_last_error(), "(CUDA_ERROR_OUT_OF_MEMORY)");
    EXPECT_EQ(acre_last_native(), 2);
    EXPECT_EQ(library_check(&library, ENTRY_alloc, 123456), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "an error without a name");
}

static void meet_bare(void *unused)
{
    struct driver_library library = opened(VENDOR_CUDA, STANDIN("bare/"));

    (void)unused;
    EXPECT_EQ(library.groups & (ACRE_CAP_VIRTUAL | ACRE_CAP_MULTICAST | ACRE_CAP_GREEN |
                                ACRE_CAP_SHARE_FD | ACRE_CAP_FABRIC | ACRE_CAP_ASYNC), 0);
}

static void meet_old(void *unused)
{
    struct driver_library library = opened(VENDOR_CUDA, STANDIN("old/"));

    (void)unused;
    EXPECT(library.groups & ACRE_CAP_STREAMS);
    EXPECT_EQ(library.groups & ACRE_CAP_GREEN, 0);
}

static void meet_hip(void *unused)
{
    struct driver_library library =
        opened(VENDOR_HIP, ACRE_BUILD "/tests/standin/libamdhip64.so");

    (void)unused;
    EXPECT(library.groups & ACRE_CAP_STREAMS);
    EXPECT_EQ(library.groups & (ACRE_CAP_GREEN | ACRE_CAP_MULTICAST), 0);
    EXPECT_EQ(library_check(&library, ENTRY_alloc, DRIVER_INVALID_VALUE), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "hipMalloc: ");
}

TEST(missing_entry_points_take_their_capability_away)
{
    skip_without(STANDIN("bare/"));
    EXPECT_EQ(t_child(meet_whole, NULL), 0);
    EXPECT_EQ(t_child(meet_bare, NULL), 0);
    EXPECT_EQ(t_child(meet_old, NULL), 0);
    EXPECT_EQ(t_child(meet_hip, NULL), 0);
}

T_MAIN()
