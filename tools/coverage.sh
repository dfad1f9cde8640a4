#!/bin/sh
# SPDX-License-Identifier: MIT
# Lines and branches that the tests reach, by folder: tools/coverage.sh [CTEST-ARGUMENT...].
# Everything is built once more with counters, into build-coverage.
set -eu
cd "$(dirname "$0")/.."
tools/configure.sh dev build-coverage -DCMAKE_C_FLAGS=--coverage -DCMAKE_CXX_FLAGS=--coverage \
    -DCMAKE_EXE_LINKER_FLAGS=--coverage -DCMAKE_SHARED_LINKER_FLAGS=--coverage -DACRE_WERROR=OFF
cmake --build build-coverage -j "${JOBS:-2}" --target all acre_tests >build-coverage/build.log ||
    { tail -n 30 build-coverage/build.log; exit 1; }
find build-coverage -name '*.gcda' -delete
# abi_* and packages_* look at what is installed, which is not built like this.
ctest --test-dir build-coverage -j "${JOBS:-2}" -E '^(abi_|packages_|tidy)' "$@" \
    >build-coverage/test.log || echo "some tests failed: build-coverage/test.log"
python3 tools/coverage.py build-coverage
