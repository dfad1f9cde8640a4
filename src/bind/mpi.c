/* SPDX-License-Identifier: MIT */
/* libacre_mpi_openmpi.so and libacre_mpi_mpich.so: a wire made of one MPI's one-sided windows.
 *
 * One dynamic window spans all ranks that mpirun started; memory is attached to it where it
 * lies, so that an address in a rank is its place in the window. The window is locked by all
 * for as long as it lives; a flush completes what was begun. Nothing here is collective but
 * opening, spreading and closing.
 *
 * Open MPI 4's own choice of transport for windows fails over TCP, hence pt2pt below unless
 * the user chose; that one wants calls from one thread at a time, which is what a wire gets.
 */
#include "symm/far/wire.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Comm comm;
static MPI_Win window;
static int is_own; /* MPI was begun here and is ended here */

static acre_status mpi_fail(struct wire_error *error, int code, const char *what, int rank)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    MPI_Error_string(code, text, &length);
    error->rank = rank;
    snprintf(error->text, sizeof error->text, "%s: %.150s", what, text);
    return ACRE_ERR_IO;
}

/* Begins MPI, or takes what the program has begun if that allows calls from another thread. */
static acre_status mpi_begin(struct wire_error *error)
{
    int is_begun, level;

    MPI_Initialized(&is_begun);
    if (!is_begun) {
        setenv("OMPI_MCA_osc", "pt2pt", 0);
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* this thread is one too many */
        int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        if (code != MPI_SUCCESS)
            return mpi_fail(error, code, "MPI_Init_thread", -1);
        is_own = 1;
    } else {
        MPI_Query_thread(&level);
    }
    if (level >= (is_own ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE))
        return ACRE_OK;
    snprintf(error->text, sizeof error->text,
             "MPI was begun without leave to use several "
             "threads; call MPI_Init_thread with MPI_THREAD_MULTIPLE, or not at all");
    return ACRE_ERR_STATE;
}

static acre_status mpi_open(void *self, int *out_rank, int *out_count, struct wire_error *error)
{
    acre_status status = mpi_begin(error);

    (void)self;
    if (status != ACRE_OK)
        return status;
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window);
    if (code == MPI_SUCCESS)
        code = MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    if (code != MPI_SUCCESS)
        return mpi_fail(error, code, "no window over all ranks", -1);
    MPI_Comm_rank(comm, out_rank);
    MPI_Comm_size(comm, out_count);
    return ACRE_OK;
}

static acre_status mpi_attach(void *self, void *base, size_t bytes, uint64_t *out_address,
                              struct wire_error *error)
{
    MPI_Aint address;
    int code = MPI_Win_attach(window, base, (MPI_Aint)bytes);

    (void)self;
    if (code == MPI_SUCCESS)
        code = MPI_Get_address(base, &address);
    if (code != MPI_SUCCESS)
        return mpi_fail(error, code, "MPI_Win_attach", -1);
    *out_address = (uint64_t)address;
    return ACRE_OK;
}

static void mpi_detach(void *self, void *base)
{
    (void)self;
    MPI_Win_detach(window, base);
}

static int begin_one(const struct wire_op *op)
{
    MPI_Aint there = (MPI_Aint)op->address;
    int bytes = (int)op->bytes;

    if (op->kind == WIRE_PUT)
        return MPI_Put(op->here, bytes, MPI_BYTE, op->rank, there, bytes, MPI_BYTE, window);
    if (op->kind == WIRE_GET)
        return MPI_Get(op->here, bytes, MPI_BYTE, op->rank, there, bytes, MPI_BYTE, window);
    if (bytes == 8)
        return MPI_Compare_and_swap(&op->value, &op->compare, op->here, MPI_UINT64_T, op->rank,
                                    there, window);
    /* Values lie in the low half; where that is in memory depends on the machine. */
    uint32_t value = (uint32_t)op->value, compare = (uint32_t)op->compare;
    int code =
        MPI_Compare_and_swap(&value, &compare, op->here, MPI_UINT32_T, op->rank, there, window);
    return code == MPI_SUCCESS ? MPI_Win_flush(op->rank, window) : code;
}

static acre_status mpi_run(void *self, const struct wire_op *ops, size_t count,
                           struct wire_error *error)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        int code = begin_one(&ops[i]);
        if (code != MPI_SUCCESS)
            return mpi_fail(error, code, "one-sided transfer", ops[i].rank);
    }
    for (size_t i = 0; i < count; i++) {
        if (i && ops[i].rank == ops[i - 1].rank)
            continue;
        int code = MPI_Win_flush(ops[i].rank, window);
        if (code != MPI_SUCCESS)
            return mpi_fail(error, code, "completing a transfer", ops[i].rank);
    }
    return ACRE_OK;
}

/* Windows without hardware are served inside MPI's own calls. */
static void mpi_serve(void *self)
{
    int flag;

    (void)self;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
}

static acre_status mpi_spread(void *self, void *data, size_t bytes, struct wire_error *error)
{
    int code = MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, comm);

    (void)self;
    return code == MPI_SUCCESS ? ACRE_OK : mpi_fail(error, code, "MPI_Bcast", 0);
}

static bool mpi_is_dead(void *self, int rank)
{
    (void)self;
    (void)rank;
    return false; /* mpirun ends the job when a rank dies */
}

static bool is_ended(void)
{
    int flag = 0;

    MPI_Finalized(&flag);
    return flag;
}

static void mpi_leave(void *self)
{
    (void)self;
    if (is_ended())
        return;
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Barrier(comm);
}

static void mpi_close(void *self)
{
    (void)self;
    if (is_ended())
        return;
    MPI_Comm_free(&comm);
    if (is_own)
        MPI_Finalize();
}

#ifdef OPEN_MPI
#define NAME     "openmpi"
#define CLOSE_MS 0
#else
#define NAME     "mpich"
#define CLOSE_MS 5000 /* of 4.0, which may hang there; see far.c */
#endif

const struct wire_ops *acre_wire(uint32_t version);
__attribute__((visibility("default"))) const struct wire_ops *acre_wire(uint32_t version)
{
    static const struct wire_ops ops = {.version = WIRE_VERSION,
                                        .name = NAME,
                                        .open = mpi_open,
                                        .attach = mpi_attach,
                                        .detach = mpi_detach,
                                        .run = mpi_run,
                                        .serve = mpi_serve,
                                        .spread = mpi_spread,
                                        .is_dead = mpi_is_dead,
                                        .leave = mpi_leave,
                                        .close = mpi_close,
                                        .close_ms_max = CLOSE_MS};

    return version == WIRE_VERSION ? &ops : NULL;
}
