/* SPDX-License-Identifier: MIT */
/* The barrier of src/symm/collective/counters.c between two ranks that meet twice: a line each, stores
 * that may linger in the processor while it loads, ranks that run out of time, and one that
 * may die before or after it counts. Leaving settles all stores (membarrier).
 *
 * Checked: in each round both pass or none; nobody is left waiting for ever. */
#define ROUNDS 2
#define VICTIM 1

byte line[2];            /* what all see                           */
byte store[2];           /* what a rank wrote last                 */
bool dead[2];
bool passed[4];          /* 2 * round + rank                       */
bool gave_up[4];

/* A store becomes visible at any later moment. */
proctype drain(byte id)
{
end:
    do
    :: atomic { line[id] != store[id] -> line[id] = store[id] }
    od
}

proctype rank(byte id)
{
    byte round = 0, other = 1 - id;

    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        if
        :: id == VICTIM -> dead[id] = true; goto end
        :: true -> skip
        fi;
        store[id] = round + 1;
        do
        :: line[other] > round -> passed[2 * round + id] = true; break
        :: line[other] <= round -> /* time is up, or the other is dead */
            store[id] = round;
            atomic { line[0] = store[0]; line[1] = store[1] };
            if
            :: line[other] > round -> store[id] = round + 1
            :: else ->
                gave_up[2 * round + id] = true;
                assert(!passed[2 * round + other]);
                goto end
            fi
        od;
        assert(!gave_up[2 * round + other]);
        round++
    od;
end:
    skip
}

init
{
    atomic { run drain(0); run drain(1); run rank(0); run rank(1) }
}
