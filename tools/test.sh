#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds and runs the tests: tools/test.sh short|again|more. The long forms are tools/long.sh.
#
#   short   presets dev and asan, what "make test" runs
#   again   the same, where a test that passes at its second try is forgiven
#   more    presets tsan and release, what "make test-more" runs
#
# Every preset is built and run even when an earlier one failed, so that one
# run tells everything. The closing line sums up the test cases of all presets;
# the exit status is 0 only when nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 1

jobs=${JOBS:-2}
results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
trap 'exit 1' INT TERM
unset ACRE_SIM ACRE_CONF ACRE_LOG

# run NAME PRESET LABELS [CMAKE ARGUMENT...]: builds a preset, runs its tests.
run() {
    name=$1 preset=$2 labels=$3
    shift 3
    folder=build-$name
    [ "$name" = release ] && folder=build
    began=$(date +%s)
    echo "== $name: building"
    if ! tools/configure.sh "$preset" "$folder" "$@" ||
       ! cmake --build "$folder" -j "$jobs" --target all acre_tests >"$results/$name.log" 2>&1; then
        tail -n 60 "$results/$name.log" 2>/dev/null
        echo "== $name: does not build"
        echo "$name" >"$results/$name.broken"
        return
    fi
    built=$(date +%s)
    echo "== $name: running (labels: $labels)"
    $wrap ctest --test-dir "$folder" -j "$jobs" -L "$labels" -E "$without" --no-tests=error \
        --output-on-failure --output-junit "$results/$name.xml" \
        --test-output-size-passed 400000 --test-output-size-failed 400000 </dev/null
    ended=$?
    [ -s "$results/$name.xml" ] || echo "$name" >"$results/$name.broken"
    [ $ended -eq 0 ] || run_again
    echo "== $name: built in $((built - began)) s, ran in $(($(date +%s) - built)) s"
}

# What failed is run once more, one test at a time. A test that passes then is named as
# unsteady in the closing lines. That is a failure: a defect to mend, in the test or in
# what it tests. Only "again" (make test-again) forgives it.
run_again() {
    echo "== $name: once more, one at a time, what failed"
    $wrap ctest --test-dir "$folder" -j 1 -L "$labels" --rerun-failed --output-on-failure \
        --output-junit "$results/$name.again.xml" \
        --test-output-size-passed 400000 --test-output-size-failed 400000 </dev/null
}

every='.*'
inner='^(unit|conform|model|fault|stress|process|cpp|fuzz|example|golden)$'
# What users get: the tests of labels that need nothing but the release, in short forms.
outer='^(unit|stress|model|abi|cli|golden|example)$'
wrap=
forgive=

# What one thread does alone has no races: the short run with ThreadSanitizer leaves it out.
nothing='^$'
alone='^vectors$|^(fuzz|golden)_|^test_(format|explain|view|replay)_|^example_'
alone="$alone|^test_plan_(place|learn|search|greedy|order|follower)"
alone="$alone|^test_cache_(sleep|fault|model|stitch_model|expand_model)"
without=$nothing

# ThreadSanitizer of gcc 12 does not start under the widest address
# randomisation of recent kernels; switching it off needs no privilege.
straight=
setarch "$(uname -m)" -R true 2>/dev/null && straight="setarch $(uname -m) -R"

what=${1:-short}
[ "$what" = again ] && forgive=--forgive
if [ "$what" = more ]; then
    export ACRE_TEST_SHORT=1
    wrap=$straight without=$alone
    run tsan tsan "$inner" -DACRE_BENCH=OFF
    wrap= without=$nothing
    run release release "$outer"
else
    run dev dev "$every"
    export ACRE_TEST_SHORT=1
    run asan asan "$inner" -DACRE_BENCH=OFF
fi
# shellcheck disable=SC2086
python3 tools/count.py $forgive "$results"
