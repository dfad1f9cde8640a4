#!/bin/sh
# SPDX-License-Identifier: MIT
# Every benchmark with the settings that docs/BENCHMARKS.md speaks of:
# bench/run.sh [BUILD-FOLDER]
set -eu
build=${1:-build}
show() {
    echo "\$ $*"
    "$@"
    echo
}
for size in 512 4096 1048576 20971520; do
    show "$build/bench/hot_pair" --size "$size" --count 1000000
done
show "$build/bench/hot_pair" --size 512 --count 1000000 --live 1000
show "$build/bench/hot_pair" --size 512 --count 1000000 --threads 2
show "$build/bench/hot_pair" --size 512 --count 1000000 --policy torch
show "$build/bench/mix" --ops 1000000 --live 1000
show "$build/bench/tail"
show "$build/bench/footprint"
show "$build/bench/sim"
show "$build/bench/file" --folder "$build"
echo "\$ bench/cache.py"
"$(dirname "$0")/cache.py" --build "$build" --json "$build/bench/cache.json" \
    --svg "$build/bench/cache.svg"
echo "also written: $build/bench/cache.json $build/bench/cache.svg"
echo "\$ bench/pictures.py"
"$(dirname "$0")/pictures.py" --build "$build" --out "$build/bench"
