#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the models of barrier and signals with SPIN: every order of every step.
set -eu
command -v spin >/dev/null 2>&1 || { echo "skipped: spin is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for model in barrier counters signal; do
    spin -a "$ACRE_SOURCE/tests/model/$model.pml" >said 2>&1 || { cat said; exit 1; }
    "${CC:-cc}" -O1 -w -DSAFETY -o pan pan.c
    ./pan -m100000 >said 2>&1
    grep -q "errors: 0" said || { echo "$model.pml:"; cat said; exit 1; }
    # A search that was cut short has found nothing.
    ! grep -q "max search depth too small" said || { cat said; exit 1; }
    sed -n 's/^ *\([0-9]*\) states, stored.*/'"$model"': \1 states, no error/p' said
done
