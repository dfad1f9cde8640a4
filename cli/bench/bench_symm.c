/* SPDX-License-Identifier: MIT */
/* acre bench symm: what operations on symmetric memory take, beside memcpy and MPI.
 *
 * In each round this program runs itself as ranks (acre run), then the small program that was
 * built with each MPI found, all bound to processors; medians over the rounds are shown.
 */
#include "cli/bench/bench_symm.h"
#include "cli/commands.h"
#include "cli/text/options.h"
#include "cli/text/plot.h"
#include "cli/text/print.h"
#include "cli/text/table.h"

#include <acre/base.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS_MAX = 64, ROUNDS_MAX = 15, SOURCES = 3 };

/* One operation and size, with what each source took in each round. */
struct symm_row {
    char name[32];
    size_t bytes;
    int counts[SOURCES];
    double ns[SOURCES][ROUNDS_MAX];
};

struct results {
    int count;
    struct symm_row rows[ROWS_MAX];
};

/* This library, and the MPIs it is compared with. */
static const char *const source_names[SOURCES] = {"acre", "openmpi", "mpich"};

static struct symm_row *row_find(struct results *results, const char *name, size_t bytes)
{
    for (int i = 0; i < results->count; i++)
        if (results->rows[i].bytes == bytes && strcmp(results->rows[i].name, name) == 0)
            return &results->rows[i];
    return NULL;
}

static void row_add(struct results *results, int source, const char *name, size_t bytes, double ns)
{
    struct symm_row *row = row_find(results, name, bytes);

    if (!row) {
        if (source > 0 || results->count == ROWS_MAX)
            return;
        row = &results->rows[results->count++];
        snprintf(row->name, sizeof row->name, "%s", name);
        row->bytes = bytes;
    }
    if (row->counts[source] < ROUNDS_MAX)
        row->ns[source][row->counts[source]++] = ns;
}

static int bench_symm_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Negative when there is none. */
static double bench_symm_median(struct symm_row *row, int source)
{
    if (!row || row->counts[source] == 0)
        return -1;
    qsort(row->ns[source], (size_t)row->counts[source], sizeof(double), bench_symm_compare);
    return row->ns[source][row->counts[source] / 2];
}

/* The faster MPI; its number, or 0 when there is none. */
static int bench_symm_fastest(struct symm_row *row, double *out_ns)
{
    int best = 0;

    for (int i = 1; i < SOURCES; i++) {
        double ns = bench_symm_median(row, i);
        if (ns >= 0 && (best == 0 || ns < *out_ns)) {
            best = i;
            *out_ns = ns;
        }
    }
    return best;
}

/* ---- Running ---------------------------------------------------------------------------- */

/* Folder of this program. */
static bool own_folder(char *out, size_t bytes, char *program, size_t program_bytes)
{
    ssize_t length = readlink("/proc/self/exe", program, program_bytes - 1);

    if (length <= 0)
        return false;
    program[length] = 0;
    snprintf(out, bytes, "%s", program);
    *strrchr(out, '/') = 0;
    return !strchr(program, '\'');
}

/* The command of a source, or false when it is not there. */
static bool command_make(char *out, size_t bytes, int source, int ranks)
{
    char folder[3000], program[3000], helper[3200];
    bool is_crowded = ranks > sysconf(_SC_NPROCESSORS_ONLN);

    if (!own_folder(folder, sizeof folder, program, sizeof program))
        return false;
    if (source == 0) {
        snprintf(out, bytes, "'%s' run --plain %s -n %d -- '%s' bench symm --as-rank", program,
                 is_crowded ? "" : "--bind", ranks, program);
        return true;
    }
    snprintf(helper, sizeof helper, "%s/bench/symm_%s", folder, source_names[source]);
    if (access(helper, X_OK) != 0)
        return false;
    if (source == 1)
        /* Nothing is started elsewhere, but without ssh it wants to be told of another way. */
        snprintf(out, bytes,
                 "mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent sh %s -n %d '%s' 2>&1",
                 is_crowded ? "--oversubscribe --bind-to none" : "--bind-to core", ranks, helper);
    else
        snprintf(out, bytes, "mpirun.mpich %s -n %d '%s' 2>&1",
                 is_crowded ? "-bind-to none" : "-bind-to core", ranks, helper);
    return true;
}

static bool run_source(struct results *results, int source, int ranks)
{
    char command[8192], line[256], name[32];
    double ns;
    size_t bytes;

    if (!command_make(command, sizeof command, source, ranks))
        return source > 0;
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return false;
    while (fgets(line, sizeof line, pipe))
        if (sscanf(line, "%31s %zu %lf", name, &bytes, &ns) == 3)
            row_add(results, source, name, bytes, ns);
    return pclose(pipe) == 0 || source > 0;
}

/* ---- Showing ------------------------------------------------------------------------------ */

static void print_ns(FILE *file, const char *key, double ns)
{
    if (ns < 0)
        fprintf(file, ", \"%s\": null", key);
    else
        fprintf(file, ", \"%s\": %.1f", key, ns);
}

