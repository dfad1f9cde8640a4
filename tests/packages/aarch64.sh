#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Acre for 64-bit ARM and runs the unit, model and stress tests under qemu:
# the thread caches must not lean on the strong memory order of x86.
# A long test: ACRE_TEST_LONG=1. Needs g++-aarch64-linux-gnu and qemu-user.
#
# A build folder given as the first argument is kept and used again.
set -eu
source=${ACRE_SOURCE:?}
[ -n "${ACRE_TEST_LONG:-}" ] || { echo "skipped: a long test (ACRE_TEST_LONG=1)"; exit 77; }
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not here"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build=${1:-$folder/build}
generator=
command -v ninja >/dev/null && generator='-G Ninja'
# shellcheck disable=SC2086
"${CMAKE:-cmake}" -S "$source" -B "$build" $generator \
    --toolchain "$source/cmake/aarch64.cmake" -DACRE_TESTS=ON -DACRE_BENCH=OFF -DACRE_CHECK=1 \
    >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; exit 1; }
"${CMAKE:-cmake}" --build "$build" -j 2 >"$folder/log" 2>&1 || {
    grep -B 3 -A 5 -E 'error|undefined|cannot find|FAILED' "$folder/log" | head -n 60
    exit 1
}
unset ACRE_TEST_LONG
# Recordings are compressed, and there is no zlib for the target: what is replayed is the same on
# every machine. What the emulator lacks is named by the tests that need it.
mkdir "$folder/shared"
export ACRE_TEST_EMULATED=1 ACRE_SHARED="$folder/shared"
ACRE_TEST_SHORT=1 ctest --test-dir "$build" -j 2 -L '^(unit|model|stress)$' --timeout 900 \
    --output-on-failure
