/* SPDX-License-Identifier: MIT */
/* Tables of buffers: names of columns, what is kept, what is refused and where. */
#include "base/heap.h"
#include "format/csv.h"
#include "tests/support/t.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes text into a file of this process and gives its path. */
static const char *file_of(const char *text)
{
    static char path[64];

    snprintf(path, sizeof path, "/tmp/acre-csv-%d.csv", (int)getpid());
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
    return path;
}

static acre_status read_text(const char *text, acre_plan_table **out)
{
    const char *path = file_of(text);
    acre_status status = acre_plan_read(path, out);

    unlink(path);
    return status;
}

static void expect_refused(const char *text, const char *part)
{
    acre_plan_table *table = NULL;
    uint64_t live = heap_live_count();

    EXPECT_EQ(read_text(text, &table), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), part);
    EXPECT_EQ(heap_live_count(), live);
}

static void expect_one(const char *text, uint64_t start, uint64_t end, uint64_t size)
{
    acre_plan_table *table;
    size_t count;

    REQUIRE_OK(read_text(text, &table));
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
    REQUIRE_EQ(count, 1);
    EXPECT_EQ(buffers->start, start);
    EXPECT_EQ(buffers->end, end);
    EXPECT_EQ(buffers->size, size);
    acre_plan_close(table);
}

/* What a pipe holds, which gives it once; how many buffers it has, or -1. */
static long count_of_pipe(const char *text, size_t bytes)
{
    int ends[2];
    char path[32];
    size_t count;
    acre_plan_table *table;

    if (pipe(ends) != 0 || write(ends[1], text, bytes) != (ssize_t)bytes)
        return -1;
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    acre_status status = acre_plan_read(path, &table);
    close(ends[0]);
    if (status != ACRE_OK)
        return -1;
    acre_plan_buffers(table, &count);
    acre_plan_close(table);
    return (long)count;
}

TEST(a_size_that_cannot_be_rounded_up_stays_large)
{
    EXPECT_EQ(table_round(1, 0), 512);
    EXPECT_EQ(table_round(512, 32), 1024);
    for (uint64_t less = 0; less < 600; less += 31)
        EXPECT(table_round(UINT64_MAX - less, 32) > (uint64_t)1 << 60);
}

TEST(pipes_are_read_once)
{
    static const char csv[] = "id,lower,upper,size\na,1,2,3\nb,1,2,3\n";
    static const char trace[] = "# two\na 1 512 0\na 2 512 0\nf 1\n";
    static const char blanks[] = " # two\n\ta\t1\t512\t0\na 2 512 0\n";
    static const char json[] =
        "{\"segments\": [], \"device_traces\": [[{\"action\": \"alloc\", \"addr\": 4096, \"size\": "
        "512, \"stream\": 0}, {\"action\": \"alloc\", \"addr\": 8192, \"size\": 512, "
        "\"stream\": 0}]]}";
    uint64_t live = heap_live_count();

    EXPECT_EQ(count_of_pipe(csv, sizeof csv - 1), 2);
    EXPECT_EQ(count_of_pipe(trace, sizeof trace - 1), 2);
    EXPECT_EQ(count_of_pipe(blanks, sizeof blanks - 1), 2);
    EXPECT_EQ(count_of_pipe(json, sizeof json - 1), 2);
    EXPECT_EQ(count_of_pipe("id\0", 3), -1);
    EXPECT_HAS(acre_last_error(), "this is no text");
    EXPECT_EQ(heap_live_count(), live);
}

TEST(columns_in_any_order_and_by_other_names)
{
    expect_one("id,lower,upper,size\nb1,3,9,512\n", 3, 9, 512);
    expect_one("size,upper,lower,id\n512,9,3,b1\n", 3, 9, 512);
    expect_one("buffer,begin,end,size\nb1,3,8,512\n", 3, 9, 512);
    expect_one("buffer_id, start ,upper,size\r\nb1, 3,9 ,512\r\n\r\n", 3, 9, 512);
    expect_one("note,id,lower,upper,size\n\"x\",1,3,9,512", 3, 9, 512);
}

TEST(alignments_and_gaps)
{
    acre_plan_table *table;
    size_t count;

    REQUIRE_OK(read_text("id,lower,upper,size,alignment,gaps,hint\n"
                         "a,0,20,5,64,4-7 9-12,100\nb,0,2,5,,,\n", &table));
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
    REQUIRE_EQ(count, 2);
    EXPECT_EQ(buffers[0].alignment, 64);
    REQUIRE_EQ(buffers[0].gap_count, 2);
    EXPECT_EQ(buffers[0].gaps[1].start, 9);
    EXPECT_EQ(buffers[0].gaps[1].end, 12);
    EXPECT_EQ(buffers[1].gap_count, 0);
    acre_plan_close(table);
}

