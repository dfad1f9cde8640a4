#!/bin/sh
# SPDX-License-Identifier: MIT
# Removes what "make install" put there: tools/uninstall.sh BUILD-FOLDER [DESTDIR].
# Every file is named in the manifest that installing wrote; folders go when they
# are empty, and with them what Python has kept of the package there.
set -eu
manifest=$1/install_manifest.txt
dest=${2:-}
if [ ! -e "$manifest" ]; then
    echo "make uninstall: nothing is known to be installed ($manifest is missing);" \
         "run make install with the same PREFIX first" >&2
    exit 1
fi
count=0
while IFS= read -r file || [ -n "$file" ]; do
    if [ -e "$dest$file" ] || [ -L "$dest$file" ]; then
        rm -f "$dest$file"
        count=$((count + 1))
    fi
    folder=$(dirname "$file")
    while case $folder in */acre | */acre/*) true ;; *) false ;; esac; do
        [ -n "$(find "$dest$folder" -maxdepth 1 -name '*.py' 2>/dev/null)" ] ||
            rm -rf "$dest$folder/__pycache__"
        rmdir "$dest$folder" 2>/dev/null || break
        folder=$(dirname "$folder")
    done
done <"$manifest"
rm -f "$manifest"
echo "$count files removed"
