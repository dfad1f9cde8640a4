#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the fuzzers with clang and runs each for FUZZ_SECONDS (30 by default)
# on top of the recorded corpora. What breaks one stays in build-fuzz/.
set -eu
cd "$(dirname "$0")/.."
tools/configure.sh fuzz build-fuzz
cmake --build build-fuzz -j "${JOBS:-2}" >/dev/null
status=0
for program in build-fuzz/fuzz/fuzz_*; do
    name=$(basename "$program")
    mkdir -p "build-fuzz/corpus/$name"
    echo "== $name for ${FUZZ_SECONDS:-30} s"
    "$program" -max_total_time="${FUZZ_SECONDS:-30}" -artifact_prefix="build-fuzz/$name-" \
        -print_final_stats=1 -verbosity=0 "build-fuzz/corpus/$name" \
        "tests/fuzz/corpus/${name#fuzz_}" || status=1
done
exit $status
