/* SPDX-License-Identifier: MIT */
/* Files that appear whole or not at all. */
#include "base/heap.h"
#include "format/newfile.h"

#include "tests/support/t.h"

#include <acre/output.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[64], path[128];

static void begin_as(const char *name)
{
    snprintf(folder, sizeof folder, "%s-XXXXXX", name);
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/file", folder);
}

static void begin(void)
{
    begin_as("/tmp/acre-output");
}

static int entry_count(const char *name)
{
    DIR *list = opendir(name);
    struct dirent *entry;
    int count = 0;

    REQUIRE(list != NULL);
    while ((entry = readdir(list)))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(list);
    return count;
}

static void end(void)
{
    unlink(path);
    EXPECT_EQ(rmdir(folder), 0); /* nothing else is there */
    EXPECT_EQ(heap_live_count(), 0);
}

static acre_status write_text(const char *to, const char *text)
{
    acre_output *output;
    acre_status status = acre_output_open(to, &output);

    if (status != ACRE_OK)
        return status;
    fputs(text, acre_output_stream(output));
    return acre_output_finish(output);
}

static void expect_text(const char *of, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(of, "r");

    REQUIRE(file != NULL);
    size_t got = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    found[got] = 0;
    EXPECT_STR_EQ(found, text);
}

static unsigned mode_of(const char *of)
{
    struct stat facts = {0};

    EXPECT_EQ(stat(of, &facts), 0);
    return facts.st_mode & 07777;
}

static void run_modes(void)
{
    begin();
    mode_t old = umask(027);
    REQUIRE_OK(write_text(path, "first"));
    EXPECT_EQ(mode_of(path), 0640);
    REQUIRE(chmod(path, 0604) == 0);
    REQUIRE_OK(write_text(path, "second"));
    EXPECT_EQ(mode_of(path), 0604);
    expect_text(path, "second");
    umask(old);
    end();
}

TEST(modes_follow_the_umask_and_existing_modes_are_kept)
{
    run_modes();
    newfile_name_always(true);
    run_modes();
    newfile_name_always(false);
}

TEST(the_old_file_stays_until_the_new_one_is_whole)
{
    acre_output *output;

    for (int named = 0; named < 2; named++) {
        newfile_name_always(named);
        begin();
        REQUIRE_OK(write_text(path, "old"));
        REQUIRE_OK(acre_output_open(path, &output));
        fputs("new", acre_output_stream(output));
        fflush(acre_output_stream(output));
        expect_text(path, "old");
        EXPECT_EQ(entry_count(folder), 1 + named);
        acre_output_abandon(output);
        expect_text(path, "old");
        EXPECT_EQ(entry_count(folder), 1);
        end();
    }
    newfile_name_always(false);
}

TEST(a_full_disk_is_named_and_leaves_the_old_file)
{
    struct rlimit old, small;
    acre_output *output;

    begin();
    REQUIRE_OK(write_text(path, "old"));
    EXPECT_EQ(write_text("/dev/full", "x"), ACRE_ERR_IO);
    EXPECT_HAS(acre_last_error(), "No space left on device");
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
    small = old;
    small.rlim_cur = 1 << 16;
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    REQUIRE_OK(acre_output_open(path, &output));
    for (int i = 0; i < 100000; i++)
        fputs("0123456789", acre_output_stream(output));
    EXPECT_EQ(acre_output_finish(output), ACRE_ERR_IO);
    EXPECT_HAS(acre_last_error(), "File too large");
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    signal(SIGXFSZ, SIG_DFL);
    expect_text(path, "old");
    EXPECT_EQ(entry_count(folder), 1);
    end();
}

/* Makes a folder that all may write, and in it a link to the file: it is refused, and removed. */
static void plant(const char *open_folder, char *link, size_t bytes)
{
    REQUIRE(mkdir(open_folder, 0700) == 0 && chmod(open_folder, 01777) == 0);
    snprintf(link, bytes, "%s/link", open_folder);
    REQUIRE(symlink(path, link) == 0);
    EXPECT_EQ(write_text(link, "planted"), ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "symbolic link");
    unlink(link);
}

