#!/bin/sh
# SPDX-License-Identifier: MIT
# libacre_torch.so exports what PyTorch looks for, and nothing else.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/expected" <<'END'
acre_torch_base_alloc
acre_torch_begin_allocate_to_pool
acre_torch_cache
acre_torch_end_allocate_to_pool
acre_torch_free
acre_torch_init
acre_torch_malloc
acre_torch_memory_fraction
acre_torch_record_stream
acre_torch_release_pool
acre_torch_reset
END
nm -D -g --defined-only "$ACRE_BUILD/libacre_torch.so" | awk '{print $3}' | sed 's/@.*//' |
    LC_ALL=C sort >"$folder/exported"
diff "$folder/expected" "$folder/exported" ||
    { echo "expected (<) and exported (>) names differ"; exit 1; }
echo "$(wc -l <"$folder/exported") functions exported"
