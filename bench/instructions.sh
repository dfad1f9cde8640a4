#!/bin/sh
# SPDX-License-Identifier: MIT
# Counts instructions with callgrind: each figure is the difference between a run
# of N and one of 2N operations, so that setting up cancels. Prints what is asked
# for and what was reached. Usage: instructions.sh [BUILD-FOLDER]
set -e
build=${1:-build}
command -v valgrind >/dev/null || { echo "instructions.sh: valgrind is not installed" >&2; exit 1; }

# Instructions of a command.
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null |
        sed -n 's/^==[0-9]*== Collected : //p'
}

# per N COMMAND... : instructions per operation; the count is appended twice.
per() {
    n=$1
    shift
    one=$(count "$@" "$n")
    two=$(count "$@" $((2 * n)))
    echo "$one $two $n" | awk '{ printf "%.1f", ($2 - $1) / $3 }'
}

line() {
    printf '%-52s %10s %10s\n' "$1" "$2" "$3"
}

line "instructions per operation" "to reach" "reached"
for live in 0 1000; do
    for size in 512 4096 1048576 20971520; do
        line "hot pair, $size bytes, $live live" "100" \
            "$(per 20000 "$build/bench/hot_pair" --alone --size $size --live $live --count)"
    done
done
line "random mix, per replacement, 1000 live" "300" \
    "$(per 50000 "$build/bench/mix" --alone --live 1000 --ops)"
