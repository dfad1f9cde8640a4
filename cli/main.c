/* SPDX-License-Identifier: MIT */
/* acre: looks up the command and runs it. See commands.h. */
#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/text/filter.h"
#include "cli/text/memory.h"
#include "cli/text/print.h"

#include <acre/output.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define CLI_ENTRY(name, summary) {#name, summary, cmd_##name},
    CLI_COMMANDS(CLI_ENTRY)
#undef CLI_ENTRY
        {NULL, NULL, NULL},
};

static void print_help(FILE *file)
{
    fputs("usage: acre [--backend LIBRARY] COMMAND [OPTION...]\n\n"
          "Memory for any accelerator: devices, allocators, and what is worth knowing\n"
          "about them.\n\n",
          file);
    for (const struct command *command = commands; command->name; command++)
        fprintf(file, "  %-9s %s\n", command->name, command->summary);
    fputs(
        "\n  help      \"acre help COMMAND\"; \"acre help conf\" tells every option of caches,\n"
        "            \"acre help environment\" the variables that are read\n"
        "  --help    this text; \"acre COMMAND --help\" tells more, with an example\n"
        "  --backend LIBRARY  before devices, bench or run: somebody's own device, out of a\n"
        "            shared library (docs/BACKENDS.md)\n"
        "  --memory SIZE  behind a COMMAND that reads files: the host memory it may take. By\n"
        "            default 256 MiB and 500 times the size of the files, and at most half\n"
        "            of the machine\n"
        "  --output-limit SIZE  behind a COMMAND that reads files: the size that a file it writes\n"
        "            may reach before compression. By default as above, without the half\n"
        "  --version the version of the library\n\n"
        "Exit status: 0: completed; 1: completed, negative result; 2: bad use or bad input.\n",
        file);
}

/* "acre help", "acre help COMMAND", "acre help TOPIC". */
static int run_help(int argc, char **argv)
{
    char help[] = "--help";
    char *asked[] = {argc > 1 ? argv[1] : NULL, help, NULL};

    if (argc < 2) {
        print_help(stdout);
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        puts(
            "usage: acre help [COMMAND|TOPIC]\n\n"
            "The help of a command, or a topic: conf (every option of caches) or environment (the\n"
            "variables that are read).\n\n"
            "Example:\n"
            "  acre help conf");
        return CLI_DONE;
    }
    if (help_topic(argv[1]))
        return CLI_DONE;
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(argv[1], command->name) == 0)
            return command->run(2, asked);
    fprintf(stderr,
            "acre help: there is no command or topic \"%s\"; topics are conf and environment, "
            "\"acre --help\" lists the commands\n",
            argv[1]);
    return CLI_BAD;
}

static int run_command(int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0)
        return run_help(argc, argv);
    if (!help_environment_check())
        return CLI_BAD;
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(argv[0], command->name) == 0)
            return memory_limit(&argc, argv) ? command->run(argc, argv) : CLI_BAD;
    fprintf(stderr, "acre: there is no command \"%s\"; \"acre --help\" lists them\n", argv[0]);
    return CLI_BAD;
}

/* With --json, errors are JSON too, for bad use and bad input, also for input that status 1 stands
 * for: what was said on standard error, as one object. Arguments of run, exec and predict may be
 * those of another program. */
static void answer_json(int argc, char **argv)
{
    static const char *const starters[] = {"run", "exec", "predict"};
    const char *text = filter_complaint();
    bool is_asked = false;

    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
        if (argc > 0 && strcmp(argv[0], starters[i]) == 0)
            return;
    for (int i = 1; i < argc && argv[i] && strcmp(argv[i], "--") != 0; i++)
        is_asked |= strcmp(argv[i], "--json") == 0;
    if (!is_asked || !filter_is_silent())
        return;
    if (strncmp(text, "acre ", 5) == 0 && strstr(text, ": ")) /* the name of the command */
        text = strstr(text, ": ") + 2;
    fputs("{\"error\": ", stdout);
    print_json_string(stdout, *text ? text : "see standard error");
    fputs("}\n", stdout);
}

/* Ends by the signal, after removing files that are not whole. */
static void end_by_signal(int number)
{
    acre_output_abandon_all();
    signal(number, SIG_DFL);
    raise(number);
}

/* The write that exceeds the limit of file sizes fails, and tells why. Were the signal ignored
 * instead, programs that are started from here would ignore it too. */
static void go_on(int number)
{
    (void)number;
}

static void take_signals(void)
{
    static const struct {
        int number;
        void (*handler)(int);
    } taken[] = {{SIGINT, end_by_signal},  {SIGTERM, end_by_signal}, {SIGHUP, end_by_signal},
                 {SIGQUIT, end_by_signal}, {SIGPIPE, end_by_signal}, {SIGXCPU, end_by_signal},
                 {SIGXFSZ, go_on}};
    struct sigaction old;

    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (sigaction(taken[i].number, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(taken[i].number, &(struct sigaction){.sa_handler = taken[i].handler}, NULL);
}

/* Descriptors 0 to 2 that are closed become such that nothing can be read or written, as before:
 * no file or pipe gets their numbers. A program that this command becomes finds them closed. */
static void take_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int main(int argc, char **argv)
{
    int status = CLI_DONE;

    take_descriptors();
    take_signals();
    filter_install();

    bool is_good = backend_option(&argc, &argv);

    if (argc < 2) {
        print_help(stderr);
        return CLI_BAD;
    }
    if (!is_good)
        status = CLI_BAD;
    else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        print_help(stdout);
    else if (strcmp(argv[1], "--version") == 0)
        printf("acre %s\n", acre_version());
    else
        status = run_command(argc - 1, argv + 1);
    if (status != CLI_DONE)
        answer_json(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("acre: writing to standard output failed");
        return CLI_BAD;
    }
    return status;
}
