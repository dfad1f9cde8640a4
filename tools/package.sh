#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the Debian packages and the Python wheel: tools/package.sh FOLDER.
#
# The packages are built from a copy of what git knows, so that nothing of a
# build folder gets into them. Lintian reads the result; an error of its is one
# of this script.
set -eu
cd "$(dirname "$0")/.."
# A compiler launcher of the one who calls is no part of a package.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
folder=${1:-build/package}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
version=$(sed -n 's/^project(acre VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
tree=$folder/acre-$version
rm -rf "$tree" "$folder"/*.deb "$folder"/*.whl
mkdir -p "$tree"
git ls-files -z | xargs -0 cp --parents -t "$tree"
cp -r packaging/debian "$tree/debian"
(cd "$tree" && dpkg-buildpackage -b -us -uc -j"${JOBS:-2}") >"$folder/build.log" 2>&1 || {
    tail -n 40 "$folder/build.log"
    echo "tools/package.sh: the packages do not build; all of it is in $folder/build.log" >&2
    exit 1
}
rm -rf "$tree"
lintian --fail-on error --allow-root "$folder"/*.changes
rm -f "$folder"/*.buildinfo "$folder"/*.changes
if [ -e pyproject.toml ]; then
    python3 -m pip wheel --quiet --no-deps --wheel-dir "$folder" .
fi
ls -l "$folder"/*.deb "$folder"/*.whl 2>/dev/null | awk '{ print $5, $NF }'
