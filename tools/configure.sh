#!/bin/sh
# SPDX-License-Identifier: MIT
# Configures a preset: tools/configure.sh PRESET FOLDER [CMAKE ARGUMENT...].
# A new folder uses ninja when it is there; a folder that exists keeps what it
# has. Only what deserves attention is printed.
set -eu
preset=$1 folder=$2
shift 2
cd "$(dirname "$0")/.."
if [ ! -e "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null 2>&1; then
    set -- -G Ninja "$@"
fi
said=$(cmake --preset "$preset" -B "$folder" "$@" 2>&1) || { echo "$said"; exit 1; }
echo "$said" | grep -E '^-- Without|^CMake.*Warning' || true
