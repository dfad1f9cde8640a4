#!/bin/sh
# SPDX-License-Identifier: MIT
# PyTorch on Acre: tools/torch.sh build|test [PYTEST ARGUMENT...]|bench.
#
#   build   makes build/torch: a virtual environment with PyTorch, the extension, and the
#           launcher build/torch/python in which "import torch, torch_acre" works
#   test    builds, then runs the tests of pytorch/tests
#   bench   builds, then prints figures
#
# build/libacre.so is there already. What cannot be had is said in a sentence, and the exit
# status is not 0.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
folder=$root/build/torch
jobs=${JOBS:-2}
packages="torch==2.13.0 numpy==2.2.6 pytest==8.3.4"
packages="$packages pytest-xdist==3.8.0 expecttest==0.3.0 transformers==4.51.3"

fail() {
    echo "tools/torch.sh: $*" >&2
    exit 1
}

# An environment of Python 3.11; remembers what was installed, so that this happens once.
environment() {
    [ "$(cat "$folder/installed" 2>/dev/null)" = "$packages" ] && return
    python=$(command -v python3.11 || command -v python3) || fail "there is no python3; install it"
    "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
        fail "PyTorch is used with Python 3.11, and $python is another version; install python3.11"
    mkdir -p "$folder"
    "$python" -m venv "$folder/venv" >"$folder/pip.log" 2>&1 ||
        fail "a virtual environment cannot be made (see build/torch/pip.log); install python3-venv"
    # shellcheck disable=SC2086
    "$folder/venv/bin/python" -m pip install -q --disable-pip-version-check $packages \
        >>"$folder/pip.log" 2>&1 || {
        tail -n 3 "$folder/pip.log" >&2
        fail "PyTorch cannot be had: pip could not install $packages (see build/torch/pip.log)"
    }
    echo "$packages" >"$folder/installed"
}

# The launcher, the package as links to its sources, and the path by which it is found.
package() {
    mkdir -p "$folder/package/torch_acre"
    find "$folder/package/torch_acre" -type l -delete
    (cd pytorch/torch_acre && find . -name '*.py') | while read -r name; do
        mkdir -p "$(dirname "$folder/package/torch_acre/$name")"
        ln -sf "$root/pytorch/torch_acre/$name" "$folder/package/torch_acre/$name"
    done
    site=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n%s\n' "$folder/package" "$root/python" >"$site/torch_acre_build.pth"
    cat >"$folder/python" <<LAUNCHER
#!/bin/sh
# Python with PyTorch and torch_acre.
ACRE_LIBRARY=\${ACRE_LIBRARY:-$root/build/libacre.so} exec "$folder/venv/bin/python" "\$@"
LAUNCHER
    chmod +x "$folder/python"
}

extension() {
    set -- -S pytorch -B "$folder/build" \
        "-DTORCH_ROOT=$("$folder/venv/bin/python" -c 'import importlib.util as u
print(u.find_spec("torch").submodule_search_locations[0])')" \
        "-DPYTHON_INCLUDE=$("$folder/venv/bin/python" -c 'import sysconfig as s
print(s.get_path("include"))')" \
        "-DACRE_LIBRARY=$root/build/libacre.so" "-DACRE_INCLUDE=$root/include" \
        "-DTORCH_ACRE_RPATH=$root/build"
    if [ ! -e "$folder/build/CMakeCache.txt" ] && command -v ninja >/dev/null 2>&1; then
        set -- -G Ninja "$@"
    fi
    said=$(cmake "$@" 2>&1) || { echo "$said"; fail "the extension cannot be configured"; }
    cmake --build "$folder/build" -j "$jobs" >"$folder/build.log" 2>&1 || {
        tail -n 60 "$folder/build.log"
        fail "the extension does not build"
    }
}

build() {
    [ -e build/libacre.so ] || fail "build/libacre.so is missing; run make"
    environment
    package
    extension
    TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$folder/python" -c 'import torch, torch_acre' ||
        fail "torch_acre was built and cannot be imported"
}

# Some virtual machines name instructions for matrices (AMX) among those of the processor and do
# not have them: PyTorch itself then dies of a product in bfloat16 on the CPU. oneDNN does without.
processor() {
    "$folder/python" -c 'import torch
x = torch.ones(64, 64, dtype=torch.bfloat16)
torch.nn.functional.linear(x, x)' >/dev/null 2>&1
    [ $? -eq 132 ] || return 0
    echo "tools/torch.sh: this machine names AMX and has none: oneDNN computes without it"
    export ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16
}

what=${1:-build}
[ $# -gt 0 ] && shift
case $what in
build) build ;;
test)
    build
    processor
    unset ACRE_SIM ACRE_CONF ACRE_LOG ACRE_TORCH_DEVICE ACRE_TORCH_STRICT ACRE_TORCH_BACKEND
    # A file's tests stay together: they share what their modules prepare. The longest begin first.
    if [ $# -eq 0 ]; then
        set -- -n "$jobs" --dist loadfile --no-loadscope-reorder
        for path in operators test_trainings.py $(cd pytorch/tests && ls -d */ test_*.py); do
            case " $* " in *"/$path "* | *"/${path%/} "*) continue ;; esac
            set -- "$@" "pytorch/tests/${path%/}"
        done
    fi
    exec "$folder/python" -m pytest -q --durations=10 -p no:cacheprovider \
        --rootdir=pytorch/tests "$@" </dev/null
    ;;
bench)
    build
    processor
    exec "$folder/python" pytorch/bench/bench.py "$@"
    ;;
*) fail "\"$what\" is none of build, test, bench" ;;
esac
