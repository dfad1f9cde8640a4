#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs into a temporary folder, moves the tree, then uses it as a stranger
# would: the files are all there, the command runs, and a small program builds
# and runs through pkg-config (shared, static) and through find_package.
set -eu
# A program that compilers are called through is not of this test, and need not work here.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER || true
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
here=$(dirname "$0")
at=$folder/moved
lib=$(sed -n 's/^libdir=${prefix}.//p' "$ACRE_BUILD/acre.pc")

"$CMAKE" --install "$ACRE_BUILD" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$at"

# 1. What is installed, no more and no less. Headers come from the tree.
(cd "$at" && find . ! -type d | sed 's|^\./||' | sort) >"$folder/found"
{
    cd "$ACRE_SOURCE"
    find include -name '*.h' -o -name '*.hpp'
    sed "/^#/d; s,^lib/,$lib/," "$here/installed.txt"
    # Wires to other hosts, one for each MPI that was there.
    (cd "$ACRE_BUILD" && find . -maxdepth 1 -name 'libacre_mpi_*.so') | sed "s,^\.,$lib,"
    # Documents and examples.
    ls LICENSE README.md CHANGELOG.md SECURITY.md | sed 's,^,share/doc/acre/,'
    (cd docs && find . -name '*.md' -o -name '*.svg' -o -name '*.schema.json' -o -name '*.png') |
        sed 's,^\.,share/doc/acre,'
    find examples -type f | sed 's,^,share/doc/acre/,'
    find python/acre -name '*.py' -o -name py.typed | sed 's,^python/,lib/python3/dist-packages/,'
} | sort >"$folder/expected"
diff "$folder/expected" "$folder/found" || {
    echo "< expected and not installed, > installed and not expected"
    exit 1
}
[ "$(readlink "$at/$lib/libacre.so")" = libacre.so.0 ]

# 2. The command finds its library where it was moved to.
env -i PATH="$PATH" "$at/bin/acre" --version | grep -q '^acre [0-9]'

# 3. pkg-config.
if command -v pkg-config >/dev/null 2>&1; then
    export PKG_CONFIG_PATH="$at/$lib/pkgconfig"
    # shellcheck disable=SC2046
    "$CC" -std=c11 -Wall -Werror "$here/use.c" -o "$folder/shared" \
        $(pkg-config --cflags --libs acre)
    LD_LIBRARY_PATH="$at/$lib" "$folder/shared"
    # shellcheck disable=SC2046
    "$CC" -std=c11 -Wall -Werror "$here/use_tools.c" -o "$folder/tools" \
        $(pkg-config --cflags --libs acre_tools)
    LD_LIBRARY_PATH="$at/$lib" "$folder/tools"
    # The example of the README.
    sed -n '/^```c$/,/^```$/{/^```/d;p}' "$ACRE_SOURCE/README.md" >"$folder/readme.c"
    # shellcheck disable=SC2046
    "$CC" -Wall -Werror "$folder/readme.c" -o "$folder/readme" $(pkg-config --cflags --libs acre)
    LD_LIBRARY_PATH="$at/$lib" "$folder/readme"
    # The archive is named in full: -lacre alone would find the shared library.
    # shellcheck disable=SC2046
    "$CC" -std=c11 -Wall -Werror "$here/use.c" -o "$folder/static" \
        $(pkg-config --cflags acre) \
        $(pkg-config --static --libs acre | sed 's|-lacre|-l:libacre.a|')
    if readelf -d "$folder/static" | grep libacre; then
        echo "the static program needs the shared library"
        exit 1
    fi
    "$folder/static"
else
    echo "skipped: pkg-config is not installed"
fi

# 4. find_package.
"$CMAKE" -S "$here/use" -B "$folder/use" -DCMAKE_PREFIX_PATH="$at" -DCMAKE_C_COMPILER="$CC" \
    >/dev/null
"$CMAKE" --build "$folder/use" >/dev/null
"$folder/use/use_shared"
"$folder/use/use_static"
"$folder/use/use_tools"
"$folder/use/use_tools_static"

# 5. The Python package finds the library beside it.
if command -v python3 >/dev/null 2>&1; then
    env -i PATH="$PATH" HOME="$folder" PYTHONDONTWRITEBYTECODE=1 \
        PYTHONPATH="$at/lib/python3/dist-packages" \
        python3 -c 'from acre import library as l; assert l.path.endswith("/libacre.so.0"), l.path'
fi
echo "$(wc -l <"$folder/found") files installed; used through pkg-config and find_package"
