#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares every source of the library and the command with .clang-format. Other
# versions of clang-format break lines elsewhere, so only version 14 is asked.
cd "${ACRE_SOURCE:-$(dirname "$0")/../..}" || exit 1
tool=
for name in clang-format-14 clang-format; do
    if command -v $name >/dev/null 2>&1 && $name --version | grep -q 'version 14\.'; then
        tool=$name
        break
    fi
done
if [ -z "$tool" ]; then
    echo "skipped: clang-format 14 is not here (Debian: apt-get install clang-format-14)"
    exit 77
fi
if find src cli -name '*.c' -print0 | xargs -0 "$tool" --dry-run --Werror; then
    exit 0
fi
echo "the files above differ from .clang-format: run $tool -i on them"
exit 1
