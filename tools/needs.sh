#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes sure that what a target needs is there: tools/needs.sh TARGET.
#
# Looks first and installs only what is missing, by Debian package name, as
# root. Without root it prints the command to run as root and stops. What is
# only wanted (a library that adds a feature, a tool that one test uses) is
# installed along as root, and its absence never stops anything.
#
# ACRE_INSTALL=no: never install, only look.
set -u

needed=
wanted=

has() { command -v "$1" >/dev/null 2>&1; }

# A header, as the C compiler finds it.
has_header() { has cc && printf '#include <%s>\n' "$1" | cc -E -x c - >/dev/null 2>&1; }

# A shared library, as programs load it.
has_library() { { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -q "$1"; }

has_cmake() {
    has cmake || return 1
    version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    # shellcheck disable=SC2086
    set -- $version
    [ "${1:-0}" -gt 3 ] || { [ "${1:-0}" -eq 3 ] && [ "${2:-0}" -ge 25 ]; }
}

# The minimal package lacks modules of the standard library.
has_python() { has python3 && python3 -c 'import json, xml.etree.ElementTree' 2>/dev/null; }

# The headers of the Python that PyTorch is used with.
has_python_header() {
    folder=$(python3.11 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
    [ -e "$folder/Python.h" ]
}

# Whether the clang that is used has this part of its own runtime, not that of another version.
has_clang_runtime() {
    has clang && [ -n "$(ls "$(clang -print-resource-dir)"/lib/*/*clang_rt."$1"-*.a \
        "$(clang -print-resource-dir)"/lib/*/*clang_rt."$1".a 2>/dev/null)" ]
}

# The package with that runtime; 14 is the version that Debian 12's clang is.
clang_runtime_package() {
    major=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
    echo "libclang-rt-${major:-14}-dev"
}

need() { needed="$needed $1"; }
want() { wanted="$wanted $1"; }

needs_build() {
    has "${CC:-cc}" || need gcc
    [ -n "${CC:-}" ] || has gcc || need gcc
    has_header stdio.h || need libc6-dev
    has make || need make
    has_cmake || need cmake
    has ninja || want ninja-build
    has_header zlib.h || want zlib1g-dev
    has_header liburing.h || want liburing-dev
}

needs_test() {
    needs_build
    has c++ || need g++
    has_python || need python3
    has pkg-config || need pkg-config
    has doxygen || want doxygen
    has man || want man-db
    has chromium || has google-chrome || want chromium
    has chromedriver || want chromium-driver
    has gdb || want gdb
    has zsh || want zsh
    has abidiff || want abigail-tools
    has clang-format || has clang-format-14 || want clang-format
    has mpicc.openmpi || want "libopenmpi-dev openmpi-bin"
    has mpicc.mpich || want "libmpich-dev mpich"
    has ip || want iproute2
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || want python3-numpy
    # NumPy's own tests, which run on Acre.
    /usr/bin/python3 -c 'import pytest, hypothesis' 2>/dev/null ||
        want "python3-pytest python3-hypothesis"
    has_header dlpack/dlpack.h || want libdlpack-dev
    has_library libOpenCL.so.1 || want ocl-icd-libopencl1
    [ -e /etc/OpenCL/vendors/pocl.icd ] || want pocl-opencl-icd
}

needs_torch() {
    needs_build
    has c++ || need g++
    has_python_header || need python3.11-dev
    python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
    has_library libOpenCL.so.1 || want ocl-icd-libopencl1
    [ -e /etc/OpenCL/vendors/pocl.icd ] || want pocl-opencl-icd
}

case "${1:-build}" in
torch) needs_torch ;;
bench-cpu)
    needs_torch
    has_library libjemalloc.so.2 || want libjemalloc2
    has_library libtcmalloc_minimal.so.4 || want libtcmalloc-minimal4
    has_library libmimalloc.so.2 || want libmimalloc2.0
    ;;
build) needs_build ;;
test) needs_test ;;
long)
    needs_test
    has spin || want spin
    has musl-gcc || want musl-tools
    has_header hip/hip_runtime_api.h || want libamdhip64-dev
    has aarch64-linux-gnu-g++ || want g++-aarch64-linux-gnu
    has qemu-aarch64 || want qemu-user
    has clang || need clang
    has_clang_runtime asan || need "$(clang_runtime_package)"
    ;;
docs)
    has doxygen || need doxygen
    has_python || need python3
    has dot || need graphviz
    ;;
fuzz)
    needs_build
    has clang || need clang
    has_clang_runtime fuzzer || need "$(clang_runtime_package)"
    ;;
package)
    needs_build
    has dpkg-buildpackage || need dpkg-dev
    has fakeroot || need fakeroot
    has dh || need debhelper
    has dh_python3 || need dh-python
    has lintian || need lintian
    has mpicc.openmpi || need "libopenmpi-dev openmpi-bin"
    has mpicc.mpich || need "libmpich-dev mpich"
    has_header zlib.h || need zlib1g-dev
    has_header liburing.h || need liburing-dev
    has ninja || need ninja-build
    has debootstrap || want debootstrap
    ;;
instructions)
    has valgrind || need valgrind
    has_python || need python3
    ;;
bench)
    has_python || need python3
    has_header mimalloc.h || want libmimalloc-dev
    has_header jemalloc/jemalloc.h || want libjemalloc-dev
    has mpicc.openmpi || want "libopenmpi-dev openmpi-bin"
    has mpicc.mpich || want "libmpich-dev mpich"
    ;;
*)
    echo "tools/needs.sh: \"$1\" is not a target it knows" >&2
    exit 2
    ;;
esac

[ -n "$needed$wanted" ] || exit 0

get() {
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $1 </dev/null
}

# How this machine installs a package; the names are Debian's, others differ a little.
manager() {
    for name in apt-get dnf zypper pacman apk brew; do
        has $name || continue
        case $name in
        apt-get) echo "apt-get install -y --no-install-recommends" ;;
        pacman) echo "pacman -S" ;;
        apk) echo "apk add" ;;
        *) echo "$name install" ;;
        esac
        return
    done
}

# What is still missing after an installation, in a sentence; then the script ends.
check_again() {
    case " $needed " in
    *" cmake "*)
        has_cmake || {
            echo "CMake 3.25 or newer is needed, and $(cmake --version 2>/dev/null | head -n 1 |
                grep . || echo none) is what this system has: install a newer one" \
                "(for example: pip install cmake), then repeat the command." >&2
            exit 1
        }
        ;;
    esac
    exit 0
}

how=$(manager)
if [ "$(id -u)" -ne 0 ] || [ "${ACRE_INSTALL:-yes}" = no ] || ! has apt-get; then
    if [ -n "$needed" ]; then
        echo "Missing (by Debian's names):$needed. Run this as root, then repeat the command:" >&2
        echo "    ${how:-install}$needed$wanted" >&2
        exit 1
    fi
    echo "Optional and not there:$wanted (${how:-install}$wanted)"
    exit 0
fi

echo "Installing what is missing:$needed$wanted"
get "$needed$wanted" && check_again
apt-get update -q </dev/null
get "$needed$wanted" && check_again
if [ -n "$needed" ] && ! get "$needed"; then
    echo "Could not install:$needed. Install them by hand, then repeat the command." >&2
    exit 1
fi
echo "Not installable here, going on without:$wanted"
check_again
