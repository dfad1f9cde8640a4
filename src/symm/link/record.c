/* SPDX-License-Identifier: MIT */
/* Records of a rendezvous: bytes, and whether they go together. */
#include "symm/link/record.h"

#include "base/status.h"
#include "base/text.h"

#include <endian.h>
#include <string.h>

#define RECORD_MAGIC 0x314d5953u /* "SYM1" */

/* The numbers of a record in the order in which they travel, all as 64 bits. */
enum { FIELD_COUNT = 16 };

static void fields_get(const struct record *r, uint64_t f[FIELD_COUNT])
{
    uint64_t values[FIELD_COUNT] = {RECORD_MAGIC | (uint64_t)r->type << 32,
                                    r->rank,
                                    r->epoch,
                                    r->token,
                                    (uint64_t)r->status,
                                    r->kind | (uint64_t)r->flags << 32,
                                    (uint64_t)(int64_t)r->device_type,
                                    (uint64_t)(int64_t)r->device_index,
                                    (uint64_t)(int64_t)r->clique,
                                    r->block_bytes,
                                    r->buffer_bytes,
                                    r->pad_offset,
                                    r->pad_bytes,
                                    r->control_bytes,
                                    r->far_block,
                                    r->far_control};

    memcpy(f, values, sizeof values);
}

void record_encode(const struct record *record, uint8_t out[RECORD_BYTES])
{
    uint64_t fields[FIELD_COUNT];

    memset(out, 0, RECORD_BYTES);
    fields_get(record, fields);
    for (int i = 0; i < FIELD_COUNT; i++) {
        uint64_t x = htole64(fields[i]);
        memcpy(out + 8 * i, &x, 8);
    }
    memcpy(out + 8 * FIELD_COUNT, record->fabric, RECORD_FABRIC);
    memcpy(out + 8 * FIELD_COUNT + RECORD_FABRIC, record->text,
           strnlen(record->text, RECORD_TEXT - 1));
}

/* A block is as long as it says, and its parts lie in order. */
static bool is_sensible(const struct record *r)
{
    if (r->type < RECORD_HELLO || r->type > RECORD_VERDICT || r->kind > KIND_FABRIC)
        return false;
    return r->block_bytes <= INT64_MAX && r->pad_offset <= r->block_bytes &&
           r->pad_bytes <= r->block_bytes - r->pad_offset && r->buffer_bytes <= r->pad_offset &&
           r->control_bytes <= INT64_MAX;
}

acre_status record_decode(const uint8_t *data, size_t bytes, struct record *out)
{
    uint64_t f[FIELD_COUNT];

    if (bytes != RECORD_BYTES)
        return status_fail(ACRE_ERR_FORMAT, "rendezvous: a message of %zu bytes is no record",
                           bytes);
    for (int i = 0; i < FIELD_COUNT; i++) {
        memcpy(&f[i], data + 8 * i, 8);
        f[i] = le64toh(f[i]);
    }
    struct record r = {.type = (enum record_type)(f[0] >> 32),
                       .rank = (uint32_t)f[1],
                       .epoch = f[2],
                       .token = f[3],
                       .status = (acre_status)f[4],
                       .kind = (enum record_kind)(uint32_t)f[5],
                       .flags = (uint32_t)(f[5] >> 32),
                       .device_type = (int32_t)f[6],
                       .device_index = (int32_t)f[7],
                       .clique = (int32_t)f[8],
                       .block_bytes = f[9],
                       .buffer_bytes = f[10],
                       .pad_offset = f[11],
                       .pad_bytes = f[12],
                       .control_bytes = f[13],
                       .far_block = f[14],
                       .far_control = f[15]};
    if ((uint32_t)f[0] != RECORD_MAGIC || f[1] > UINT32_MAX || !is_sensible(&r) ||
        data[RECORD_BYTES - 1] != 0)
        return status_fail(ACRE_ERR_FORMAT, "rendezvous: a message is damaged or forged");
    memcpy(r.fabric, data + 8 * FIELD_COUNT, RECORD_FABRIC);
    memcpy(r.text, data + 8 * FIELD_COUNT + RECORD_FABRIC, RECORD_TEXT);
    r.text[RECORD_TEXT - 1] = 0;
    *out = r;
    return ACRE_OK;
}

