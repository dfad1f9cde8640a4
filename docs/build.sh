#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the reference: docs/build.sh FOLDER (the pages), or
# docs/build.sh --check (no pages: fails on an undocumented public symbol).
# Any warning of Doxygen is a failure. ACRE_GRAPHS=no leaves the graphs out.
set -eu
cd "$(dirname "$0")/.."
folder=$1
[ "$folder" = --check ] && folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"
{
    cat docs/Doxyfile
    echo "OUTPUT_DIRECTORY = $folder"
    echo "PROJECT_NUMBER = $(sed -n 's/^project(acre VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
    echo "WARN_LOGFILE = $folder/warnings.txt"
    if [ "$1" = --check ]; then
        echo "INPUT = include"
        echo "EXTRACT_ALL = NO"
        echo "GENERATE_HTML = NO"
        echo "GENERATE_XML = YES"
    elif [ "${ACRE_GRAPHS:-yes}" = yes ] && command -v dot >/dev/null 2>&1; then
        echo "HAVE_DOT = YES"
        echo "DOT_NUM_THREADS = ${JOBS:-2}"
    fi
} | doxygen - >"$folder/doxygen.log" 2>&1 || { cat "$folder/doxygen.log"; exit 1; }
if [ -s "$folder/warnings.txt" ]; then
    sed "s|^$PWD/||" "$folder/warnings.txt"
    echo "the reference has $(grep -c 'warning:' "$folder/warnings.txt") warnings"
    exit 1
fi
[ "$1" = --check ] && exit 0
# What documents link to beside themselves.
cp -r examples docs/pictures docs/*.svg docs/*.schema.json "$folder/html"
sed -i 's|href="\.\./examples/|href="examples/|g' "$folder"/html/md_docs_*.html
echo "the reference: $folder/html/index.html"