static void print_json(struct results *results)
{
    fputs("{\"results\": [", stdout);
    for (int i = 0; i < results->count; i++) {
        struct symm_row *row = &results->rows[i];
        double own = bench_symm_median(row, 0), mpi_ns = -1;
        int mpi = bench_symm_fastest(row, &mpi_ns);
        printf("%s\n  {\"op\": \"%s\", \"bytes\": %zu", i ? "," : "", row->name, row->bytes);
        print_ns(stdout, "ns", own);
        print_ns(stdout, "mpi_ns", mpi_ns);
        if (mpi)
            printf(", \"mpi\": \"%s\", \"ratio_to_mpi\": %.4f", source_names[mpi], own / mpi_ns);
        else
            fputs(", \"mpi\": null, \"ratio_to_mpi\": null", stdout);
        print_ns(stdout, "memcpy_ns",
                 bench_symm_median(row_find(results, "memcpy", row->bytes), 0));
        putchar('}');
    }
    fputs("\n]}\n", stdout);
}

static void cell_us(struct text_table *table, double ns)
{
    if (ns < 0)
        table_cell(table, "-");
    else
        table_cell(table, ns < 1e5 ? "%.2f" : "%.0f", ns / 1000);
}

static void print_text(struct results *results, int ranks)
{
    const char *columns[] = {"<microseconds", "size",   "acre",  "openmpi",
                             "mpich",         "memcpy", "ratio", NULL};
    struct text_table table;

    table_begin(&table, columns);
    for (int i = 0; i < results->count; i++) {
        struct symm_row *row = &results->rows[i];
        double own = bench_symm_median(row, 0), mpi_ns = -1;
        int mpi = bench_symm_fastest(row, &mpi_ns);
        table_cell(&table, "%s", row->name);
        table_cell(&table, "%s", row->bytes ? print_bytes(row->bytes) : "-");
        for (int source = 0; source < SOURCES; source++)
            cell_us(&table, bench_symm_median(row, source));
        cell_us(&table, bench_symm_median(row_find(results, "memcpy", row->bytes), 0));
        if (mpi)
            table_cell(&table, "%.2f", own / mpi_ns);
        else
            table_cell(&table, "-");
    }
    table_end(&table, stdout);
    printf("\n%s, bound to processors where there are enough, memory touched before;\n"
           "medians. ratio: to the faster MPI in this run; - is not installed. memcpy: the same\n"
           "bytes on all processors at once. all_reduce is in place, with an algorithm by size;\n"
           "put_signal and flag are round trips, flag without the library; rendezvous_100 is a\n"
           "hundred blocks.\n",
           print_count((uint64_t)ranks, "rank"));
}

static int write_svg(const char *path, struct results *results)
{
    static char titles[ROWS_MAX][64];
    static double values[ROWS_MAX * (SOURCES + 1)];
    const char *groups[ROWS_MAX], *bars[] = {"acre", "openmpi", "mpich", "memcpy"};
    int count = 0;

    for (int i = 0; i < results->count; i++) {
        struct symm_row *row = &results->rows[i];
        double mpi_ns = -1;
        if (!bench_symm_fastest(row, &mpi_ns) && strcmp(row->name, "barrier") != 0 &&
            strcmp(row->name, "all_reduce") != 0)
            continue;
        snprintf(titles[count], sizeof titles[count], "%s %s", row->name,
                 row->bytes ? print_bytes(row->bytes) : "");
        groups[count] = titles[count];
        for (int source = 0; source < SOURCES; source++)
            values[count * (SOURCES + 1) + source] = bench_symm_median(row, source);
        values[count * (SOURCES + 1) + SOURCES] =
            bench_symm_median(row_find(results, "memcpy", row->bytes), 0);
        count++;
    }
    struct plot plot = {"nanoseconds, logarithmic", groups, count, bars, SOURCES + 1, values};
    if (plot_bars(path, &plot))
        return CLI_DONE;
    fprintf(stderr, "acre bench symm: %s\n", acre_last_error());
    return CLI_BAD;
}

static void bench_symm_help(void)
{
    fputs("usage: acre bench symm [OPTION...]\n\n"
          "Times operations on symmetric memory between ranks of this machine, beside memcpy and\n"
          "the MPIs that were there when Acre was built, in one run.\n\n"
          "  --ranks N    number of ranks, 1 to 64 (2)\n"
          "  --rounds N   runs of which the median is shown (3)\n"
          "  --json       {\"results\": [{\"op\", \"bytes\", \"ns\", \"mpi_ns\", ...}]}\n"
          "  --svg FILE   also draws the figures\n\n"
          "Example: a quick look\n"
          "  acre bench symm --rounds 1\n",
          stdout);
}

int bench_symm(int argc, char **argv)
{
    static struct results results;
    struct options options = {argc, argv, "bench symm", 0, false, false};
    uint64_t ranks = 2, rounds = 3;
    const char *svg = NULL;
    bool as_json = false;

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h")) {
            bench_symm_help();
            return CLI_DONE;
        }
        if (options_is(&options, "--as-rank")) /* this program as a rank */
            return bench_symm_rank();
        if (options_is(&options, "--json"))
            as_json = true;
        else if (!options_number(&options, "--ranks", 1, 64, &ranks) &&
                 !options_number(&options, "--rounds", 1, ROUNDS_MAX, &rounds) &&
                 !options_value(&options, "--svg", &svg))
            options_refuse(&options);
    }
    if (options.is_bad)
        return CLI_BAD;
    for (uint64_t round = 0; round < rounds; round++)
        for (int source = 0; source < SOURCES; source++)
            if (!run_source(&results, source, (int)ranks)) {
                fprintf(stderr, "acre bench symm: the ranks failed\n");
                return CLI_BAD;
            }
    if (as_json)
        print_json(&results);
    else
        print_text(&results, (int)ranks);
    return svg ? write_svg(svg, &results) : CLI_DONE;
}