/* As /dev/null must: what is no file is written to and not replaced by one. */
TEST(a_pipe_stays_a_pipe)
{
    uint64_t offset = 7;
    acre_plan_table *table;
    char text[256] = "", path[80];
    struct stat facts;

    REQUIRE_OK(read_text("id,lower,upper,size\na,0,2,5\n", &table));
    snprintf(path, sizeof path, "/tmp/acre-csv-pipe-%d", (int)getpid());
    REQUIRE(mkfifo(path, 0600) == 0);
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(fd >= 0);
    EXPECT_EQ(acre_plan_write(table, &offset, path), ACRE_OK);
    EXPECT_GT(read(fd, text, sizeof text - 1), 0);
    EXPECT_STR_EQ(text, "id,lower,upper,size,offset\na,0,2,5,7\n");
    REQUIRE(stat(path, &facts) == 0);
    EXPECT(S_ISFIFO(facts.st_mode));
    close(fd);
    unlink(path);
    acre_plan_close(table);
}

TEST(rows_are_kept_and_get_an_offset)
{
    uint64_t offsets[2] = {7, 8};
    acre_plan_table *table;
    char text[256] = "", path[80];

    REQUIRE_OK(read_text("id,offset,lower,upper,size,note\na,9,0,2,5,x y\nb,9,0,2,5,\n", &table));
    snprintf(path, sizeof path, "/tmp/acre-csv-out-%d.csv", (int)getpid());
    REQUIRE_OK(acre_plan_write(table, offsets, path));
    FILE *file = fopen(path, "r");
    EXPECT_NE(file, NULL);
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    EXPECT_STR_EQ(text, "id,lower,upper,size,note,offset\na,0,2,5,x y,7\nb,0,2,5,,8\n");
    unlink(path);
    EXPECT_EQ(acre_plan_write(table, offsets, "/nonexistent/x.csv"), ACRE_ERR_IO);
    acre_plan_close(table);
}

TEST(traces_are_buffers)
{
    acre_plan_table *table;
    size_t count;

    REQUIRE_OK(read_text("# made by hand, twice\na 5 100 0\na 7 513 0\nf 5\ns *\n", &table));
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
    REQUIRE_EQ(count, 2);
    EXPECT_EQ(buffers[0].start, 0);
    EXPECT_EQ(buffers[0].end, 2);
    EXPECT_EQ(buffers[0].size, 512);
    EXPECT_EQ(buffers[1].start, 1);
    EXPECT_EQ(buffers[1].end, 4);
    EXPECT_EQ(buffers[1].size, 1024);
    acre_plan_close(table);
}

TEST(what_is_wrong_is_named_with_its_line)
{
    expect_refused("", "empty");
    expect_refused("id,lower,upper\n", ":1: there is no column for the size");
    expect_refused("lower,upper,size\n", ":1: there is no column for the id");
    expect_refused("id,upper,size\n", ":1: there is no column for the start");
    expect_refused("id,lower,size\n", ":1: there is no column for the end");
    expect_refused("id,lower,upper,end,size\n", ":1: both upper and end");
    expect_refused("id,id,lower,upper,size\n", ":1: a column is given twice");
    expect_refused("id,lower,upper,size\na,0,1,5\nb,0,x,5\n", ":3: not a number: \"x\"");
    expect_refused("id,lower,upper,size\na,0,1\n", ":2: the row has another number");
    expect_refused("id,lower,upper,size\na,0,1,-5\n", ":2: not a number");
    expect_refused("id,lower,upper,size\na,4,1,5\n", ":2: the buffer ends before it starts");
    expect_refused("id,lower,upper,size\na,0,1,1152921504606846977\n", ":2: the size is too large");
    expect_refused("id,lower,upper,size,gaps\na,0,9,1,4-12\n", ":2: not a gap");
    expect_refused("id,lower,upper,size,gaps\na,0,9,1,5\n", ":2: not a gap");
}

TEST(every_host_allocation_may_fail)
{
    const char *path = file_of("id,lower,upper,size,gaps\na,0,9,1,4-5\nb,0,9,1,\n");
    uint64_t live = heap_live_count();

    for (uint64_t nth = 1;; nth++) {
        acre_plan_table *table = NULL;
        heap_fail_nth(nth);
        acre_status status = acre_plan_read(path, &table);
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            acre_plan_close(table);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(heap_live_count(), live);
    }
    unlink(path);
}

T_MAIN()
