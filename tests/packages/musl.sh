#!/bin/sh
# SPDX-License-Identifier: MIT
# Acre builds with musl instead of glibc, and its command replays a trace.
# A long test: ACRE_TEST_LONG=1. Needs musl-gcc (Debian: musl-tools).
set -eu
source=${ACRE_SOURCE:?}
[ -n "${ACRE_TEST_LONG:-}" ] || { echo "skipped: a long test (ACRE_TEST_LONG=1)"; exit 77; }
command -v musl-gcc >/dev/null || { echo "skipped: musl-gcc is not here (musl-tools)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
# musl-gcc does not look where the headers of the kernel are.
mkdir "$folder/kernel"
ln -s /usr/include/linux /usr/include/asm-generic "$folder/kernel"
ln -s "/usr/include/$(uname -m)-linux-gnu/asm" "$folder/kernel"
CC=musl-gcc CFLAGS="-isystem $folder/kernel" "${CMAKE:-cmake}" -S "$source" -B "$folder/build" \
    -DACRE_TESTS=OFF -DACRE_BENCH=OFF -DACRE_ZLIB=OFF -DACRE_LIBURING=OFF -DACRE_MPI=OFF \
    >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; exit 1; }
"${CMAKE:-cmake}" --build "$folder/build" -j 2 >"$folder/log" 2>&1 || {
    grep -A 5 'error' "$folder/log" | head -n 40
    exit 1
}
printf 'a 1 4096 0\na 2 8192 0\nf 1\nf 2\n' >"$folder/job.trace"
"$folder/build/acre" replay "$folder/job.trace"
