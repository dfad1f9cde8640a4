/* SPDX-License-Identifier: MIT */
/* Mail to far ranks; see mail.h. */
#include "symm/far/mail.h"

#include "base/heap.h"
#include "base/process/fork.h"
#include "base/status.h"
#include "symm/deadline.h"
#include "symm/far/reach.h"

#define CLOSE_MS 2000 /* that telling the others may take */

static struct lock graves_lock = LOCK_INITIALIZER(RANK_GENERATOR, "teams given away");
FORK_GUARD(graves_lock);
static struct list graves = LIST_INITIALIZER(graves); /* under graves_lock */

/* Of a word in a control page. */
static size_t mail_offset(const struct team *team, uint32_t row, int from)
{
    return control_mail_offset(team->channels) +
           4 * ((size_t)row * (size_t)team->count + (size_t)from);
}

struct spot mail_spot(const struct team *team, uint32_t row, int from)
{
    char *page = team->controls[team->rank]->base;

    return (struct spot){(_Atomic uint32_t *)(void *)(page + mail_offset(team, row, from)),
                         team_control(team, team->rank)};
}

/* Sends one word to all far ranks at once. */
static acre_status send_word(const struct team *team, uint32_t row, uint32_t value,
                             int64_t deadline, int *out_rank)
{
    size_t count = 0, offset = mail_offset(team, row, team->rank);
    far_op *ops = heap_array((size_t)team->count, sizeof *ops);

    *out_rank = -1;
    if (!ops)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < team->count; i++)
        if (team_is_far(team, i))
            ops[count++] = (far_op){.kind = WIRE_PUT,
                                    .rank = team->places[i].wire_rank,
                                    .address = team->places[i].control + offset,
                                    .here = &value,
                                    .bytes = sizeof value};
    acre_status status = far_run(ops, count, deadline, out_rank);
    heap_free(ops);
    if (status != ACRE_OK)
        *out_rank = reach_rank_of(team, *out_rank);
    return status;
}

acre_status mail_send(const struct work *work, uint32_t row, uint32_t value, int64_t deadline,
                      int *out_rank)
{
    return send_word(work->symm->team, row, value, deadline, out_rank);
}

/* ---- Ending ----------------------------------------------------------------------- */

static bool all_are_done(const struct team *team)
{
    for (int i = 0; i < team->count; i++)
        if (team_is_far(team, i) &&
            atomic_load_explicit(mail_spot(team, MAIL_CLOSED, i).word, memory_order_acquire) == 0 &&
            !link_is_dead(team->group->peers, i))
            return false;
    return true;
}

void mail_sweep(void)
{
    struct list over = LIST_INITIALIZER(over);

    lock_take(&graves_lock);
    for (struct list *it = graves.next, *next; it != &graves; it = next) {
        next = it->next;
        if (all_are_done(CONTAINER_OF(it, struct team, link))) {
            list_remove(it);
            list_push_back(&over, it);
        }
    }
    lock_drop(&graves_lock);
    while (!list_empty(&over)) {
        struct team *team = CONTAINER_OF(over.next, struct team, link);
        list_remove(&team->link);
        team_free(team);
    }
}

void mail_bury(struct team *team)
{
    struct status_saved saved;
    int rank;

    status_save(&saved);
    send_word(team, MAIL_CLOSED, 1, deadline_in_ms(CLOSE_MS), &rank);
    status_restore(&saved);
    lock_take(&graves_lock);
    list_push_back(&graves, &team->link);
    lock_drop(&graves_lock);
    mail_sweep();
}
