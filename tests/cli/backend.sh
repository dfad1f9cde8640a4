#!/bin/sh
# SPDX-License-Identifier: MIT
# acre --backend: a device out of a shared library is used; what is no such library, or lies,
# is refused with one sentence and exit status 2.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
acre=$ACRE_BUILD/acre
failed=0
export ACRE_BACKENDS=sim,host
fail() { echo "FAIL $*"; failed=1; }

# expect WANTED STATUS ARGUMENT...: the exit status, and a part of the text
expect() {
    wanted=$1 status=$2
    shift 2
    "$acre" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    code=$?
    [ $code = "$status" ] || fail "acre $*: exit status $code, $status wanted: $(cat "$folder/err")"
    cat "$folder/out" "$folder/err" | grep -qF -- "$wanted" ||
        fail "acre $*: \"$wanted\" is not in: $(cat "$folder/out" "$folder/err")"
    if [ "$status" = 2 ] && { [ "$(wc -l <"$folder/err")" != 1 ] || [ -s "$folder/out" ]; }; then
        fail "acre $*: not one sentence on standard error: $(cat "$folder/out" "$folder/err")"
    fi
}

# 1. Devices out of libraries.
toy=$ACRE_BUILD/examples/libbackend.so
npu=$ACRE_BUILD/examples/libsynchronous.so
expect "example NPU" 0 --backend "$npu" devices
expect "can: streams copies launch pointers current kernels" 0 "--backend=$npu" devices
expect '{"name": "toy", "available": true' 0 --backend "$toy" devices --json
python3 -m json.tool <"$folder/out" >/dev/null || fail "devices --json is no JSON"
head -2 "$folder/out" | grep -q toy || fail "the loaded backend is not the first"
expect "a device of toy" 0 --backend "$toy" bench --count 100 --rounds 1
expect "example NPU" 0 --backend "$npu" run -n 2 -- "$acre" --backend "$npu" devices
(cd "$folder" && cp "$npu" libhere.so && "$acre" --backend ./libhere.so run -n 1 -- \
    sh -c 'cd / && test -f "$ACRE_TORCH_BACKEND"') >/dev/null || fail "ranks get no whole path"

# 2. Bad use.
expect "takes a shared library" 2 --backend
expect "takes a shared library" 2 --backend "$toy"
expect "takes a shared library" 2 --backend= devices
expect "goes with devices, bench and run" 2 --backend "$toy" replay x.trace
expect "goes with devices, bench and run" 2 --backend "$toy" nonsense
expect "is not for it" 2 --backend "$toy" bench symm

# 3. What is no library with a backend.
expect "No such file" 2 --backend "$folder/none.so" devices
expect "libacre-none.so is not there" 2 --backend libacre-none.so devices
echo "not a library" >"$folder/text.so"
expect "file too short" 2 --backend "$folder/text.so" devices
head -c 5000 "$toy" >"$folder/half.so"
expect "half.so ends too early" 2 --backend "$folder/half.so" devices
expect "it is no backend for Acre" 2 --backend "$ACRE_BUILD/libacre.so.0" devices
expect "$folder" 2 --backend "$folder/" devices

# 4. Libraries that lie: one source, a case each.
lie() {
    "$CC" -shared -fPIC -I"$ACRE_SOURCE/include" "-DLIE_$1" \
        "$ACRE_SOURCE/tests/plugins/backend_lies.c" -o "$folder/$1.so" || fail "$1 does not compile"
    expect "$2" 2 --backend "$folder/$1.so" devices
}
lie ANSWER "acre_backend_describe answers"
lie NAME "gives no name"
lie SPELLING "is not 1 to 63 letters"
lie BUILTIN "one is called that comes with Acre"
lie OPS "ops is NULL"
lie VERSION "version 77"
lie SIZE "struct_size 4"
lie TYPE "device type 99"
lie CODEC "stream codec 9"
lie GAP "the required entry \"free\" is NULL"
lie HALF "a group is whole or absent"
lie MANY "has 1000000 devices"
lie FEW "has -1 devices"
lie NONE "has no devices here"
lie UNIT "is not a power of two"
lie CLAIM "claims capabilities"
lie COUNT "its \"device_count\" answers"
[ $failed = 0 ] && echo "acre --backend: devices used, lies refused"
exit $failed
