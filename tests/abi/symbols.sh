#!/bin/sh
# SPDX-License-Identifier: MIT
# Each library and its archive export acre_* and nothing else, both the same, under one version;
# the two libraries share no name; and the public headers declare exactly these calls.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$ACRE_BUILD"
status=0

for library in acre acre_tools; do
    nm -D -g --defined-only lib$library.so | awk '{print $3}' | grep -v '^ACRE_0\.1$' |
        sort >"$folder/versioned"
    sed 's/@.*//' "$folder/versioned" | sort >"$folder/$library"
    nm -g --defined-only lib$library.a | awk 'NF == 3 {print $3}' | sort >"$folder/static"
    if grep -v '^acre_' "$folder/$library" "$folder/static"; then
        echo "lib$library exports the names above, which do not begin with acre_"
        status=1
    fi
    if grep -v '@@ACRE_0\.1$' "$folder/versioned"; then
        echo "lib$library.so exports the names above without the version ACRE_0.1"
        status=1
    fi
    if ! diff "$folder/$library" "$folder/static"; then
        echo "lib$library.so (<) and lib$library.a (>) differ in what they export"
        status=1
    fi
done
both=$(comm -12 "$folder/acre" "$folder/acre_tools")
if [ -n "$both" ]; then
    echo "exported by both libraries:" $both
    status=1
fi
sort "$folder/acre" "$folder/acre_tools" >"$folder/exported"

cat "$ACRE_SOURCE"/include/acre/*.h | tr '\n' ' ' |
    grep -oE 'ACRE_API [^;(]*[ *]acre_[a-z0-9_]+ *\(' |
    sed -E 's/.*[ *](acre_[a-z0-9_]+) *\($/\1/' | sort -u >"$folder/declared"
[ "$(wc -l <"$folder/declared")" -ge 5 ] || { echo "no declarations found"; status=1; }
missing=$(comm -13 "$folder/exported" "$folder/declared")
if [ -n "$missing" ]; then
    echo "declared in a public header and not exported:" $missing
    status=1
fi
undeclared=$(comm -23 "$folder/exported" "$folder/declared")
if [ -n "$undeclared" ]; then
    echo "exported and not declared in a public header:" $undeclared
    status=1
fi
# The runtime knows no format of files: neither zlib nor its own tools are loaded with it.
if readelf -d libacre.so | grep -E 'NEEDED.*(libz|libacre_tools)'; then
    echo "libacre.so needs the libraries above"
    status=1
fi
echo "$(wc -l <"$folder/acre") exported by libacre, $(wc -l <"$folder/acre_tools") by libacre_tools"
exit $status
