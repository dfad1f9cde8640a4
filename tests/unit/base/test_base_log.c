/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "tests/support/t.h"

#include <unistd.h>

static char seen[4096];
static int seen_count;
static acre_log_level seen_level;

static void keep(void *arg, acre_log_level level, const char *text)
{
    EXPECT_PTR_EQ(arg, seen);
    snprintf(seen, sizeof seen, "%s", text);
    seen_level = level;
    seen_count++;
}

TEST(is_silent_unless_asked)
{
    unsetenv("ACRE_LOG");
    EXPECT(!log_enabled(ACRE_LOG_ERROR));
    log_line(ACRE_LOG_ERROR, "nobody sees this");
}

TEST(a_function_receives_lines_up_to_its_level)
{
    acre_log_set(keep, seen, ACRE_LOG_WARN);
    EXPECT(log_enabled(ACRE_LOG_ERROR));
    EXPECT(log_enabled(ACRE_LOG_WARN));
    EXPECT(!log_enabled(ACRE_LOG_INFO));
    seen_count = 0;
    log_line(ACRE_LOG_INFO, "not wanted");
    EXPECT_EQ(seen_count, 0);
    log_line(ACRE_LOG_WARN, "%d of %s", 3, "these");
    EXPECT_EQ(seen_count, 1);
    EXPECT_EQ(seen_level, ACRE_LOG_WARN);
    EXPECT_STR_EQ(seen, "3 of these");
    acre_log_set(NULL, NULL, ACRE_LOG_DEBUG);
    log_line(ACRE_LOG_ERROR, "silent again");
    EXPECT_EQ(seen_count, 1);
}

static void log_again(void *arg, acre_log_level level, const char *text)
{
    (void)text;
    if (++seen_count == 1)
        log_line(level, "from inside");
    acre_log_set(NULL, arg, level);
}

TEST(the_function_may_call_back)
{
    seen_count = 0;
    acre_log_set(log_again, NULL, ACRE_LOG_DEBUG);
    log_line(ACRE_LOG_DEBUG, "outside");
    EXPECT_EQ(seen_count, 2);
    EXPECT(!log_enabled(ACRE_LOG_ERROR));
}

/* The environment is read once, so this needs a program of its own. */
TEST(the_environment_sends_lines_to_standard_error)
{
    T_NEEDS("a program that starts itself");
    char command[4200], line[256] = "";
    const char *is_child = getenv("ACRE_TEST_LOG_CHILD");

    if (is_child) {
        log_line(ACRE_LOG_INFO, "said %d", 7);
        log_line(ACRE_LOG_DEBUG, "not said");
        return;
    }
    snprintf(command, sizeof command,
             "ACRE_TEST_LOG_CHILD=1 ACRE_LOG=Info %s/tests/test_base_log "
             "the_environment_sends_lines_to_standard_error 2>&1 >/dev/null",
             ACRE_BUILD);
    FILE *pipe = popen(command, "r");
    REQUIRE_EQ(pipe != NULL, 1);
    size_t got = fread(line, 1, sizeof line - 1, pipe);
    EXPECT_EQ(pclose(pipe), 0);
    line[got] = '\0';
    EXPECT_STR_EQ(line, "acre: said 7\n");
}

T_MAIN()