TEST(links_are_followed_in_an_own_folder_only)
{
    char link[128], other[128];

    begin();
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(other, sizeof other, "%s/open", folder);
    REQUIRE(symlink("file", link) == 0); /* to nothing so far */
    REQUIRE_OK(write_text(link, "through a link"));
    expect_text(path, "through a link");
    REQUIRE_OK(write_text(link, "again"));
    expect_text(path, "again");
    unlink(link);
    REQUIRE(symlink("link", link) == 0); /* to itself */
    EXPECT_EQ(write_text(link, "x"), ACRE_ERR_IO);
    unlink(link);

    plant(other, link, sizeof link);
    expect_text(path, "again");
    REQUIRE(mkfifo(link, 0622) == 0);
    if (geteuid() == 0) {
        REQUIRE(chown(link, 65534, 65534) == 0);
        EXPECT_EQ(write_text(link, "planted"), ACRE_ERR_REJECTED);
        EXPECT_HAS(acre_last_error(), "65534");
    }
    unlink(link);
    rmdir(other);
    end();
}

/* A folder that a group may write: a link is followed when it is the user's own, as in a home that
 * is open to a group of one, and not when another member has made it. */
TEST(links_of_others_in_a_folder_of_a_group_are_refused)
{
    char link[128];

    if (geteuid() != 0)
        T_SKIP("only root can make a link of somebody else");
    begin();
    REQUIRE_OK(write_text(path, "old"));
    snprintf(link, sizeof link, "%s/link", folder);
    REQUIRE(symlink("file", link) == 0 && chmod(folder, 02775) == 0);
    REQUIRE_OK(write_text(link, "own"));
    expect_text(path, "own");
    REQUIRE(lchown(link, 65534, 65534) == 0);
    EXPECT_EQ(write_text(link, "planted"), ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "symbolic link");
    expect_text(path, "own");
    REQUIRE(chmod(folder, 0755) == 0); /* nobody else can put it there */
    REQUIRE_OK(write_text(link, "again"));
    expect_text(path, "again");
    unlink(link);
    end();
}

TEST(links_in_shared_memory_are_as_elsewhere)
{
    char link[128], other[128];

    if (access("/dev/shm", W_OK) != 0)
        T_SKIP("/dev/shm cannot be written");
    begin_as("/dev/shm/test-output"); /* other tests count what has "acre" in its name there */
    snprintf(link, sizeof link, "%s/link", folder);
    REQUIRE_OK(write_text(path, "a text that is longer"));
    REQUIRE(symlink("file", link) == 0);
    REQUIRE_OK(write_text(link, "shorter"));
    expect_text(path, "shorter");
    unlink(link);

    snprintf(other, sizeof other, "%s/open", folder);
    plant(other, link, sizeof link);
    expect_text(path, "shorter");
    rmdir(other);
    end();
}

TEST(a_descriptor_that_is_named_is_written_where_it_is)
{
    const char *const forms[] = {"/proc/self/fd/%d", "/dev/fd/%d"};
    char name[32];

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        begin();
        REQUIRE_OK(write_text(path, "first, "));
        int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        REQUIRE(fd >= 0);
        snprintf(name, sizeof name, forms[i], fd);
        REQUIRE_OK(write_text(name, "second"));
        expect_text(path, "first, second");
        EXPECT_EQ(write(fd, ".", 1), 1); /* it is still open */
        close(fd);
        end();
    }
}

TEST(a_file_that_may_not_be_written_is_refused)
{
    begin();
    REQUIRE_OK(write_text(path, "old"));
    EXPECT_EQ(write_text(folder, "x"), ACRE_ERR_IO); /* a folder */
    EXPECT_EQ(write_text("", "x"), ACRE_ERR_IO);
    EXPECT_EQ(write_text("/nowhere/at/all", "x"), ACRE_ERR_IO);
    EXPECT_HAS(acre_last_error(), "/nowhere/at/all");
    EXPECT_HAS(acre_last_error(), "No such file or directory");
    REQUIRE(chmod(path, 0444) == 0);
    if (geteuid() != 0)
        EXPECT_EQ(write_text(path, "new"), ACRE_ERR_IO);
    expect_text(path, "old");
    end();
}

