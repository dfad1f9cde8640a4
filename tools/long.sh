#!/bin/sh
# SPDX-License-Identifier: MIT
# The long forms of the tests, in parts: tools/long.sh [PART...], where PART is one of
#
#   dev      every test, long counts, argument checks
#   full     the tests of the library, every structure walked after every call
#   asan     with AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan     with ThreadSanitizer
#   clang    built by clang, plain and with AddressSanitizer
#   release  what users get, the longest counts
#   fuzz     each fuzzer for FUZZ_SECONDS (600)
#
# Without a PART all of them run, one after the other. Each is meant to stay below an hour on two
# quiet cores, that is two hours of processor time, which is printed too: it tells on a busy one.
# What has passed for this state of the tree is kept in build-long/ and not done again: a run that
# was stopped goes on where it was. What failed is run again. Nothing is forgiven.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-2}
unset ACRE_SIM ACRE_CONF ACRE_LOG
export ACRE_TEST_LONG=1

# The state of the tree: the commit, and what differs from it, new files included.
tree=$(git rev-parse --short=12 HEAD 2>/dev/null || echo none)
changes=$({ git diff HEAD; git ls-files -z --others --exclude-standard | xargs -0r cksum; } \
    2>/dev/null | cksum | cut -d' ' -f1)
[ "$changes" = 4294967295 ] || tree=$tree-$changes
state=build-long/$tree
mkdir -p "$state"
inner='^(unit|conform|model|fault|stress|process|cpp|fuzz|example|golden|driver)$'
straight=
setarch "$(uname -m)" -R true 2>/dev/null && straight="setarch $(uname -m) -R"
failed=

# Sets spent to the seconds of processor time that what this script started has used so far.
processor() {
    times >"$state/times"
    spent=$(awk 'NR == 2 { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4) }' \
        "$state/times")
}

# run NAME PRESET SCALE LABELS [CMAKE ARGUMENT...]: one build of a part. Tests run twenty at a
# time; each twenty that passed leaves NAME.N.xml. Long counts are divided by SCALE.
run() {
    name=$1 preset=$2 scale=$3 labels=$4
    shift 4
    folder=build-$name
    [ "$name" = release ] && folder=build
    if [ -e "$state/$name.done" ]; then
        echo "== $name: passed before ($(cat "$state/$name.done"))"
        return
    fi
    processor
    began=$(date +%s) before=$spent
    echo "== $name: building"
    if ! tools/configure.sh "$preset" "$folder" -DACRE_TEST_TIMEOUT=3400 "$@" ||
        ! cmake --build "$folder" -j "$jobs" --target all acre_tests \
            >"$state/$name.log" 2>&1; then
        tail -n 60 "$state/$name.log" 2>/dev/null
        echo "== $name: does not build"
        failed="$failed $name"
        return
    fi
    echo "== $name: built in $(($(date +%s) - began)) s"
    count=$(ctest --test-dir "$folder" -N | sed -n 's/^Total Tests: //p')
    at=1 bad=0
    while [ "$at" -le "$count" ]; do
        if [ ! -e "$state/$name.$at.xml" ]; then
            if ! ACRE_TEST_SCALE=$scale $wrap ctest --test-dir "$folder" -j "$jobs" -L "$labels" \
                -I "$at,$((at + 19))" --no-tests=ignore --output-on-failure \
                --output-junit "$PWD/$state/$name.$at.part" --test-output-size-passed 400000 \
                --test-output-size-failed 400000 </dev/null; then
                bad=1
                mv -f "$state/$name.$at.part" "$state/$name.$at.failed" 2>/dev/null
            else
                rm -f "$state/$name.$at.failed"
                mv -f "$state/$name.$at.part" "$state/$name.$at.xml" 2>/dev/null
            fi
        fi
        at=$((at + 20))
    done
    processor
    took="$(($(date +%s) - began)) s, $((spent - before)) s of processor time"
    echo "== $name: $took"
    if [ $bad -eq 0 ]; then
        echo "in $took" >"$state/$name.done"
    else
        failed="$failed $name"
    fi
}

run_part() {
    wrap=
    case $1 in
    dev) run dev dev 4 '.*' ;;
    full) run full full 50 "$inner" ;;
    asan) run asan asan 16 "$inner" -DACRE_BENCH=OFF ;;
    tsan)
        # ThreadSanitizer of gcc 12 does not start under the widest address randomisation.
        wrap=$straight
        run tsan tsan 32 "$inner" -DACRE_BENCH=OFF
        ;;
    clang)
        run clang dev 16 "$inner" -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
        run clang-asan asan 32 "$inner" -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
            -DACRE_BENCH=OFF
        ;;
    release) run release release 2 '^(unit|stress|model|abi|cli|golden|example)$' ;;
    fuzz)
        if [ -e "$state/fuzz.done" ]; then
            echo "== fuzz: passed before"
        elif FUZZ_SECONDS=${FUZZ_SECONDS:-600} FUZZ_STATE=$state JOBS=$jobs tools/fuzz.sh; then
            date >"$state/fuzz.done"
        else
            failed="$failed fuzz"
        fi
        ;;
    *)
        echo "there is no part \"$1\": dev, full, asan, tsan, clang, release, fuzz"
        exit 2
        ;;
    esac
}

[ $# -gt 0 ] || set -- dev full asan tsan clang release fuzz
for part in "$@"; do
    run_part "$part"
done
for file in "$state"/*.xml "$state"/*.failed; do
    [ -e "$file" ] || continue
    copy=$(basename "$file")
    mkdir -p "$state/all"
    cp "$file" "$state/all/${copy%.*}.xml"
done
[ ! -d "$state/all" ] || python3 tools/count.py "$state/all"
rm -rf "$state/all"
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
