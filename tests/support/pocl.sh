#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a program that uses OpenCL: tests/support/pocl.sh PROGRAM [ARGUMENT...].
#
# PoCL, the OpenCL of processors, gets two devices and a folder of its own for
# what it compiles, which goes with the program. Now and then PoCL 3 fails an
# assertion of its own when a process ends, after the program has said all it had
# to say: with exactly that message, and a last line by which all went well, the
# run counts as skipped (77).
set -u

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
mkdir "$folder/cache"
POCL_CACHE_DIR=$folder/cache POCL_DEVICES=${POCL_DEVICES:-pthread pthread} \
    "$@" >"$folder/out" 2>"$folder/err"
status=$?
cat "$folder/out"
cat "$folder/err" >&2
if [ "$status" -ge 128 ] &&
   grep -q 'pocl_release_dlhandle_cache.*Assertion .* failed' "$folder/err" &&
   tail -n 1 "$folder/out" | grep -Eq '^[0-9]+ passed, 0 failed, |^([0-9]+) of \1 '; then
    echo "PoCL failed an assertion of its own at the end of the process, after all cases passed"
    exit 77
fi
exit "$status"
