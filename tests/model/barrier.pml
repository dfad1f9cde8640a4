/* SPDX-License-Identifier: MIT */
/* The barrier of src/symm/collective/barrier.c: three ranks meet twice; any may run out of time, and
 * one may die before it comes, or after it has completed the set and before it opens the barrier.
 * There it may be stopped as well, and go on, or not, when others have opened it.
 *
 * Checked: whoever passes knows that all came; nobody is left waiting for ever. */
#define N 3
#define ALL 7
#define ROUNDS 2
#define VICTIM 2

byte generation = 0;
byte mask = 0;
byte came[ROUNDS]; /* ranks that came and did not leave */

inline open() { /* one exchange, which only the first does */
    atomic {
        if
        :: generation == mine && mask == ALL -> generation = mine + 1; mask = 0
        :: else -> skip
        fi
    }
}

proctype rank(byte id)
{
    byte round = 0, mine;
    bool is_last, has_left;

    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        if
        :: id == VICTIM -> goto end
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
            :: id == VICTIM -> goto end
            :: true -> skip
            fi;
            open()
        :: else ->
            has_left = false;
            do
            :: generation != mine -> break
            :: generation == mine && mask == ALL -> open(); break
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
