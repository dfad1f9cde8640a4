#!/bin/sh
# SPDX-License-Identifier: MIT
# What is installed is complete, and "make uninstall" removes all of it and
# nothing else.
set -eu
source=${ACRE_SOURCE:?} build=${ACRE_BUILD:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/usr/lib" "$folder/usr/share/doc/other"
echo other >"$folder/usr/share/doc/other/file"
DESTDIR=$folder "${CMAKE:-cmake}" --install "$build" --prefix /usr >/dev/null
for file in LICENSE README.md ARCHITECTURE.md examples/plan.c; do
    [ -e "$folder/usr/share/doc/acre/$file" ] || { echo "$file is not installed"; exit 1; }
done
for part in acre acre/predict; do # what Python keeps when it imports the package
    kept=$folder/usr/lib/python3/dist-packages/$part/__pycache__
    mkdir -p "$kept"
    echo kept >"$kept/kept.pyc"
done
"$source/tools/uninstall.sh" "$build" "$folder"
left=$(cd "$folder" && find . ! -type d)
if [ "$left" != ./usr/share/doc/other/file ]; then
    echo "after uninstalling there is:" "$left"
    exit 1
fi
left=$(cd "$folder" && find . -type d -name acre)
[ -z "$left" ] || { echo "folders stay:" "$left"; exit 1; }
if "$source/tools/uninstall.sh" "$build" "$folder" 2>/dev/null; then
    echo "a second uninstall should say that nothing is installed"
    exit 1
fi
