#!/bin/sh
# SPDX-License-Identifier: MIT
# libopenreg.so exports the calls of OpenReg, all of them and nothing else; its
# header is valid as C11 and as every C++ from 11 on, with each compiler here.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/expected" <<'END'
orActivityDisableTracing
orActivityEnableTracing
orActivityPopExternalCorrelationId
orActivityPushExternalCorrelationId
orDeviceGetStreamPriorityRange
orDeviceSynchronize
orEventCreate
orEventCreateWithFlags
orEventDestroy
orEventElapsedTime
orEventQuery
orEventRecord
orEventSynchronize
orFree
orFreeHost
orGetDevice
orGetDeviceCount
orLaunchHostFunc
orMalloc
orMallocHost
orMemcpy
orMemcpyAsync
orMemoryProtect
orMemoryUnprotect
orPointerGetAttributes
orSetDevice
orStreamCreate
orStreamCreateWithPriority
orStreamDestroy
orStreamGetPriority
orStreamQuery
orStreamSynchronize
orStreamWaitEvent
END
nm -D -g --defined-only "$ACRE_BUILD/libopenreg.so" | awk '{print $3}' | sed 's/@.*//' |
    LC_ALL=C sort >"$folder/exported"
diff "$folder/expected" "$folder/exported" ||
    { echo "expected (<) and exported (>) names differ"; exit 1; }

cat >"$folder/alone.c" <<'END'
#include <openreg.h>
#include <openreg.h>
END
cp "$folder/alone.c" "$folder/alone.cpp"
cat >>"$folder/alone.cpp" <<'END'
static void kernel(int *, int) {}
int main()
{
    openreg::addTaskToStream(nullptr, [] {});
    return orLaunchKernel(nullptr, kernel, static_cast<int *>(nullptr), 3) == orErrorUnknown &&
           orLaunchKernel(nullptr, [] {}) == orErrorUnknown ? 0 : 1;
}
END
warnings="-pedantic -Wall -Wextra -Wshadow -Werror"
for cc in "$CC" gcc clang; do
    command -v "$cc" >/dev/null || continue
    "$cc" -std=c11 $warnings -Wstrict-prototypes -I"$ACRE_SOURCE/include" -fsyntax-only \
        "$folder/alone.c"
done
for cxx in "$CXX" g++ clang++; do
    command -v "$cxx" >/dev/null || continue
    for standard in c++11 c++14 c++17 c++20; do
        "$cxx" -std=$standard $warnings -I"$ACRE_SOURCE/include" -fsyntax-only \
            "$folder/alone.cpp"
    done
done
echo "$(wc -l <"$folder/exported") calls exported; the header is valid C and C++"
