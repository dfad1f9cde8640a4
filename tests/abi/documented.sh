#!/bin/sh
# SPDX-License-Identifier: MIT
# Every symbol, field and value of the public headers is documented; one that is
# not would be noticed; the whole reference builds without a warning and has no dead link.
set -eu
if ! command -v doxygen >/dev/null 2>&1; then
    echo "skipped: doxygen is not installed"
    exit 77
fi
"$ACRE_SOURCE/docs/build.sh" --check

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ACRE_GRAPHS=no "$ACRE_SOURCE/docs/build.sh" "$folder/reference"
if command -v python3 >/dev/null 2>&1; then
    python3 "$ACRE_SOURCE/tests/abi/reference.py" "$folder/reference/html"
fi
cp -r "$ACRE_SOURCE/docs" "$ACRE_SOURCE/include" "$ACRE_SOURCE/CMakeLists.txt" "$folder"
sed -i '/^ACRE_END_DECLS/i ACRE_API void acre_quietly_added(void);' "$folder/include/acre/base.h"
if "$folder/docs/build.sh" --check >"$folder/said"; then
    echo "an undocumented call was not noticed"
    exit 1
fi
grep -q acre_quietly_added "$folder/said"
