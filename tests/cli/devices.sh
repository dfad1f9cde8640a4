#!/bin/sh
# SPDX-License-Identifier: MIT
# acre devices where there is OpenCL: two devices of PoCL, as text and as JSON.
set -u
fail() { echo "FAIL $*"; exit 1; }

export ACRE_BACKENDS=opencl
text=$("$ACRE_BUILD/acre" devices) || fail "acre devices ended with $?"
case $text in
*"opencl: not available: "*)
    echo "skip: $text"
    exit 77
    ;;
esac
echo "$text" | grep -q '^  opencl:1  ' || fail "no second device: $text"
echo "$text" | grep -q '^    memory .* granularity 512 B$' || fail "no memory: $text"
echo "$text" | grep -q '^    can: streams copies launch host pointers peers kernels$' ||
    fail "other abilities: $text"
"$ACRE_BUILD/acre" devices --json | python3 "$ACRE_SOURCE/tests/golden/devices.py" |
    grep -qx 'opencl 2' || fail "the JSON differs"
ACRE_OPENCL=memory:1GiB "$ACRE_BUILD/acre" devices | grep -q 'memory 1 GiB, free 1 GiB' ||
    fail "memory:1GiB is not kept to"
echo "3 passed, 0 failed, 0 skipped"