static void killed_child(void *arg)
{
    acre_output *output;

    REQUIRE_OK(acre_output_open(arg, &output));
    fputs("half", acre_output_stream(output));
    fflush(acre_output_stream(output));
    raise(SIGKILL);
}

static void handler(int number)
{
    acre_output_abandon_all();
    signal(number, SIG_DFL);
    raise(number);
}

static void ended_child(void *arg)
{
    acre_output *output;

    newfile_name_always(true);
    signal(SIGTERM, handler);
    REQUIRE_OK(acre_output_open(arg, &output));
    fputs("half", acre_output_stream(output));
    REQUIRE(entry_count(folder) == 1);
    raise(SIGTERM);
}

/* Notes the temporary name of a file under way, in a name of its own: "0" or "1". */
static void name_keep(void *arg)
{
    acre_output *output;
    DIR *list;
    struct dirent *entry;
    int number = *(int *)arg, fd = -1;
    char note[140];

    newfile_name_always(true);
    snprintf(note, sizeof note, "%s/%d", folder, number);
    REQUIRE_OK(acre_output_open(path, &output));
    REQUIRE((list = opendir(folder)) != NULL);
    while ((entry = readdir(list)))
        if (strncmp(entry->d_name, ".acre-", 6) == 0) {
            REQUIRE((fd = open(note, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) >= 0);
            EXPECT_EQ(write(fd, entry->d_name, strlen(entry->d_name)), strlen(entry->d_name));
            close(fd);
        }
    closedir(list);
    acre_output_abandon(output);
    EXPECT(fd >= 0);
}

/* Two processes that have everything in common but their numbers. */
TEST(temporary_names_cannot_be_guessed)
{
    char note[140], names[2][64] = {"", ""};
    int differing = 0;

    begin();
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(t_child(name_keep, &i), 0);
        snprintf(note, sizeof note, "%s/%d", folder, i);
        FILE *file = fopen(note, "r");
        REQUIRE(file != NULL);
        EXPECT(fgets(names[i], sizeof names[i], file) != NULL);
        fclose(file);
        unlink(note);
    }
    REQUIRE_EQ(strlen(names[0]), 30);
    REQUIRE_EQ(strlen(names[1]), 30);
    for (int i = 6; i < 30; i++)
        differing += names[0][i] != names[1][i];
    EXPECT_GT(differing, 10); /* of 24 random digits; fewer differ in one of 10^10 runs */
    end();
}

static bool is_random_known;

/* Stands before that of the C library. */
ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
    if (!is_random_known)
        return (ssize_t)syscall(SYS_getrandom, to, bytes, flags);
    memset(to, 0, bytes);
    return (ssize_t)bytes;
}

/* Somebody who knew the temporary name all the same has put a link there, or a file. */
TEST(a_temporary_name_that_is_taken_is_not_opened)
{
    char taken[160], victim[160];

    begin();
    snprintf(taken, sizeof taken, "%s/.acre-%024d", folder, 0);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    REQUIRE_OK(write_text(victim, "precious"));
    newfile_name_always(true);
    is_random_known = true;
    REQUIRE_OK(write_text(path, "old")); /* the name is the one that is meant */
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            REQUIRE(symlink(i ? "nothing" : "victim", taken) == 0);
        else
            REQUIRE(link(victim, taken) == 0);
        EXPECT_EQ(write_text(path, "new"), ACRE_ERR_IO);
        EXPECT_HAS(acre_last_error(), "File exists");
        expect_text(victim, "precious");
        expect_text(path, "old");
        EXPECT_EQ(entry_count(folder), 3); /* no "nothing" */
        EXPECT_EQ(unlink(taken), 0);
    }
    is_random_known = false;
    newfile_name_always(false);
    unlink(victim);
    end();
}

static mode_t mode_before = 07777;

/* Stands before that of the C library. */
int fchmod(int fd, mode_t mode)
{
    struct stat facts;

    REQUIRE(fstat(fd, &facts) == 0);
    mode_before = facts.st_mode & 07777;
    return (int)syscall(SYS_fchmod, fd, mode);
}

