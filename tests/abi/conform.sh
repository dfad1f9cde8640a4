#!/bin/sh
# SPDX-License-Identifier: MIT
# The rules for backends, used as a stranger would: out of an installed tree, on the example
# backends built against it, on one that breaks a rule, and linked into a project.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER || true
lib=$(sed -n 's/^libdir=${prefix}.//p' "$ACRE_BUILD/acre.pc")
"$CMAKE" --install "$ACRE_BUILD" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/at"
at=$folder/at
suite=$at/share/acre/conform

# The sources are those of this tree but for where they are.
for file in "$suite"/*.[ch]; do
    name=$(basename "$file")
    from=$(find "$ACRE_SOURCE/tests/conform" "$ACRE_SOURCE/tests/support" -name "$name")
    sed 's,#include "tests/[a-z]*/,#include ",' "$from" | diff - "$file" >/dev/null || {
        echo "FAIL $name was changed on its way"
        exit 1
    }
done

"$CMAKE" -S "$suite" -B "$folder/build" -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="-Wall -Wextra" \
    -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON \
    >"$folder/log" 2>&1 && "$CMAKE" --build "$folder/build" >>"$folder/log" 2>&1 || {
    cat "$folder/log"
    exit 1
}
grep -i warning "$folder/log" && exit 1

# build NAME SOURCE [OPTION...]: a library with a backend, outside of the tree
build() {
    name=$1 source=$2
    shift 2
    "$CC" -shared -fPIC -DEXAMPLE_LIBRARY "$@" -I"$at/include" "$source" -o "$folder/lib$name.so" \
        -L"$at/$lib" -lacre -Wl,-rpath,"$at/$lib"
}
build toy "$at/share/doc/acre/examples/backend.c"
build npu "$at/share/doc/acre/examples/synchronous.c"
sed 's/aligned_alloc(GRANULARITY, bytes);/(char *)aligned_alloc(GRANULARITY, bytes + 64) + 64;/;
     s/^        free(base);/        (void)base;/' "$at/share/doc/acre/examples/backend.c" \
    >"$folder/bad.c"
build bad "$folder/bad.c"
# Copies that believe what they are told, and one that waits before it believes.
careless='s/^        return acre_error_set(ACRE_ERR_INVALID, 0, "a side.*/        (void)0;/'
sed "$careless" "$at/share/doc/acre/examples/synchronous.c" >"$folder/careless.c"
build careless "$folder/careless.c"
{
    echo '#include <unistd.h>'
    sed "$careless;s/^    memmove(dst, src, bytes);/    if (!dst)\n        sleep(3);\n&/" \
        "$at/share/doc/acre/examples/synchronous.c"
} >"$folder/slow.c"
build slow "$folder/slow.c"

# expect NAME STATUS PART: the program on a library
expect() {
    code=0
    ACRE_CONFORM=exact "$folder/build/acre_conform" "$folder/lib$1.so" >"$folder/out" 2>&1 ||
        code=$?
    if [ $code != "$2" ] || ! grep -q "$3" "$folder/out"; then
        cat "$folder/out"
        echo "FAIL $1: exit status $code, wanted $2 and \"$3\""
        exit 1
    fi
    echo "$1: $(tail -1 "$folder/out")"
}
expect toy 0 '^ok   memory_is_aligned_and_given_back'
expect toy 0 'skipped: the device has no streams and events'
expect npu 0 '^ok   tasks_of_a_stream_run_in_order'
expect npu 0 'skipped: work is finished when its call returns'
expect bad 1 '^FAIL memory_is_aligned_and_given_back'
expect careless 139 '^FAIL [a-z_]*copies[a-z_]*$'
expect careless 139 'the program crashed in this test (SIGSEGV), most likely inside a call of the b'
export ACRE_TEST_PATIENCE=1
expect slow 139 '^  [a-z_]*copies[a-z_]* has run for 1 s and goes on$'
unset ACRE_TEST_PATIENCE
expect none 2 'cannot open shared object file'
"$folder/build/acre_conform" "$at/$lib/libacre.so" 2>&1 | grep -q 'exports no acre_backend_describe'
ACRE_CONFORM=nonsense "$folder/build/acre_conform" "$folder/libtoy.so" 2>&1 |
    grep -q 'known are exact, trusting, zero and dry'

# In a project of its own, with the table linked in.
mkdir "$folder/mine"
cat >"$folder/mine/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(mine C)
find_package(acre REQUIRED)
add_subdirectory(${ACRE_CONFORM_DIR} conform)
add_executable(mine mine.c)
target_link_libraries(mine acre_conform_suite)
EOF
cat >"$folder/mine/mine.c" <<'EOF'
#include "backend_suite.h"
#define EXAMPLE_LIBRARY
#include "synchronous.c"
BACKEND_SUITE(.describe = acre_backend_describe, .is_exact = true)
T_MAIN()
EOF
cp "$at/share/doc/acre/examples/synchronous.c" "$folder/mine"
"$CMAKE" -S "$folder/mine" -B "$folder/mine/build" -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_PREFIX_PATH="$at" >"$folder/log" 2>&1 &&
    "$CMAKE" --build "$folder/mine/build" >>"$folder/log" 2>&1 || {
    cat "$folder/log"
    exit 1
}
"$folder/mine/build/mine" >"$folder/out"
echo "linked in: $(tail -1 "$folder/out")"
