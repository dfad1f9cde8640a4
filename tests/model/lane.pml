/* SPDX-License-Identifier: MIT */
/* A lane of src/cache/threads between its thread and one that stops it, on a machine with a weak
 * memory order: the store of is_busy becomes visible at any later moment, or never when the next
 * one overtakes it; the load of the key may happen before that store. membarrier makes the thread
 * pass a full barrier somewhere in its program: stores before it are visible then, loads after it
 * happen after it. docs/decisions/weak-memory.md has the argument in words.
 *
 * WITHOUT_BARRIER: the stopper does not wait for the barrier; the model must find the race. */
#define OPEN    0
#define STOPPED 1

byte key = OPEN;
bool is_busy;          /* as others see it                                */
bool is_stored, value; /* a store of is_busy that is not visible yet      */
bool is_early;         /* the key was loaded before its turn ...          */
byte early;            /* ... and this is what was read                   */
bool is_asked;         /* the stopper waits for the barrier               */
bool in_lane, in_stop; /* who touches the bins                            */

/* What the machine may do between any two steps of the thread. */
#define MACHINE                                                                \
    do                                                                         \
    :: is_stored -> atomic { is_busy = value; is_stored = false }              \
    :: is_asked -> atomic {                                                    \
           if :: is_stored -> is_busy = value; is_stored = false :: else fi;   \
           is_early = false;                                                   \
           is_asked = false                                                    \
       }                                                                       \
    :: !is_early -> atomic { early = key; is_early = true }                    \
    :: break                                                                   \
    od

active proctype thread()
{
    byte seen;

end:
    do
    :: MACHINE;
       atomic { value = true; is_stored = true }    /* is_busy = 1          */
       MACHINE;
       atomic {                                     /* is the key mine?     */
           if :: is_early -> seen = early :: else -> seen = key fi;
           is_early = false
       }
       if
       :: seen == OPEN ->
          in_lane = true;
          assert(!in_stop);
          /* The barrier may come here, too. An early load is one of the next round. */
          MACHINE;
          assert(!in_stop);
          in_lane = false
       :: else
       fi;
       atomic { value = false; is_stored = true }   /* is_busy = 0, release */
    od
}

active proctype stopper()
{
    byte round;

    do
    :: round < 2 ->
       key = STOPPED;
#ifndef WITHOUT_BARRIER
       is_asked = true;
       !is_asked;
#endif
       !is_busy;
       in_stop = true;
       assert(!in_lane);
       in_stop = false;
       key = OPEN;
       round++
    :: else -> break
    od
}
