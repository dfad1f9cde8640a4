/* SPDX-License-Identifier: MIT */
/* The random choices of a model: the same ones again from the same seed. */
#ifndef TESTS_SUPPORT_DICE_H
#define TESTS_SUPPORT_DICE_H

#include "tests/support/t.h"

static uint64_t dice_state;

/* Begins again from the printed seed. */
static void dice_begin(void)
{
    dice_state = t_seed();
}

/* A number from 0 to limit - 1. */
static uint64_t below(uint64_t limit)
{
    return t_random(&dice_state) % limit;
}

#endif
