#!/bin/sh
# SPDX-License-Identifier: MIT
# An application that links libacre.a may define functions with the names that
# the library uses inside; both keep their own.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Every hidden function of the library, taken from its objects, is defined once
# more by the application, with segment_create in any case.
objects=$ACRE_BUILD/CMakeFiles
find "$objects/acre_objects.dir" "$objects/acre_tools_objects.dir" -name '*.o' \
    -exec nm -g --defined-only {} + |
    awk 'NF == 3 && $2 == "T" && $3 !~ /^acre_/ {print $3}' | sort -u >"$folder/names"
[ -s "$folder/names" ] || { echo "no hidden functions found"; exit 1; }
echo segment_create >>"$folder/names"
{
    sort -u "$folder/names" | sed 's/.*/void &(void);\nvoid & (void) { __builtin_abort(); }/'
    cat <<'END'
#include <acre/base.h>
#include <string.h>
int main(void)
{
    return strcmp(acre_status_name(ACRE_ERR_INVALID), "ACRE_ERR_INVALID") != 0
        || acre_version()[0] == 0;
}
END
} >"$folder/main.c"
# -z muldefs would hide the fault this looks for; it is off by default.
libs=$(sed -n 's/^Libs.private: //p' "$ACRE_BUILD/acre.pc" "$ACRE_BUILD/acre_tools.pc")
# shellcheck disable=SC2086
"$CC" -fno-builtin -w -I"$ACRE_SOURCE/include" "$folder/main.c" \
    -Wl,--whole-archive "$ACRE_BUILD/libacre.a" "$ACRE_BUILD/libacre_tools.a" \
    -Wl,--no-whole-archive $libs -o "$folder/main"
"$folder/main"
echo "$(sort -u "$folder/names" | wc -l) inner names are free for the application"
