/* SPDX-License-Identifier: MIT */
/* Bytes of plain and gzip files: whole, cut at every place, joined, padded. */
#include "format/source.h"

#include "base/heap.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <errno.h>

/* Reads a file to its end in small steps; gives the status of the failing step. */
static acre_status read_all(const char *path, char *text, size_t *out_count)
{
    struct source *source;
    size_t total = 0, got = 1;
    acre_status status = source_open(path, &source);

    if (status != ACRE_OK)
        return status;
    while (status == ACRE_OK && got > 0) {
        status = source_read(source, text + total, 7, &got);
        total += status == ACRE_OK ? got : 0;
    }
    source_close(source);
    *out_count = total;
    return status;
}

static int has_zlib(void)
{
    const char *path = files_gzip("probe.gz", "x", 1);
    struct source *source;

    if (!path || source_open(path, &source) != ACRE_OK)
        return 0;
    source_close(source);
    return 1;
}

TEST(a_plain_file_is_given_as_it_is)
{
    static char text[200000], got[200016];
    size_t count;

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 31 >> 3);
    const char *path = files_write("plain.bin", text, sizeof text);
    REQUIRE_OK(read_all(path, got, &count));
    EXPECT_EQ(count, sizeof text);
    EXPECT(memcmp(text, got, count) == 0);
    REQUIRE_OK(read_all(files_write("empty", "", 0), got, &count));
    EXPECT_EQ(count, 0);
    REQUIRE_OK(read_all(files_write("one", "\x1f", 1), got, &count));
    EXPECT_EQ(count, 1);
}

TEST(a_missing_file_is_named)
{
    struct source *source = NULL;

    EXPECT_EQ(source_open(files_path("nowhere"), &source), ACRE_ERR_IO);
    EXPECT_EQ(acre_last_native(), ENOENT);
    EXPECT_HAS(acre_last_error(), "cannot open ");
    EXPECT_HAS(acre_last_error(), "nowhere: No such file");
    EXPECT(!source);
    size_t count;
    char byte[16];
    EXPECT_EQ(read_all("/", byte, &count), ACRE_ERR_IO);
}

TEST(gzip_is_known_by_its_content)
{
    static char text[300000], got[300016];
    size_t count;

    if (!has_zlib())
        T_SKIP("this build has no zlib, or there is no gzip command");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 23 + i / 1000 % 3);
    REQUIRE_OK(read_all(files_gzip("data.txt", text, sizeof text), got, &count));
    EXPECT_EQ(count, sizeof text);
    EXPECT(memcmp(text, got, count) == 0);
}

TEST(a_gzip_file_cut_anywhere_is_refused)
{
    char got[256];
    size_t count;

    if (!has_zlib())
        T_SKIP("this build has no zlib, or there is no gzip command");
    const unsigned char *bytes;
    size_t whole = files_read(files_gzip("cut.gz", "hello, hello, hello", 19), &bytes);
    REQUIRE_EQ(whole > 20, 1);
    for (size_t length = 2; length < whole; length++) {
        EXPECT_EQ(read_all(files_write("cut", bytes, length), got, &count), ACRE_ERR_FORMAT);
        EXPECT_HAS(acre_last_error(), "truncated gzip");
    }
    EXPECT_EQ(read_all(files_write("cut", bytes, whole), got, &count), ACRE_OK);
    EXPECT_EQ(count, 19);
}

TEST(a_damaged_gzip_file_is_refused)
{
    char got[256];
    size_t count;
    unsigned char copy[256];
    const unsigned char *bytes;

    if (!has_zlib())
        T_SKIP("this build has no zlib, or there is no gzip command");
    size_t whole = files_read(files_gzip("bad.gz", "hello, hello, hello", 19), &bytes);
    memcpy(copy, bytes, whole);
    copy[whole - 6] ^= 1; /* the checksum */
    EXPECT_EQ(read_all(files_write("bad", copy, whole), got, &count), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "damaged gzip");
}

TEST(members_may_follow_each_other_and_zeros_the_last)
{
    char got[256];
    size_t count, whole;
    unsigned char copy[512] = {0};
    const unsigned char *bytes;

    if (!has_zlib())
        T_SKIP("this build has no zlib, or there is no gzip command");
    whole = files_read(files_gzip("member.gz", "abc", 3), &bytes);
    memcpy(copy, bytes, whole);
    memcpy(copy + whole, bytes, whole);
    REQUIRE_OK(read_all(files_write("two", copy, 2 * whole), got, &count));
    EXPECT_EQ(count, 6);
    EXPECT(memcmp(got, "abcabc", 6) == 0);
    REQUIRE_OK(read_all(files_write("padded", copy, 2 * whole + 20), got, &count));
    EXPECT_EQ(count, 6);
    copy[2 * whole] = 'x';
    EXPECT_EQ(read_all(files_write("tail", copy, 2 * whole + 1), got, &count), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "other data follows");
    copy[2 * whole] = 0;
    copy[2 * whole + 1] = 0x1f;
    EXPECT_EQ(read_all(files_write("tail", copy, 2 * whole + 2), got, &count), ACRE_ERR_FORMAT);
}

TEST(rewinding_gives_the_same_again)
{
    const char *paths[2] = {files_write("again", "some text", 9),
                            has_zlib() ? files_gzip("again.gz", "some text", 9) : NULL};

    for (int i = 0; i < 2 && paths[i]; i++) {
        struct source *source;
        uint64_t done, total;
        char got[16];
        size_t count;

        REQUIRE_OK(source_open(paths[i], &source));
        EXPECT_EQ(source_is_gzip(source), i);
        for (int pass = 0; pass < 3; pass++) {
            REQUIRE_OK(source_read(source, got, sizeof got, &count));
            EXPECT_EQ(count, 9);
            EXPECT(memcmp(got, "some text", 9) == 0);
            source_progress(source, &done, &total);
            EXPECT_EQ(done, total);
            REQUIRE_OK(source_rewind(source));
        }
        source_close(source);
    }
    source_close(NULL);
}

TEST(every_host_allocation_may_fail)
{
    const char *path = files_write("fail", "text", 4);
    int fds = t_fd_count();

    for (unsigned nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        struct source *source = NULL;
        heap_fail_nth(nth);
        acre_status status = source_open(path, &source);
        int failed = heap_fail_disarm();
        source_close(source);
        EXPECT_EQ(heap_live_count(), live);
        EXPECT_EQ(t_fd_count(), fds);
        EXPECT_EQ(status, failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (!failed)
            return;
    }
}

T_MAIN()
