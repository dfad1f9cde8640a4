/* SPDX-License-Identifier: MIT */
/* Far ranks in work; see reach.h. */
#include "symm/far/reach.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"

far_op reach_piece(const struct work *work, enum wire_kind kind, int rank, size_t offset,
                   const void *here, size_t bytes)
{
    const struct place_far *place = &work->symm->team->places[rank];

    return (far_op){.kind = kind,
                    .rank = place->wire_rank,
                    .address = place->block + work->symm->offset + offset,
                    .here = (void *)(uintptr_t)here,
                    .bytes = bytes};
}

int reach_rank_of(const struct team *team, int wire_rank)
{
    for (int i = 0; i < team->count; i++)
        if (team_is_far(team, i) && team->places[i].wire_rank == wire_rank)
            return i;
    return -1;
}

acre_status reach_run(const struct work *work, const far_op *ops, size_t count, int64_t deadline)
{
    int rank = -1;
    acre_status status = count ? far_run(ops, count, deadline, &rank) : ACRE_OK;

    if (status == ACRE_OK)
        return ACRE_OK;
    rank = reach_rank_of(work->symm->team, rank);
    if (rank >= 0 && (status == ACRE_ERR_PEER || status == ACRE_ERR_TIMEOUT))
        return work_fail_wait(work, status, rank, "answer over the wire");
    return status;
}

acre_status reach_together(struct work *work, const far_op *ops, size_t count)
{
    acre_status status = reach_run(work, ops, count, work_deadline(work));

    if (status != ACRE_OK)
        atomic_store_explicit(&work->symm->team->is_broken, true, memory_order_relaxed);
    return status;
}

/* ---- Pulling ---------------------------------------------------------------------- */

static size_t far_count(const struct team *team)
{
    size_t count = 0;

    for (int i = 0; i < team->count; i++)
        count += team_is_far(team, i);
    return count;
}

acre_status pulled_init(const struct work *work, size_t rows, size_t bytes, struct pulled *out)
{
    size_t count = far_count(work->symm->team);

    *out = (struct pulled){.bytes_each = (bytes + 63) / 64 * 64, .ops_max = rows * count};
    if (count == 0)
        return ACRE_OK;
    out->room = heap_zalloc(count * out->bytes_each);
    out->ops = heap_array(out->ops_max, sizeof *out->ops);
    if (out->room && out->ops)
        return ACRE_OK;
    pulled_fini(out);
    return status_fail(ACRE_ERR_HOST_MEMORY, "%s: no room for what %zu far rank%s sent", work->call,
                       count, text_plural(count));
}

void pulled_fini(struct pulled *pulled)
{
    heap_free(pulled->room);
    heap_free(pulled->ops);
    *pulled = (struct pulled){0};
}

acre_status pulled_bring(struct work *work, struct pulled *pulled, const struct pulled_rows *rows,
                         void **sources)
{
    const struct team *team = work->symm->team;
    size_t count = 0;
    char *room = pulled->room;

    for (int i = 0; i < team->count; i++) {
        if (!team_is_far(team, i))
            continue;
        for (size_t row = 0; row < rows->rows; row++)
            pulled->ops[count++] = reach_piece(work, WIRE_GET, i, rows->offset + row * rows->pitch,
                                               room + row * rows->width, rows->width);
        sources[i] = room;
        room += pulled->bytes_each;
    }
    return reach_together(work, pulled->ops, count);
}
