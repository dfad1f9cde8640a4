/* SPDX-License-Identifier: MIT */
#include "tests/support/t.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct t_case *first, **last = &first;
static jmp_buf leave;
static int failures; /* of the running test */
static int skipped;  /* the running test was */
static int is_child; /* made by t_start: there is no test to leave */
static uint64_t seed;

void t_register(struct t_case *test)
{
    *last = test;
    last = &test->next;
}

void t_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "  %s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

/* Ends a child of t_start. _exit() leaves out the writing of gcov's counters. */
static _Noreturn void child_end(int code)
{
#ifdef ACRE_COVERAGE
    extern void __gcov_dump(void);

    __gcov_dump();
#endif
    _exit(code);
}

void t_leave(void)
{
    if (is_child)
        child_end(1);
    longjmp(leave, 1);
}

void t_skip(const char *format, ...)
{
    va_list args;

    printf("  skipped: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    skipped = 1;
    t_leave();
}

uint64_t t_seed(void)
{
    return seed;
}

uint64_t t_random(uint64_t *state)
{
    uint64_t x = (*state += 0x9E3779B97F4A7C15u);

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* The large count, divided, though not below the small one. A small one of 0 means that
 * something is done at all. */
static uint64_t count_long(uint64_t small, uint64_t large, uint64_t scale)
{
    uint64_t least = small < large ? small : large;
    uint64_t part = scale > 1 && small > 0 ? large / scale : large;

    return part > least ? part : least;
}

uint64_t t_count(uint64_t small, uint64_t large)
{
    const char *is_long = getenv("ACRE_TEST_LONG"), *is_short = getenv("ACRE_TEST_SHORT");
    const char *scale = getenv("ACRE_TEST_SCALE");

    if (is_long && *is_long == '1')
        return count_long(small, large, scale ? strtoull(scale, NULL, 10) : 1);
    return is_short && *is_short == '1' && small >= 80 ? small / 8 : small;
}

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

unsigned t_slowness(void)
{
#if ACRE_CHECK >= 2
    return 50;
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                             \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
    return 10;
#else
    return 1;
#endif
}

int t_emulated(void)
{
    const char *text = getenv("ACRE_TEST_EMULATED");

    return text && *text == '1';
}

#ifndef ACRE_SOURCE /* the installed suite */
#define ACRE_SOURCE "."
enum { IS_INSTALLED = 1 };
#else
enum { IS_INSTALLED = 0 };
#endif

const char *t_shared(const char *name)
{
    static char path[4096];
    const char *folder = getenv("ACRE_SHARED");

    snprintf(path, sizeof path, "%s/%s", folder ? folder : ACRE_SOURCE "/../shared", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

static int entry_count(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

int t_fd_count(void)
{
    return entry_count("/proc/self/fd");
}

int t_thread_count(void)
{
    if (t_emulated()) /* the emulator has threads of its own, which come and go */
        return 1;
    return entry_count("/proc/self/task");
}

int t_threads_left(int expected)
{
    for (int i = 0; i < 5000 && t_thread_count() > expected; i++)
        usleep(1000);
    return t_thread_count();
}

int t_map_count(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const char *kind = "/memfd:"; /* a sanitizer maps as it likes: what is ours has a name */
#else
    const char *kind = "";
#endif
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    while (file && fgets(line, sizeof line, file))
        count += strchr(line, '\n') && strstr(line, kind);
    if (file)
        fclose(file);
    return count;
}

pid_t t_start(void (*fn)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();

    if (pid == 0) {
        is_child = 1;
        fn(arg);
        child_end(failures ? 1 : 0);
    }
    return pid;
}

int t_join(pid_t pid)
{
    int status = 0;

    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        ;
    return pid > 0 ? status : -1;
}

int t_child(void (*fn)(void *), void *arg)
{
    return t_join(t_start(fn, arg));
}

struct faulting {
    void (*fn)(void *);
    void *arg;
};

static void run_faulting(void *arg)
{
    struct faulting *f = arg;

    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    f->fn(f->arg);
}

int t_faults(void (*fn)(void *), void *arg)
{
    struct faulting f = {fn, arg};
    int status = t_child(run_faulting, &f);

    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

/* ---- Crashes and waits -------------------------------------------------------------------- */

static unsigned patience = 30;   /* seconds after which a test that runs is named */
static const char *running = ""; /* name of the test */
static long running_seconds;

/* Writes strings to standard error, the last of which is NULL; async-signal-safe. */
static void write_strings(const char *const *texts)
{
    for (; *texts; texts++)
        if (write(2, *texts, strlen(*texts)) < 0)
            return;
}

/* Says in which test the program crashed, and lets it crash. */
static void tell_crash(int number)
{
    const char *name = number == SIGSEGV  ? "SIGSEGV"
                       : number == SIGBUS ? "SIGBUS"
                       : number == SIGFPE ? "SIGFPE"
                       : number == SIGILL ? "SIGILL"
                                          : "SIGABRT";

    signal(number, SIG_DFL);
    if (!is_child)
        write_strings((const char *const[]){
            "FAIL ", running, "\n  the program crashed in this test (", name,
            "), most likely inside a call of the backend.\n  What the test does stands above TEST(",
            running,
            ") in the suite; a debugger that is given this name alone\n"
            "  as the program's last argument stops at the place.\n",
            NULL});
    raise(number);
}

/* Names a test that runs for long: it may wait for something that never comes. */
static void tell_wait(int number)
{
    char digits[24];
    char *at = digits + sizeof digits - 1;

    (void)number;
    running_seconds += patience;
    *at = 0;
    for (long left = running_seconds; left; left /= 10)
        *--at = (char)('0' + left % 10);
    if (!is_child)
        write_strings(
            (const char *const[]){"  ", running, " has run for ", at, " s and goes on\n", NULL});
    alarm(patience);
}

/* In the installed suite, whose backends are not ours, and no sanitizer tells more. */
static void tell_ends(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static char stack[1 << 16]; /* the other one may be full */
    struct sigaction action = {.sa_handler = tell_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};

    if (!IS_INSTALLED || t_slowness() > 1)
        return;
    if (getenv("ACRE_TEST_PATIENCE"))
        patience = (unsigned)strtoul(getenv("ACRE_TEST_PATIENCE"), NULL, 10);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &action, NULL);
    action = (struct sigaction){.sa_handler = tell_wait, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
}

static int wanted(const struct t_case *test, int argc, char **argv)
{
    int named = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0) {
            i++;
            continue;
        }
        named = 1;
        if (strcmp(argv[i], test->name) == 0)
            return 1;
    }
    return !named;
}

/* The same in every run, unless asked for or in long runs. */
static void choose_seed(int argc, char **argv)
{
    const char *text = getenv("ACRE_SEED");
    uint64_t other = t_count(0, 1) ? (uint64_t)time(NULL) + (uint64_t)getpid() : 1;

    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--seed") == 0)
            text = argv[i + 1];
    seed = text ? strtoull(text, NULL, 0) : other * 1000003u;
    printf("seed %llu\n", (unsigned long long)seed);
}

static void run_one(const struct t_case *test)
{
    running = test->name;
    running_seconds = 0;
    if (IS_INSTALLED)
        alarm(patience);
    if (setjmp(leave) == 0)
        test->run();
    if (IS_INSTALLED)
        alarm(0);
}

int t_main(int argc, char **argv)
{
    int passed = 0, failed = 0, left_out = 0;

    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        for (struct t_case *test = first; test; test = test->next)
            puts(test->name);
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* Whatever drivers the machine has, a test meets them only when it asks. */
    setenv("ACRE_BACKENDS", "sim,host", 0);
    choose_seed(argc, argv);
    tell_ends();
    for (struct t_case *test = first; test; test = test->next) {
        if (!wanted(test, argc, argv))
            continue;
        failures = skipped = 0;
        run_one(test);
        printf("%s %s\n", failures ? "FAIL" : skipped ? "skip" : "ok  ", test->name);
        failed += failures != 0;
        left_out += !failures && skipped;
        passed += !failures && !skipped;
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, left_out);
    return failed ? 1 : passed ? 0 : 77;
}
