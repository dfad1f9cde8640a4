/* SPDX-License-Identifier: MIT */
/* The barrier of src/symm/collective/barrier.c: three ranks meet twice; any may run out of time, and one
 * may die before it comes, or after it has completed the set and before it opens the barrier.
 *
 * Checked: whoever passes knows that all came; nobody is left waiting for ever. */
#define N 3
#define ALL 7
#define ROUNDS 2
#define VICTIM 2

byte generation = 0;
byte mask = 0;
bool dead = false;
byte came[ROUNDS]; /* ranks that came and did not leave */

proctype rank(byte id)
{
    byte round = 0, mine;
    bool is_last, has_left;

    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        if
        :: id == VICTIM -> dead = true; goto end
        :: true -> skip
        fi;
        atomic { /* fetch_or */
            mask = mask | (1 << id);
            mine = generation;
            is_last = (mask == ALL);
            came[round]++
        };
        if
        :: is_last ->
            if
            :: id == VICTIM -> dead = true; goto end
            :: true -> skip
            fi;
            atomic { generation = mine + 1; mask = 0 } /* one store */
        :: else ->
            has_left = false;
            do
            :: generation != mine -> break
            :: generation == mine -> /* time is up, or somebody missing is dead */
                atomic { /* the exchange that removes the bit, or finds that all came */
                    if
                    :: generation == mine && mask != ALL ->
                        mask = mask & ~(1 << id);
                        came[round]--;
                        has_left = true
                    :: else -> skip
                    fi
                };
                if
                :: has_left -> goto end
                :: else -> skip
                fi
            :: dead && mask == ALL && generation == mine -> goto end
            od
        fi;
        assert(came[round] == N);
        round++
    od;
end:
    skip
}

init {
    byte i;

    atomic {
        for (i : 0 .. N - 1) {
            run rank(i)
        }
    }
}
