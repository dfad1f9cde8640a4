#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the fuzzers with clang and runs each for FUZZ_SECONDS (30 by default) on top of the
# recorded corpora, JOBS of them at a time: tools/fuzz.sh [NAME...]. What breaks one stays in
# build-fuzz/, and what was found on the way in build-fuzz/corpus/. With FUZZ_STATE, a folder, a
# fuzzer that has had its time leaves a mark there and is passed over the next time.
#
#   tools/fuzz.sh keep   puts what adds to the recorded corpora there, as few and as short files
#                        as possible: at most 40 a fuzzer, of 4 KiB each
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-2} seconds=${FUZZ_SECONDS:-30}
run_one() {
    program=$1
    name=$(basename "$program")
    if [ -n "${FUZZ_STATE:-}" ] && [ -e "$FUZZ_STATE/$name.done" ]; then
        return 0
    fi
    mkdir -p "build-fuzz/corpus/$name"
    if "$program" -max_total_time="$seconds" -artifact_prefix="build-fuzz/$name-" \
        -print_final_stats=1 -verbosity=0 "build-fuzz/corpus/$name" \
        "tests/fuzz/corpus/${name#fuzz_}" >"build-fuzz/$name.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$name.log")
        echo "== $name: $seconds s, $runs runs"
        [ -z "${FUZZ_STATE:-}" ] || echo "$runs runs" >"$FUZZ_STATE/$name.done"
        return 0
    fi
    tail -n 40 "build-fuzz/$name.log"
    echo "== $name: failed; build-fuzz/$name-* repeats it"
    return 1
}

keep_one() {
    program=$1
    name=$(basename "$program")
    to=tests/fuzz/corpus/${name#fuzz_}
    found=build-fuzz/corpus/$name less=build-fuzz/less
    [ -d "$found" ] || return 0
    rm -rf "$less"
    mkdir -p "$less"
    cp "$to"/* "$less"/ 2>/dev/null || true
    before=$(find "$less" -type f | wc -l)
    "$program" -merge=1 -max_len=4096 "$less" "$found" >/dev/null 2>&1
    kept=0
    for file in $(ls -S -r "$less"); do
        [ -e "$to/$file" ] && continue
        [ $kept -lt 40 ] || break
        cp "$less/$file" "$to/found-$(echo "$file" | cut -c1-12).seed"
        kept=$((kept + 1))
    done
    echo "== $name: $kept files added to $before"
}

if [ "${1:-}" = one ]; then
    run_one "$2"
    exit
fi
tools/configure.sh fuzz build-fuzz
cmake --build build-fuzz -j "$jobs" >build-fuzz/build.log 2>&1 || {
    tail -n 30 build-fuzz/build.log
    echo "tools/fuzz.sh: the fuzzers do not build (build-fuzz/build.log)" >&2
    exit 1
}
if [ "${1:-}" = keep ]; then
    for program in build-fuzz/fuzz/fuzz_*; do
        keep_one "$program"
    done
    exit 0
fi
export FUZZ_SECONDS=$seconds
status=0
for name in "${@:-*}"; do
    # shellcheck disable=SC2086
    ls build-fuzz/fuzz/fuzz_$name
done | xargs -P "$jobs" -n 1 tools/fuzz.sh one || status=1
exit $status
