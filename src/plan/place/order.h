/* SPDX-License-Identifier: MIT */
/* Orders in which buffers are preferred: fixed ones first, then drawn ones. */
#ifndef SRC_PLAN_ORDER_H
#define SRC_PLAN_ORDER_H

#include "plan/place/section.h"

#define ORDER_LIVES 5u

/* What orders are made of; immutable once made. */
struct order_facts {
    const struct sections *sections;
    float *size, *load;          /* by buffer, as logarithms                        */
    float *lives[ORDER_LIVES];   /* lengths of lives, in which full sections count as
                                    more than others: not at all in the first, most in
                                    the last                                        */
};

/* Room for making one order; one thread at a time. */
struct order_work {
    struct order_item {
        uint32_t key;            /* the smallest is preferred most                  */
        uint32_t buffer;
    } *items, *spare;
    uint32_t *order;             /* the result                                      */
};

acre_status order_facts_init(struct order_facts *facts, const struct sections *sections);
void order_facts_fini(struct order_facts *facts);
acre_status order_work_init(struct order_work *work, const struct sections *sections);
void order_work_fini(struct order_work *work);

/* Makes the turn-th order into work->order. */
void order_make(const struct order_facts *facts, struct order_work *work, uint64_t seed,
                uint32_t turn);

#endif
