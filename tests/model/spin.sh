#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the models of barrier, signals and lanes with SPIN: every order of every step. A lane
# that is stopped without the barrier must be found out.
set -eu
command -v spin >/dev/null 2>&1 || { echo "skipped: spin is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for model in barrier counters signal lane; do
    spin -a "$ACRE_SOURCE/tests/model/$model.pml" >said 2>&1 || { cat said; exit 1; }
    "${CC:-cc}" -O1 -w -DSAFETY -o pan pan.c
    ./pan -m100000 >said 2>&1
    grep -q "errors: 0" said || { echo "$model.pml:"; cat said; exit 1; }
    # A search that was cut short has found nothing.
    ! grep -q "max search depth too small" said || { cat said; exit 1; }
    sed -n 's/^ *\([0-9]*\) states, stored.*/'"$model"': \1 states, no error/p' said
done
spin -a -DWITHOUT_BARRIER "$ACRE_SOURCE/tests/model/lane.pml" >said 2>&1 || { cat said; exit 1; }
"${CC:-cc}" -O1 -w -DSAFETY -o pan pan.c
./pan -m100000 >said 2>&1
grep -q "assertion violated" said || { echo "lane.pml: the race was not found"; cat said; exit 1; }
echo "lane: without the barrier the race is found"
