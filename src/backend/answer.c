/* SPDX-License-Identifier: MIT */
/* Tables of others. Each entry that is there is called through a function that compares how
 * many failures the thread has recorded before and after: a failure that brought no sentence
 * gets one with the names of backend and entry. An entry that is absent stays absent. */
#include "backend/answer.h"

#include "backend/ops_map.h"
#include "backend/table.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

struct answer {
    acre_backend_ops given; /* what the backend brought; absent entries are NULL */
    acre_backend_ops ops;   /* the same entries of the wrapper                   */
    void *self;             /* first argument of those that were given           */
    char *name;             /* owned                                             */
};

/* An entry did not succeed. That something is not ready is an answer and needs no sentence. */
static __attribute__((noinline, cold)) acre_status answer_complete(const struct answer *answer,
                                                                   const char *entry,
                                                                   uint64_t before,
                                                                   acre_status status)
{
    if (status == ACRE_ERR_NOT_READY || status_count != before)
        return status;
    return status_fail(status, "backend \"%s\": its \"%s\" answers \"%s\"", answer->name, entry,
                       acre_status_text(status));
}

#define ANSWER(group, entry, parameters, arguments)                                                \
    static acre_status answered_##entry parameters                                                 \
    {                                                                                              \
        const struct answer *answer = self;                                                        \
        uint64_t before = status_count;                                                            \
                                                                                                   \
        self = answer->self;                                                                       \
        acre_status status = answer->given.entry arguments;                                        \
        return LIKELY(status == ACRE_OK) ? status                                                  \
                                         : answer_complete(answer, #entry, before, status);        \
    }
OPS_MAP(ANSWER)
#undef ANSWER

acre_status answer_create(acre_backend_desc *desc, struct answer **out)
{
    struct answer *answer = heap_zalloc(sizeof *answer);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!answer)
        return status;
    answer->name = heap_strdup(desc->name);
    if (answer->name)
        status = table_take(desc->name, desc->ops, &answer->given);
    if (status != ACRE_OK) {
        answer_destroy(answer);
        return status;
    }
    answer->self = desc->self;
    answer->ops = answer->given;
#define ANSWER(group, entry, parameters, arguments)                                                \
    if (answer->given.entry)                                                                       \
        answer->ops.entry = answered_##entry;
    OPS_MAP(ANSWER)
#undef ANSWER
    desc->ops = &answer->ops;
    desc->self = answer;
    *out = answer;
    return ACRE_OK;
}

void answer_destroy(struct answer *answer)
{
    if (!answer)
        return;
    heap_free(answer->name);
    heap_free(answer);
}