TEST(a_file_under_way_is_never_open_to_more_than_the_old_one)
{
    acre_output *output;

    newfile_name_always(true);
    begin();
    mode_t old = umask(0);
    REQUIRE_OK(write_text(path, "private"));
    REQUIRE(chmod(path, 0600) == 0);
    REQUIRE_OK(acre_output_open(path, &output));
    EXPECT_EQ(mode_before, 0600); /* who opened it before that would read what is written later */
    acre_output_abandon(output);
    EXPECT_EQ(mode_of(path), 0600);
    umask(old);
    end();
    newfile_name_always(false);
}

/* A process that is killed between two names would leave the first. */
TEST(a_new_file_never_has_another_name)
{
    char events[4096];
    unsigned count = 0;

    begin();
    int unnamed = open(folder, O_TMPFILE | O_WRONLY, 0600);
    if (unnamed < 0) {
        end();
        T_SKIP("the file system makes no files without a name");
    }
    close(unnamed);
    int watch = inotify_init1(IN_NONBLOCK);
    REQUIRE(watch >= 0 && inotify_add_watch(watch, folder, IN_CREATE | IN_MOVED_FROM) >= 0);
    REQUIRE_OK(write_text(path, "new"));
    ssize_t bytes = read(watch, events, sizeof events);
    for (ssize_t at = 0; at < bytes; count++) {
        struct inotify_event event;
        memcpy(&event, events + at, sizeof event);
        EXPECT_STR_EQ(events + at + sizeof event, "file");
        at += (ssize_t)(sizeof event + event.len);
    }
    EXPECT_EQ(count, 1);
    expect_text(path, "new");
    close(watch);
    end();
}

TEST(a_killed_process_leaves_nothing)
{
    begin();
    EXPECT(t_child(killed_child, path) != 0);
    EXPECT_EQ(entry_count(folder), 0);
    EXPECT(t_child(ended_child, path) != 0);
    EXPECT_EQ(entry_count(folder), 0);
    end();
}

TEST(a_file_that_exceeds_the_limit_is_refused)
{
    static char text[(1 << 20) + 2];

    begin();
    REQUIRE_OK(write_text(path, "old"));
    memset(text, 'x', sizeof text - 1);
    acre_output_limit_set(1 << 20);
    EXPECT_EQ(write_text(path, text), ACRE_ERR_LIMIT); /* one byte more */
    EXPECT_HAS(acre_last_error(), "would take 1.00 MiB or more, and the limit is 1024.00 KiB");
    EXPECT_HAS(acre_last_error(), "--output-limit");
    EXPECT_EQ(entry_count(folder), 1);
    struct stat facts;
    REQUIRE(stat(path, &facts) == 0);
    EXPECT_EQ(facts.st_size, 3);
    text[sizeof text - 2] = 0;
    REQUIRE_OK(write_text(path, text));
    acre_output_limit_set(0);
    text[sizeof text - 2] = 'x';
    REQUIRE_OK(write_text(path, text));
    end();
}

TEST(an_output_that_is_an_input_is_refused)
{
    char link[128];
    const char *inputs[] = {"/dev/null", path};

    begin();
    REQUIRE_OK(acre_output_check(path, inputs, 2)); /* it is not there */
    REQUIRE_OK(write_text(path, "text"));
    snprintf(link, sizeof link, "%s/other", folder);
    REQUIRE(symlink("file", link) == 0);
    EXPECT_EQ(acre_output_check(path, inputs, 2), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_output_check(link, inputs, 2), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "choose another name");
    REQUIRE_OK(acre_output_check("/dev/null", inputs, 2));
    REQUIRE_OK(acre_output_check(path, inputs, 1));
    unlink(link);
    end();
}

TEST(arguments_are_checked)
{
    acre_output *output;

    EXPECT_EQ(acre_output_open(NULL, &output), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_output_open("x", NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_output_finish(NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_output_check(NULL, NULL, 0), ACRE_ERR_INVALID);
    acre_output_abandon(NULL);
    EXPECT_PTR_EQ(acre_output_stream(NULL), NULL);
}

T_MAIN()
