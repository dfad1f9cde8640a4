/* SPDX-License-Identifier: MIT */
/* The control page of a rank in a team: what collectives and barriers need besides the pad.
 *
 * A memory file of its own, so that user channels and collectives never meet, and device
 * memory need not be touched by the host. One cache line per subject:
 *
 *     0     sleepers   how many sleep on words of this rank's pad or page; who changes such
 *                      a word wakes them when this is not 0
 *     64    sequence   steps of collectives that this rank has finished
 *     4096  barriers   one line per channel; of 3 to 32 ranks: in rank 0's page, generation
 *                      << 32 | ranks that came; else in every page, barriers this rank came
 *                      to (counters.h)
 *     stages           STAGE_COUNT of STAGE_BYTES for small operations (stage.h)
 *     plans            two of STAGE_BYTES for the numbers of exchanges (splits.c)
 *     mail             words that ranks on other hosts write (mail.h): rows of one per rank
 */
#ifndef SRC_SYMM_CONTROL_H
#define SRC_SYMM_CONTROL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define STAGE_BYTES 8192u
#define STAGE_COUNT 4u
#define MAIL_ROWS 2u         /* besides one for each channel */
#define BARRIER_RANKS_MAX 32 /* larger worlds meet pair by pair */

struct control {
    _Alignas(64) _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint32_t sequence;
    _Alignas(4096) struct control_barrier {
        _Alignas(64) _Atomic uint64_t word;
    } barriers[];
};

static inline size_t control_stage_offset(uint32_t channels)
{
    return (4096 + 64 * (size_t)channels + 4095) / 4096 * 4096;
}

static inline size_t control_mail_offset(uint32_t channels)
{
    return control_stage_offset(channels) + (STAGE_COUNT + 2) * STAGE_BYTES;
}

static inline size_t control_bytes(uint32_t channels, int ranks)
{
    return control_mail_offset(channels) +
           (4 * (MAIL_ROWS + (size_t)channels) * (size_t)ranks + 4095) / 4096 * 4096;
}

#endif
