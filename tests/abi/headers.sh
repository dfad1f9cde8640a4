#!/bin/sh
# SPDX-License-Identifier: MIT
# Every public header compiles alone, as C11 and as C++, without a warning.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$ACRE_SOURCE/include"
count=0
for header in acre/*.h openreg.h; do
    [ -e "$header" ] || continue
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$folder/alone.c"
    cp "$folder/alone.c" "$folder/alone.cpp"
    "$CC" -std=c11 -pedantic -Wall -Wextra -Wstrict-prototypes -Werror -I. -fsyntax-only \
        "$folder/alone.c"
    [ -z "$CXX" ] ||
        "$CXX" -std=c++17 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only "$folder/alone.cpp"
    count=$((count + 1))
done
[ "$count" -ge 5 ] || { echo "only $count headers found"; exit 1; }
[ -n "$CXX" ] || echo "skipped: no C++ compiler, so the headers were compiled as C only"
echo "$count headers compile alone as C11 and C++17"
