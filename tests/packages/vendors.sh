#!/bin/sh
# SPDX-License-Identifier: MIT
# What Acre declares of HIP and CUDA is what the vendors' own headers declare, and their own
# libraries are loaded; where there is no device the sentence says so. Needs the headers and
# libraries: Debian's libamdhip64-dev (main), libcuda1 (non-free). CUDA_HEADERS names folders
# with cuda.h, where several versions are to be compared. The CUDA toolkit's stub library is
# loaded where a toolkit is installed; one made like it always is.
set -eu
source=${ACRE_SOURCE:?} build=${ACRE_BUILD:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compared=0 loaded=0

# compile VENDOR FOLDER OPTION...: whether a comparison holds; headers of FOLDER come first
compile() {
    check=$source/src/driver/vendor/check_$1.c first=$2
    shift 2
    "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I"$first" -I"$source/src" \
        -I"$source/include" "$@" "$check" 2>"$folder/err"
}

# compare VENDOR OPTION...: the declarations agree, and one that is changed is noticed
compare() {
    vendor=$1
    shift
    compile "$vendor" "$source/src" "$@" || { cat "$folder/err"; exit 1; }
    if compile "$vendor" "$folder/src" "$@"; then
        echo "$vendor, $*: too old to be compared; it compiles"
    else
        echo "$vendor, $*: declared alike"
        compared=$((compared + 1))
    fi
}
mkdir -p "$folder/src/driver/vendor"
sed 's/(driver_event event))/(driver_event event, int more))/' \
    "$source/src/driver/vendor/entry_points.h" >"$folder/src/driver/vendor/entry_points.h"

# load VENDOR VARIABLE LIBRARY SENTENCE: the real library, on a machine without a device
load() {
    said=$(env ACRE_BACKENDS="$1" "$2=$3" "$build/acre" devices | grep "^$1")
    case $said in
    *"$4"*) ;;
    *) echo "FAIL $3: $said"; exit 1 ;;
    esac
    echo "$said"
    loaded=$((loaded + 1))
}

has() { echo "#include <$1>" | "${CC:-cc}" -D__HIP_PLATFORM_AMD__ -E -x c - >/dev/null 2>&1; }

has hip/hip_runtime_api.h && compare hip -D__HIP_PLATFORM_AMD__
for headers in ${CUDA_HEADERS:-} /usr/local/cuda/include; do
    [ ! -e "$headers/cuda.h" ] || compare cuda -isystem "$headers"
done
has cuda.h && compare cuda -DFOUND
if [ ! -e /dev/kfd ]; then
    for library in ${HIP_LIBRARY:-} /usr/lib/*/libamdhip64.so.[0-9] /opt/rocm/lib/libamdhip64.so; do
        [ -e "$library" ] || continue
        load hip ACRE_HIP_LIBRARY "$library" "driver is here and finds no device"
    done
fi
if [ ! -e /dev/nvidia0 ]; then
    for library in ${CUDA_LIBRARY:-} /usr/lib/*/libcuda.so.1; do
        [ -e "$library" ] || continue
        load cuda ACRE_CUDA_LIBRARY "$library" "driver is here and finds no device"
    done
fi
if [ $compared = 0 ] && [ $loaded = 0 ]; then
    none="skipped: no header and no library of a vendor is here (libamdhip64-dev)"
fi

# The toolkit's stub has every entry point of a driver; each answers CUDA_ERROR_STUB_LIBRARY. The
# stand-in knows the names of the entry points.
made=
if [ -e "$build/tests/standin/libcuda.so.1" ]; then
    made=$folder/libcuda.so
    nm -D -g --defined-only "$build/tests/standin/libcuda.so.1" | awk '{print $3}' | grep '^cu' |
        sed 's/@.*//; s/.*/int &(void) { return 34; }/' >"$folder/stub.c"
    "${CC:-cc}" -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$made" "$folder/stub.c"
fi
real=0
for library in $made ${CUDA_STUB:-} /usr/local/cuda*/lib64/stubs/libcuda.so \
    /usr/local/cuda*/targets/*/lib/stubs/libcuda.so /usr/lib/*/stubs/libcuda.so; do
    [ -e "$library" ] || continue
    load cuda ACRE_CUDA_LIBRARY "$library" "stub for linking, which finds no device"
    [ "$library" = "$made" ] || real=$((real + 1))
done
[ $real -gt 0 ] || echo "no CUDA toolkit with its stub library is here (CUDA_STUB=PATH names one)"
if [ -n "${none:-}" ]; then
    echo "$none"
    exit 77
fi
echo "$compared headers compared, $loaded libraries loaded, $real of them the toolkit's own stubs"
