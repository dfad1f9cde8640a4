/* SPDX-License-Identifier: MIT */
#include "cli/text/filter.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { PIECE = 4096 };

/* One of the two streams. A character may come in several pieces. */
struct filter {
    int fd;
    unsigned char held[4]; /* bytes of a character that is not whole */
    int held_count, held_wanted;
    int failure; /* errno of a write that failed: nothing is written behind it; else 0 */
    unsigned char out[PIECE + 4];
    size_t out_count;
    char first[1024]; /* what was written first, without what follows its first line */
    size_t first_count;
    bool first_is_over;
};

static struct filter filters[2] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

/* Keeps the first line of what goes out. */
static void first_keep(struct filter *filter)
{
    for (size_t i = 0; i < filter->out_count && !filter->first_is_over; i++) {
        filter->first_is_over =
            filter->out[i] == '\n' || filter->first_count == sizeof filter->first - 1;
        if (!filter->first_is_over)
            filter->first[filter->first_count++] = (char)filter->out[i];
    }
}

/* Empties out, also when it cannot be written. */
static bool filter_flush(struct filter *filter)
{
    size_t at = 0;

    first_keep(filter);
    while (at < filter->out_count && filter->failure == 0) {
        ssize_t done = write(filter->fd, filter->out + at, filter->out_count - at);
        filter->failure = done < 0 && errno != EINTR ? errno : 0;
        at += done > 0 ? (size_t)done : 0;
    }
    filter->out_count = 0;
    if (filter->failure)
        errno = filter->failure;
    return filter->failure == 0;
}

static void filter_put(struct filter *filter, const unsigned char *bytes, int count)
{
    memcpy(filter->out + filter->out_count, bytes, (size_t)count);
    filter->out_count += (size_t)count;
}

static bool is_shown(uint32_t c)
{
    if (c < 0x20)
        return c == '\t' || c == '\n';
    if (c >= 0x7f && c < 0xa0)
        return false;
    return !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202e) &&
           !(c >= 0x2060 && c <= 0x206f) && !(c >= 0xd800 && c < 0xe000) && c != 0xfeff &&
           c != 0x61c && !(c >= 0xe0000 && c <= 0xe007f);
}

/* Puts the character that is held, whole or not. */
static void filter_end(struct filter *filter)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int count = filter->held_count;
    uint32_t c = filter->held[0];

    if (count == 0)
        return;
    if (count > 1)
        c &= 0x7fu >> count;
    for (int i = 1; i < count; i++)
        c = c << 6 | (filter->held[i] & 0x3f);
    if (count == filter->held_wanted && c >= least[count] && c <= 0x10ffff && is_shown(c))
        filter_put(filter, filter->held, count);
    else
        filter_put(filter, (const unsigned char *)"?", 1);
    filter->held_count = 0;
}

static void filter_take(struct filter *filter, unsigned char byte)
{
    bool is_more = (byte & 0xc0) == 0x80;

    if (!is_more || filter->held_count == 0) {
        filter_end(filter); /* a character that was cut */
        filter->held_wanted = byte < 0x80             ? 1
                              : (byte & 0xe0) == 0xc0 ? 2
                              : (byte & 0xf0) == 0xe0 ? 3
                              : (byte & 0xf8) == 0xf0 ? 4
                                                      : 0;
    }
    filter->held[filter->held_count++] = byte;
    if (filter->held_wanted == 0 || filter->held_count == filter->held_wanted)
        filter_end(filter);
}

static ssize_t filter_write(void *cookie, const char *bytes, size_t count)
{
    struct filter *filter = cookie;

    for (size_t i = 0; i < count; i++) {
        filter_take(filter, (unsigned char)bytes[i]);
        if (filter->out_count >= PIECE && !filter_flush(filter))
            return 0;
    }
    return filter_flush(filter) ? (ssize_t)count : 0;
}

bool filter_is_silent(void)
{
    fflush(stdout);
    return filters[0].first_count == 0 && !filters[0].first_is_over;
}

void filter_break_silence(void)
{
    filters[0].first_is_over = true;
}

const char *filter_complaint(void)
{
    return filters[1].first;
}

void filter_install(void)
{
#ifdef __GLIBC__ /* elsewhere the two streams are constants */
    FILE *out = fopencookie(&filters[0], "w", (cookie_io_functions_t){.write = filter_write});
    FILE *err = fopencookie(&filters[1], "w", (cookie_io_functions_t){.write = filter_write});

    if (!out || !err)
        return;
    setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    setvbuf(err, NULL, _IONBF, 0);
    stdout = out;
    stderr = err;
#else
    (void)filters, (void)filter_write;
#endif
}
