#!/bin/sh
# SPDX-License-Identifier: MIT
# Ranks that mpirun starts find each other, with each MPI that is installed.
set -eu
program=$ACRE_BUILD/examples/symm_hello
# An mpirun that ends takes away what another beside it is about to use in the same place.
TMPDIR=$(mktemp -d)
mkdir "$TMPDIR/run"
XDG_RUNTIME_DIR=$TMPDIR/run
export TMPDIR XDG_RUNTIME_DIR
trap 'rm -rf "$TMPDIR"' EXIT
found=no
for mpi in openmpi mpich; do
    command -v "mpirun.$mpi" >/dev/null 2>&1 || continue
    found=yes
    case $mpi in
    # Nothing is started elsewhere, but without ssh it wants to be told of another way.
    openmpi) options="--allow-run-as-root --oversubscribe --bind-to none --mca plm_rsh_agent sh" ;;
    mpich) options="-bind-to none" ;;
    esac
    # shellcheck disable=SC2086
    said=$("mpirun.$mpi" $options -n 3 "$program" 2>&1)
    [ "$(echo "$said" | grep -c 'the sum of 1 to 3 is 6')" -eq 3 ] ||
        { echo "mpirun.$mpi: $said"; exit 1; }
    left=$(ls "$XDG_RUNTIME_DIR")
    [ -z "$left" ] || { echo "mpirun.$mpi: left behind: $left"; exit 1; }
done
[ $found = yes ] || { echo "skipped: no mpirun is installed"; exit 77; }
