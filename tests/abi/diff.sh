#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares both libraries with the interface that was kept: abidiff of Debian's abigail-tools.
#
# A call that went, or whose parameters changed, fails. Calls and fields that were added are told
# and accepted. After a wanted change: ACRE_SOURCE=. ACRE_BUILD=build-dev tests/abi/diff.sh --update
set -eu
command -v abidiff >/dev/null 2>&1 || {
    echo "skipped: abidiff is not installed (abigail-tools)"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
readelf -S "$ACRE_BUILD/libacre.so" | grep -q '\.debug_info' || {
    echo "skipped: the build has no debug information, so types cannot be compared"
    exit 77
}
status=0
for library in acre acre_tools; do
    kept=$ACRE_SOURCE/tests/abi/baseline/lib$library.abi.gz
    abidw --headers-dir "$ACRE_SOURCE/include" --no-show-locs --no-comp-dir-path --no-corpus-path \
        --drop-private-types "$ACRE_BUILD/lib$library.so" >"$folder/now.abi"
    if [ "${1:-}" = --update ]; then
        gzip -9nc "$folder/now.abi" >"$kept"
        continue
    fi
    gunzip -c "$kept" >"$folder/kept.abi"
    found=0
    abidiff --no-show-locs "$folder/kept.abi" "$folder/now.abi" >"$folder/differences" || found=$?
    # Bits of the status: 1 and 2 the tools failed, 4 something changed, 8 incompatibly.
    if [ $((found & 11)) -ne 0 ] || grep -q '^ *[1-9][0-9]* Removed' "$folder/differences"; then
        cat "$folder/differences"
        echo "lib$library.so is not compatible with tests/abi/baseline"
        status=1
    elif [ $found -ne 0 ]; then
        echo "lib$library.so has changed compatibly:"
        head -n 12 "$folder/differences"
    else
        echo "lib$library.so is as it was"
    fi
done
exit $status
