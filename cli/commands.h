/* SPDX-License-Identifier: MIT */
/* The commands of acre: one list, from which the table and the help are made.
 *
 * cli/NAME.c holds one command as cmd_NAME(argc, argv), where argv[0] is the
 * name. A command answers --help itself and returns the exit status:
 * CLI_DONE, CLI_NO when the answer is "no" (does not fit, differs), CLI_BAD
 * for bad use or bad input. Only commands that exist are listed.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

enum {
    CLI_DONE = 0,
    CLI_NO = 1,
    CLI_BAD = 2,
};

/* For how long settings are tried when nothing else is said. */
#define CLI_ADVISE_SECONDS 120

/* Name, what --help says about it. */
#define CLI_COMMANDS(X)                                                        \
    X(demo, "a tour on the reference device; writes report.html")             \
    X(predict, "the GPU memory of a PyTorch program, without a GPU")            \
    X(replay, "replay a recording and report the memory it needs")         \
    X(view, "a recording as one page for a browser")                            \
    X(advise, "which setting would have let a recorded job fit")                \
    X(why, "why memory ran out, or what held it at the peak")                   \
    X(diff, "what grew between two snapshots")                                  \
    X(convert, "traces and snapshots into one another")                         \
    X(plan, "offsets for buffers whose lifetimes are known")                   \
    X(devices, "what this machine offers")                                     \
    X(run, "starts a program as several ranks that find each other")           \
    X(exec, "starts a Python program whose tensors and arrays are on Acre")    \
    X(bench, "figures of this machine, beside host allocators")

#define CLI_DECLARE(name, summary) int cmd_##name(int argc, char **argv);
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

#endif
