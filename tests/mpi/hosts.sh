#!/bin/sh
# SPDX-License-Identifier: MIT
# Symmetric memory beyond one host, with each MPI that is installed: hosts.sh one|two
#
#   one   ranks of this machine that take themselves for two hosts
#   two   two network namespaces with a cable between them, each with its own host name and
#         /dev/shm; needs root and leave to make them
set -eu
program=$ACRE_BUILD/tests/test_mpi_ranks
[ -x "$program" ] || { echo "skipped: no mpicc was there when Acre was built"; exit 77; }
id=$$
folder=$(mktemp -d)
a=acre-a-$id b=acre-b-$id
# An mpirun that ends takes away what another beside it is about to use in the same place.
export TMPDIR="$folder"

clean() {
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

# A cable takes a moment before it is one.
wait_up() {
    tries=0
    until ip -n "$1" -o link show cable | grep -q 'state UP'; do
        tries=$((tries + 1))
        [ $tries -le 200 ] || { echo "the cable stays down" >&2; return 1; }
        sleep 0.05
    done
}

# Two namespaces and a cable; fails where the machine does not allow it. Addresses are local
# to the namespaces, so several tests may run beside each other.
cable() {
    command -v ip >/dev/null 2>&1 && [ "$(id -u)" -eq 0 ] &&
        ip netns add "$a" && ip netns add "$b" &&
        ip link add cable netns "$a" type veth peer name cable netns "$b" &&
        ip -n "$a" addr add 10.77.0.1/24 dev cable && ip -n "$a" link set cable up &&
        ip -n "$b" addr add 10.77.0.2/24 dev cable && ip -n "$b" link set cable up &&
        ip -n "$a" link set lo up && ip -n "$b" link set lo up && wait_up "$a" && wait_up "$b" &&
        ip netns exec "$a" unshare --uts --ipc --mount true
}

# What mpirun takes for ssh: starts a command in the namespace of an address.
door() {
    cat >"$folder/door" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in 10.77.0.1) host=$a ;; *) host=$b ;; esac
shift
export ACRE_HOST=\$host
exec ip netns exec \$host unshare --uts --ipc --mount sh -c '
    hostname \$ACRE_HOST
    mount -t tmpfs tmpfs /dev/shm 2>/dev/null
    exec sh -c "\$*"' door "\$@"
END
    chmod +x "$folder/door"
}

# run MPI: the program, 4 ranks.
run() {
    case $1-$kind in
    openmpi-one)
        timeout -k 5 100 mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none \
            --mca plm_rsh_agent sh -n 4 "$program" ;;
    mpich-one)
        timeout -k 5 100 mpirun.mpich -bind-to none -n 4 "$program" ;;
    openmpi-two)
        timeout -k 5 100 ip netns exec "$a" mpirun.openmpi --allow-run-as-root \
            --mca plm_rsh_agent "$folder/door" --host 10.77.0.1:2,10.77.0.2:2 \
            --mca oob_tcp_if_include 10.77.0.0/24 \
            --mca btl_tcp_if_include 10.77.0.0/24 --bind-to none -n 4 "$program" ;;
    mpich-two)
        timeout -k 5 100 ip netns exec "$a" mpirun.mpich -launcher ssh \
            -launcher-exec "$folder/door" -iface cable \
            -hosts 10.77.0.1,10.77.0.2 -ppn 2 -bind-to none -n 4 "$program" ;;
    esac
}

kind=$1
if [ "$kind" = one ]; then
    export ACRE_TEST_HOSTS=2 ACRE_SYMM_WIRE=mpi
else
    cable 2>"$folder/said" ||
        { echo "skipped: no network namespaces: $(cat "$folder/said")"; exit 77; }
    door
fi
found=no
for mpi in openmpi mpich; do
    command -v "mpirun.$mpi" >/dev/null 2>&1 || continue
    [ -e "$ACRE_BUILD/libacre_mpi_$mpi.so" ] || continue
    found=yes
    run "$mpi" >"$folder/said" 2>&1 && code=0 || code=$?
    # What counts is what all ranks say: MPICH before 4.1.2 often hangs over TCP when it ends,
    # is left behind, and its mpirun complains.
    [ "$mpi" != mpich ] || code=0
    if [ $code -ne 0 ] || [ "$(grep -c '2 passed, 0 failed' "$folder/said")" -ne 4 ] ||
        ! grep -q '4 ranks, 2 on the first host' "$folder/said"; then
        echo "$mpi:"
        cat "$folder/said"
        exit 1
    fi
done
[ $found = yes ] || { echo "skipped: no mpirun is installed"; exit 77; }
