#!/bin/sh
# SPDX-License-Identifier: MIT
# acre/acre.hpp: the example compiles without warnings as C++17 and C++20, and runs; handlers of
# every base see what is thrown.
set -eu
CXX=$(command -v "${CXX:-c++}" || command -v clang++) || {
    echo "no C++ compiler: skipped"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/handlers.cpp" <<'END'
#include <acre/acre.hpp>
#include <cstdio>

template <class Base> static void refuse(const char *name, std::size_t bytes)
{
    try {
        acre::device host(ACRE_DEVICE_CPU, bytes ? 0 : 99);
        acre::cache(host).alloc(bytes);
    } catch (const Base &failed) {
        std::printf("%s: %s\n", name, *failed.what() ? "a sentence" : "nothing");
    }
}

int main()
{
    const std::size_t much = std::size_t{1} << 59;
    refuse<std::exception>("memory, exception", much);
    refuse<std::bad_alloc>("memory, bad_alloc", much);
    refuse<acre::error>("memory, error", much);
    refuse<std::exception>("device, exception", 0);
    refuse<std::runtime_error>("device, runtime_error", 0);
    refuse<acre::error>("device, error", 0);
}
END
for standard in c++17 c++20; do
    "$CXX" -std=$standard -Wall -Wextra -Wshadow -Werror -I"$ACRE_SOURCE/include" \
        "$ACRE_SOURCE/examples/vector.cpp" -o "$folder/vector" -L"$ACRE_BUILD" -lacre \
        -Wl,-rpath,"$ACRE_BUILD"
    ACRE_BACKENDS=sim,host "$folder/vector" >"$folder/said"
    grep -q '^sum 5000050000, 800256 bytes in use$' "$folder/said"
    grep -q '^0 bytes in use after$' "$folder/said"
    grep -q '^refused: with a sentence$' "$folder/said"
    "$CXX" -std=$standard -Wall -Wextra -Wshadow -Werror -I"$ACRE_SOURCE/include" \
        "$folder/handlers.cpp" -o "$folder/handlers" -L"$ACRE_BUILD" -lacre -Wl,-rpath,"$ACRE_BUILD"
    ACRE_BACKENDS=sim,host "$folder/handlers" >"$folder/said"
    [ "$(grep -c ': a sentence$' "$folder/said")" = 6 ] || { cat "$folder/said"; exit 1; }
done