/* ---- Whether offers go together ---------------------------------------------------- */

static acre_status check_failed(const struct record *offers, int count)
{
    for (int i = 0; i < count; i++)
        if (offers[i].status != ACRE_OK)
            return status_fail(offers[i].status, "rendezvous: rank %d failed: %s", i,
                               offers[i].text);
    return ACRE_OK;
}

/* Clique ids that are there must be equal; the error lists every rank. */
static acre_status check_cliques(const struct record *offers, int count)
{
    int32_t clique = -1;
    bool is_equal = true;
    char buffer[700];
    struct text text;

    for (int i = 0; i < count; i++)
        if (offers[i].clique >= 0) {
            is_equal = is_equal && (clique < 0 || clique == offers[i].clique);
            clique = offers[i].clique;
        }
    if (is_equal)
        return ACRE_OK;
    text_init(&text, buffer, sizeof buffer);
    for (int i = 0; i < count; i++)
        text_add(&text, "%srank %d device %d clique %d", i ? ", " : "", i, offers[i].device_index,
                 offers[i].clique);
    return status_fail(ACRE_ERR_INVALID, "rendezvous: ranks are in different fabric cliques: %s",
                       buffer);
}

static acre_status check_overlap(const struct record *offers, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (offers[i].kind >= KIND_DEVICE && offers[k].kind >= KIND_DEVICE &&
                offers[i].device_type == offers[k].device_type &&
                offers[i].device_index == offers[k].device_index)
                return status_fail(ACRE_ERR_INVALID,
                                   "rendezvous: ranks %d and %d overlap on "
                                   "device %d; give each its own or allow it "
                                   "(ACRE_SYMM_ALLOW_OVERLAPPING_DEVICES=1)",
                                   k, i, offers[i].device_index);
    return ACRE_OK;
}

/* One number that must be the same everywhere. */
static acre_status check_equal(const char *what, int rank, uint64_t first, uint64_t value)
{
    if (first == value)
        return ACRE_OK;
    return status_fail(ACRE_ERR_INVALID,
                       "rendezvous: %s differ: rank 0 has %llu, rank %d has "
                       "%llu",
                       what, (unsigned long long)first, rank, (unsigned long long)value);
}

static acre_status check_pair(const struct record *first, const struct record *offer, int rank)
{
    acre_status status = check_equal("kinds of memory", rank, first->kind, offer->kind);

    if (status == ACRE_OK)
        status = check_equal("buffer sizes", rank, first->buffer_bytes, offer->buffer_bytes);
    if (status == ACRE_OK)
        status = check_equal("signal pad sizes", rank, first->pad_bytes, offer->pad_bytes);
    if (status == ACRE_OK)
        status = check_equal("pad offsets", rank, first->pad_offset, offer->pad_offset);
    if (status == ACRE_OK)
        status = check_equal("block sizes", rank, first->block_bytes, offer->block_bytes);
    if (status == ACRE_OK)
        status = check_equal("control sizes", rank, first->control_bytes, offer->control_bytes);
    if (status == ACRE_OK && ((first->flags ^ offer->flags) & ACRE_GROUP_ALLOW_OVERLAP))
        status = status_fail(ACRE_ERR_INVALID,
                             "rendezvous: rank 0 and rank %d do not agree "
                             "whether devices may overlap "
                             "(ACRE_SYMM_ALLOW_OVERLAPPING_DEVICES)",
                             rank);
    return status;
}

acre_status record_check(const struct record *offers, int count)
{
    acre_status status = check_failed(offers, count);

    if (status == ACRE_OK)
        status = check_cliques(offers, count);
    for (int i = 1; i < count && status == ACRE_OK; i++)
        status = check_pair(&offers[0], &offers[i], i);
    if (status == ACRE_OK && !(offers[0].flags & ACRE_GROUP_ALLOW_OVERLAP))
        status = check_overlap(offers, count);
    return status;
}
