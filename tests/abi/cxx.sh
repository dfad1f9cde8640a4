#!/bin/sh
# SPDX-License-Identifier: MIT
# acre/acre.hpp: the example compiles without warnings as C++17 and C++20, and runs.
set -eu
CXX=$(command -v "${CXX:-c++}" || command -v clang++) || {
    echo "no C++ compiler: skipped"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for standard in c++17 c++20; do
    "$CXX" -std=$standard -Wall -Wextra -Wshadow -Werror -I"$ACRE_SOURCE/include" \
        "$ACRE_SOURCE/examples/vector.cpp" -o "$folder/vector" -L"$ACRE_BUILD" -lacre \
        -Wl,-rpath,"$ACRE_BUILD"
    ACRE_BACKENDS=sim,host "$folder/vector" >"$folder/said"
    grep -q '^sum 5000050000, 800256 bytes in use$' "$folder/said"
    grep -q '^0 bytes in use after$' "$folder/said"
    grep -q '^refused: with a sentence$' "$folder/said"
done
