#!/bin/sh
# SPDX-License-Identifier: MIT
# libacre_torch.so when memory runs out, a pool is begun twice or a stream cannot be recorded:
# PyTorch gets an exception, others get NULL, and the reason is on standard error. Without a driver
# no memory is handed out. PyTorch is stood in for by two libraries with the names and the one
# symbol that count.
set -eu
CXX=$(command -v "${CXX:-c++}") || { echo "no C++ compiler: skipped"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/c10.cpp" <<'END'
#include <cstdint>
#include <stdexcept>
namespace c10 { namespace detail {
[[noreturn]] void torchCheckFail(const char *, const char *, uint32_t, const char *text)
{
    throw std::runtime_error(text);
}
} }
END
cat >"$folder/torch.cpp" <<'END'
#include <cstdio>
#include <exception>
extern "C" void call_malloc(void *(*malloc_fn)(long, int, void *), long bytes)
{
    try {
        std::printf("%s\n", malloc_fn(bytes, 0, nullptr) ? "memory" : "NULL");
    } catch (const std::exception &error) {
        std::printf("raised: %s\n", error.what());
    }
}
struct pool_id {
    unsigned long graph, user;
};
extern "C" void call_begin(void (*begin_fn)(int, pool_id, void *))
{
    try {
        begin_fn(0, {7, 0}, nullptr);
        std::puts("begun");
    } catch (const std::exception &error) {
        std::printf("raised: %s\n", error.what());
    }
}
END
cat >>"$folder/torch.cpp" <<'END'
extern "C" void call_record(void (*record_fn)(void *, void *), void *pointer, void *stream)
{
    try {
        record_fn(pointer, stream);
        std::puts("recorded");
    } catch (const std::exception &error) {
        std::printf("raised: %s\n", error.what());
    }
}
END
cat >"$folder/main.cpp" <<'END'
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
struct pool_id {
    unsigned long graph, user;
};
extern "C" void call_malloc(void *(*malloc_fn)(long, int, void *), long bytes);
extern "C" void call_begin(void (*begin_fn)(int, pool_id, void *));
extern "C" void call_record(void (*record_fn)(void *, void *), void *pointer, void *stream);

/* Two uses of a pool, and a begin in between that is refused. */
static void begin_pools(void *library)
{
    using pool_fn = void (*)(int, pool_id);
    auto *begin_fn = reinterpret_cast<void (*)(int, pool_id, void *)>(
        dlsym(library, "acre_torch_begin_allocate_to_pool"));
    auto *end_fn = reinterpret_cast<pool_fn>(dlsym(library, "acre_torch_end_allocate_to_pool"));
    auto *release_fn = reinterpret_cast<pool_fn>(dlsym(library, "acre_torch_release_pool"));
    call_begin(begin_fn);
    call_begin(begin_fn);
    end_fn(0, {7, 0});
    call_begin(begin_fn);
    end_fn(0, {7, 0});
    release_fn(0, {7, 0});
    release_fn(0, {7, 0});
    std::fputs("released twice\n", stderr);
    release_fn(0, {7, 0});
}

/* A stream that there is not is recorded for memory of others and for memory of the library, then
 * one that there is. A scope is open, so that the device is asked about streams. */
static void record_streams(void *library)
{
    auto *malloc_fn =
        reinterpret_cast<void *(*)(long, int, void *)>(dlsym(library, "acre_torch_malloc"));
    auto *record_fn =
        reinterpret_cast<void (*)(void *, void *)>(dlsym(library, "acre_torch_record_stream"));
    auto *begin_fn = reinterpret_cast<void (*)(int, pool_id, void *)>(
        dlsym(library, "acre_torch_begin_allocate_to_pool"));
    int number = 0;
    void *memory = malloc_fn(4096, 0, nullptr), *stream = &number;

    begin_fn(0, {7, 0}, nullptr);
    call_record(record_fn, &number, stream);
    call_record(record_fn, memory, stream);
    call_record(record_fn, memory, nullptr);
}

int main(int, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        return std::puts(dlerror()), 1;
    if (std::atol(argv[2]) < 0)
        return record_streams(library), 0;
    if (std::atol(argv[2]) == 0)
        return begin_pools(library), 0;
    auto *malloc_fn =
        reinterpret_cast<void *(*)(long, int, void *)>(dlsym(library, "acre_torch_malloc"));
    call_malloc(malloc_fn, std::atol(argv[2]));
    std::printf("%s\n", malloc_fn(std::atol(argv[2]), 0, nullptr) ? "memory" : "NULL");
    return 0;
}
END
"$CXX" -shared -fPIC "$folder/c10.cpp" -o "$folder/libc10.so"
"$CXX" -shared -fPIC "$folder/torch.cpp" -o "$folder/libtorch_cuda.so" -Wl,--no-as-needed \
    -L"$folder" -lc10 -Wl,-rpath,"$folder"
"$CXX" "$folder/main.cpp" -o "$folder/main" -L"$folder" -ltorch_cuda -ldl -Wl,-rpath,"$folder"

# run ENVIRONMENT... BYTES: what is said on both streams
run() {
    for last; do :; done
    env ACRE_SIM=memory:64MiB ACRE_CUDA_LIBRARY=none ACRE_HIP_LIBRARY=none ${1+"$@"} 2>&1
}
small() { run "$@" "$folder/main" "$ACRE_BUILD/libacre_torch.so" 4096; }
large() { run "$@" "$folder/main" "$ACRE_BUILD/libacre_torch.so" 1000000000; }

small ACRE_BACKEND=sim | grep -c '^memory$' | grep -qx 2
large ACRE_BACKEND=sim >"$folder/said"
grep -q '^raised: ' "$folder/said"
grep -q '^NULL$' "$folder/said"
grep -q '^acre: torch: device 0: out of memory: ' "$folder/said"
large ACRE_BACKEND=sim ACRE_TORCH_QUIET=1 >"$folder/said"
! grep -q '^acre: torch' "$folder/said"
small ACRE_BACKENDS=sim,host >"$folder/said"
grep -q 'no GPU is there that PyTorch could use; ACRE_BACKEND=sim' "$folder/said"
! grep -q '^memory$' "$folder/said"

# What PyTorch is told of it neither ends nor releases.
run ACRE_BACKEND=sim "$folder/main" "$ACRE_BUILD/libacre_torch.so" 0 >"$folder/said"
grep -c '^begun$' "$folder/said" | grep -qx 2
grep -q '^raised: already recording to mempool_id' "$folder/said"
grep -v '^begun$\|^raised: ' "$folder/said" | cut -d: -f1-4 >"$folder/order"
diff - "$folder/order" <<'END'
acre: torch: device 0: beginning to allocate to a pool failed
released twice
acre: torch: device 0: releasing a pool failed
END

# The memory would be handed out again while the stream still uses it.
run ACRE_BACKEND=sim "$folder/main" "$ACRE_BUILD/libacre_torch.so" -1 >"$folder/said"
grep -v '^acre: torch: ' "$folder/said" | cut -d: -f1 >"$folder/order"
diff - "$folder/order" <<'END'
recorded
raised
recorded
END
