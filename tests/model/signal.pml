/* SPDX-License-Identifier: MIT */
/* Put and wait on one word, with sleep: src/symm/collective/word.c, every step sequentially consistent.
 * The rank that puts may die. A futex sleeps only while the word is what was seen; who sleeps
 * also wakes by itself, to look whether the other lives, which is modelled as seeing a death.
 *
 * Checked: data written before a put is there after the wait; each signal is taken once; no
 * wake is lost while both live; the one that waits does not hang on a dead one. */
#define SIGNALS 3

bit word = 0;
byte sleepers = 0;
bool is_asleep[2];
bool dead = false;
bit data[SIGNALS];
byte taken = 0;

inline wake_all()
{
    if
    :: sleepers > 0 -> atomic { is_asleep[0] = false; is_asleep[1] = false }
    :: else -> skip
    fi
}

/* Sleeps while the word is what was seen, until woken. */
inline sleep_on(who, seen)
{
    sleepers++;
    if
    :: word == seen ->
        atomic { /* the kernel looks again under its lock */
            if
            :: word == seen -> is_asleep[who] = true
            :: else -> skip
            fi
        };
        (!is_asleep[who] || dead)
    :: else -> skip
    fi;
    sleepers--
}

active proctype putter()
{
    byte i = 0;
    bool is_done;

    do
    :: i == SIGNALS -> break
    :: i < SIGNALS ->
        if
        :: dead = true; goto end
        :: true -> skip
        fi;
        data[i] = 1;
        is_done = false;
        do
        :: is_done -> break
        :: !is_done ->
            atomic {
                if
                :: word == 0 -> word = 1; is_done = true
                :: else -> skip
                fi
            };
            if
            :: is_done -> wake_all()
            :: else -> sleep_on(0, 1)
            fi
        od;
        i++
    od;
end:
    skip
}

active proctype waiter()
{
    byte i = 0;
    bool is_done;

    do
    :: i == SIGNALS -> break
    :: i < SIGNALS ->
        is_done = false;
        do
        :: is_done -> break
        :: !is_done ->
            atomic {
                if
                :: word == 1 -> assert(data[i] == 1); word = 0; is_done = true
                :: else -> skip
                fi
            };
            if
            :: is_done -> taken = i + 1; wake_all()
            :: !is_done && dead && word == 0 -> goto end
            :: !is_done && !(dead && word == 0) -> sleep_on(1, 0)
            fi
        od;
        i++
    od;
    assert(taken == SIGNALS);
end:
    skip
}
