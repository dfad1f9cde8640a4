#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the packages of "make package" into a fresh Debian 12 and uses them
# there: tests/packages/install.sh FOLDER-OF-PACKAGES. Needs root and debootstrap;
# takes the mirror from this machine's own list of sources.
set -eu
packages=$(cd "${1:-build/package}" && pwd)
[ "$(id -u)" -eq 0 ] || { echo "skipped: making a system needs root"; exit 77; }
command -v debootstrap >/dev/null || { echo "skipped: debootstrap is not here"; exit 77; }
mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 'Component: main' | head -n 1)
[ -n "$mirror" ] || { echo "skipped: apt knows no mirror of Debian 12"; exit 77; }
# What is set for builds out here is not there in the fresh system.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
root=$(mktemp -d)
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf "$root"' EXIT
trap 'exit 1' INT TERM

debootstrap --variant=minbase --no-check-gpg \
    --include=python3-minimal,python3,gcc,libc6-dev,cmake,make,pkg-config,zlib1g,liburing2 \
    bookworm "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 5 "$root.log"; exit 1; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
mkdir "$root/packages"
cp "$packages"/libacre0_*.deb "$packages"/libacre-dev_*.deb "$packages"/acre-tools_*.deb \
    "$packages"/python3-acre_*.deb "$packages"/libacre-torch_*.deb "$root/packages"
chroot "$root" sh -c 'dpkg -i /packages/*.deb' >/dev/null

said=$(chroot "$root" acre --version)
echo "$said" | grep -q '^acre 0\.' || { echo "acre --version says: $said"; exit 1; }
chroot "$root" acre devices >/dev/null
chroot "$root" python3 -c '
import acre
with acre.Cache() as cache:
    block = cache.alloc(1 << 20)
    assert cache.stats(), "no statistics"
    block.close()
print("python: a block of 1 MiB")'
cat >"$root/use.c" <<'PROGRAM'
#include <acre/acre.h>
#include <stdio.h>
int main(void)
{
    acre_device *device;
    acre_cache *cache;
    void *memory;
    if (acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) ||
        acre_cache_create(device, NULL, &cache) ||
        acre_cache_alloc(cache, 4096, NULL, &memory) || acre_cache_free(cache, memory))
        return 1;
    acre_cache_destroy(cache);
    puts("c: a block of 4 KiB");
    return 0;
}
PROGRAM
chroot "$root" sh -c 'cc /use.c -o /use $(pkg-config --cflags --libs acre) && /use'
# A backend of somebody else, built from the installed example and held to the installed rules.
chroot "$root" sh -c 'cc -shared -fPIC /usr/share/doc/acre/examples/synchronous.c -o /libnpu.so \
        -DEXAMPLE_LIBRARY $(pkg-config --cflags --libs acre) &&
    cmake -S /usr/share/acre/conform -B /conform >/dev/null &&
    cmake --build /conform >/dev/null && /conform/acre_conform /libnpu.so | tail -n 1 &&
    acre --backend /libnpu.so devices | grep "example NPU"'
chroot "$root" dpkg -r acre-tools libacre-dev libacre-torch python3-acre libacre0 >/dev/null
[ ! -e "$root/usr/bin/acre" ] || { echo "acre stays after the packages are removed"; exit 1; }
echo "installed, used and removed in a fresh Debian 12"
