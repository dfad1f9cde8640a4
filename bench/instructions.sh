#!/bin/sh
# SPDX-License-Identifier: MIT
# Counts instructions with callgrind: each figure is the difference between a run
# of N and one of 2N operations, so that setting up cancels. Prints what is asked
# for and what was reached, or with a third argument writes it as JSON too.
#
#   bench/instructions.sh [BUILD-FOLDER [TRACES-FOLDER [JSON-FILE]]]
#
# Traces are read from ACRE_SHARED/traces/public, or ../shared/traces/public.
set -eu
build=${1:-build}
traces=${2:-${ACRE_SHARED:-$(dirname "$0")/../../shared}/traces/public}
json=${3:-}
command -v valgrind >/dev/null || {
    echo "bench/instructions.sh: valgrind is not installed" >&2
    exit 1
}
lines=$(mktemp)
profile=$(mktemp)
trap 'rm -f "$lines" "$profile" "$profile".*' EXIT

# Instructions of a command. The profile goes to a file: callgrind replaces what it
# is told to write, and as root that would be /dev/null itself.
count() {
    valgrind --tool=callgrind --callgrind-out-file="$profile" "$@" 2>&1 >/dev/null |
        sed -n 's/^==[0-9]*== Collected : //p'
}

# per N COMMAND... : instructions per operation; N and 2N are appended.
per() {
    n=$1
    shift
    one=$(count "$@" "$n")
    two=$(count "$@" $((2 * n)))
    echo "$one $two $n" | awk '{ printf "%.1f", ($2 - $1) / $3 }'
}

# line WHAT ASKED REACHED
line() {
    printf '%-58s %10s %10s\n' "$1" "$2" "$3"
    echo "$1|$2|$3" >>"$lines"
}

# Instructions per event of two warm passes of a trace, replay included: the third and
# fourth, or with policy acre the fifth and sixth, as ranges are found again by then.
per_event() {
    from=2
    [ "$2" = torch ] || from=4
    events=$(gzip -dc "$1" | grep -c '^[afu]')
    before=$(count "$build/acre" replay "$1" --policy "$2" --repeat $from)
    after=$(count "$build/acre" replay "$1" --policy "$2" --repeat $((from + 2)))
    echo "$before $after $events" | awk '{ printf "%.1f", ($2 - $1) / 2 / $3 }'
}

printf '%-58s %10s %10s\n' "instructions per operation" "to reach" "reached"
for live in 0 1000; do
    for size in 512 4096 1048576 20971520; do
        line "hot pair, $size bytes, $live live" 78 \
            "$(per 20000 "$build/bench/hot_pair" --alone --size $size --live $live --count)"
    done
done
line "hot pair, 512 bytes, 1000000 live" 78 \
    "$(per 20000 "$build/bench/hot_pair" --alone --size 512 --live 1000000 --count)"
line "planned pair, 4096 bytes" 30 \
    "$(per 102400 "$build/bench/planned" --count)"
line "hot pair, 512 bytes, history recorded" 105 \
    "$(per 200000 "$build/bench/hot_pair" --alone --size 512 --history --count)"
line "pair with record_stream, events that cost nothing" 400 \
    "$(per 20000 "$build/bench/record_stream" --count)"
for size in 512 4096 1048576 20971520; do
    line "pinned hot pair, $size bytes" 95 \
        "$(per 20000 "$build/bench/pinned" --size $size --count)"
done
line "random mix, per replacement, 1000 live" 240 \
    "$(per 100000 "$build/bench/mix" --alone --live 1000 --ops)"
line "the same up to 16 KiB, 1000 live" - \
    "$(per 50000 "$build/bench/mix" --alone --live 1000 --largest 16K --ops)"
line "the same up to 16 KiB, 1000000 live" "1.5x of it" \
    "$(per 50000 "$build/bench/mix" --alone --live 1000000 --largest 16K --ops)"
for policy in acre torch; do
    asked=110
    [ $policy = acre ] || asked=300
    sum=0
    files=0
    for trace in "$traces"/*.trace.gz; do
        [ -e "$trace" ] || continue
        reached=$(per_event "$trace" $policy)
        line "per event, $policy, $(basename "$trace" .trace.gz)" - "$reached"
        sum=$(echo "$sum $reached" | awk '{ print $1 + $2 }')
        files=$((files + 1))
    done
    [ $files -eq 0 ] || line "per event, $policy, mean of $files traces, replay included" $asked \
        "$(echo "$sum $files" | awk '{ printf "%.1f", $1 / $2 }')"
done
[ -z "$json" ] || awk -F'|' '
    BEGIN { print "[" }
    { printf "%s{\"what\": \"%s\", \"to_reach\": \"%s\", \"reached\": %s}",
             NR > 1 ? ",\n" : "", $1, $2, $3 }
    END { print "\n]" }' "$lines" >"$json"
