#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library and the archive export acre_* and nothing else, both the
# same, and every call that a public header declares is among them.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$ACRE_BUILD"

nm -D --defined-only libacre.so | awk '{print $3}' | sed 's/@.*//' | sort >"$folder/shared"
nm -g --defined-only libacre.a | awk 'NF == 3 {print $3}' | sort >"$folder/static"
cat "$ACRE_SOURCE"/include/acre/*.h | tr '\n' ' ' |
    grep -oE 'ACRE_API [^;(]*[ *]acre_[a-z0-9_]+ *\(' |
    sed -E 's/.*[ *](acre_[a-z0-9_]+) *\($/\1/' | sort -u >"$folder/declared"

status=0
for kind in shared static; do
    if grep -v '^acre_' "$folder/$kind"; then
        echo "the $kind library exports the names above, which do not begin with acre_"
        status=1
    fi
done
if ! diff "$folder/shared" "$folder/static"; then
    echo "the shared library (<) and the archive (>) differ in what they export"
    status=1
fi
[ "$(wc -l <"$folder/declared")" -ge 5 ] || { echo "no declarations found"; status=1; }
missing=$(comm -13 "$folder/shared" "$folder/declared")
if [ -n "$missing" ]; then
    echo "declared in a public header and not exported:" $missing
    status=1
fi
undeclared=$(comm -23 "$folder/shared" "$folder/declared")
if [ -n "$undeclared" ]; then
    echo "exported and not declared in a public header:" $undeclared
    status=1
fi
echo "$(wc -l <"$folder/shared") exported, $(wc -l <"$folder/declared") declared"
exit $status
