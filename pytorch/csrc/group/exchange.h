/* SPDX-License-Identifier: MIT */
/* Collectives on plain host memory of the ranks of one room.
 *
 * Data passes through the slots in pieces: while a rank copies one piece in, the others still
 * read the one before. All functions are called by all ranks with equal arguments, as the
 * room's meetings verify, and leave the data of failed calls half done.
 */
#pragma once

#include "group/kernels.h"
#include "group/room.h"

#include <vector>

namespace acre_torch::group {

void exchange_barrier(Room &room, const Call &call);
/* Reduces count elements in place, with equal bits on all ranks. Answers false, and has changed
 * nothing, if the elements are many and lie in one symmetric memory on all ranks: then they need
 * not pass through the slots. */
bool exchange_all_reduce(Room &room, const Call &call, char *data, std::size_t count,
                         Reduce reduce, c10::ScalarType type);
/* The reduced elements go to root's data; other ranks' data stays. */
void exchange_reduce(Room &room, const Call &call, char *data, std::size_t count, int root,
                     Reduce reduce, c10::ScalarType type);
void exchange_broadcast(Room &room, const Call &call, char *data, std::size_t bytes, int root);
/* outs[r] receives the bytes of rank r. */
void exchange_all_gather(Room &room, const Call &call, const char *in,
                         const std::vector<char *> &outs, std::size_t bytes);
/* outs is used on root only. */
void exchange_gather(Room &room, const Call &call, const char *in,
                     const std::vector<char *> &outs, std::size_t bytes, int root);
/* ins is used on root only. */
void exchange_scatter(Room &room, const Call &call, const std::vector<const char *> &ins,
                      char *out, std::size_t bytes, int root);
/* out receives the reduction of what the ranks have in ins[own rank], of count elements. */
void exchange_reduce_scatter(Room &room, const Call &call, const std::vector<const char *> &ins,
                             char *out, std::size_t count, Reduce reduce, c10::ScalarType type);

/* Bytes for and from every rank. */
struct Parts {
    std::vector<const char *> ins;
    std::vector<char *> outs;
    std::vector<std::size_t> in_bytes, out_bytes;
};

/* Sizes may differ from pair to pair. What a rank sends must be what the other expects, else all
 * ranks fail before anything has moved. */
void exchange_all_to_all(Room &room, const Call &call, const Parts &parts);

} // namespace acre_torch::group
