#!/bin/sh
# SPDX-License-Identifier: MIT
# Acre as a part of another project: add_subdirectory and FetchContent build the
# library alone, without tests and without rules for installing, and give the
# target that find_package gives. CFLAGS and the options are respected.
set -eu
source=${ACRE_SOURCE:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
cat >"$folder/main.c" <<'PROGRAM'
#include <acre/acre.h>
int main(void)
{
    acre_device *device;
    return acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) != ACRE_OK;
}
PROGRAM
for way in add_subdirectory FetchContent; do
    mkdir "$folder/$way"
    cp "$folder/main.c" "$folder/$way"
    {
        echo 'cmake_minimum_required(VERSION 3.25)'
        echo 'project(user C)'
        if [ $way = FetchContent ]; then
            echo 'include(FetchContent)'
            echo "FetchContent_Declare(acre SOURCE_DIR $source)"
            echo 'FetchContent_MakeAvailable(acre)'
        else
            echo "add_subdirectory($source acre)"
        fi
        echo 'add_executable(user main.c)'
        echo 'target_link_libraries(user PRIVATE acre::acre)'
        echo 'if(TARGET acre_tests)'
        echo '  message(FATAL_ERROR "tests are built along")'
        echo 'endif()'
    } >"$folder/$way/CMakeLists.txt"
    CFLAGS=-DUSER_FLAG=1 "${CMAKE:-cmake}" -S "$folder/$way" -B "$folder/$way/build" \
        -DACRE_ZLIB=OFF -DACRE_LIBURING=OFF -DACRE_MPI=OFF \
        -DACRE_OPENCL=OFF >"$folder/log" 2>&1 || {
        tail -n 20 "$folder/log"
        echo "$way: does not configure"
        exit 1
    }
    grep -q -- '-DUSER_FLAG=1' "$folder/$way/build/CMakeCache.txt" || {
        echo "$way: CFLAGS are lost"
        exit 1
    }
done
if [ -z "${ACRE_TEST_LONG:-}" ]; then
    echo "configured inside another project; ACRE_TEST_LONG=1 builds and runs it, too"
    exit 0
fi
"${CMAKE:-cmake}" --build "$folder/add_subdirectory/build" -j 2 --target user \
    >"$folder/log" 2>&1 || {
    tail -n 20 "$folder/log"
    echo "does not build inside another project"
    exit 1
}
"$folder/add_subdirectory/build/user"
library=$(find "$folder/add_subdirectory/build" -name 'libacre.so.0')
if ldd "$library" | grep -E 'libz|liburing'; then
    echo "libraries that were switched off are linked"
    exit 1
fi
echo "built and run inside another project"
