/* SPDX-License-Identifier: MIT */
#include "tests/openreg/support.h"

/* The devices of libopenreg live as long as the process, and so does the record
 * of its last worker thread; ThreadSanitizer would call that a leak. */
#ifdef __cplusplus
extern "C"
#endif
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

void block_set(void *block, size_t bytes, int value)
{
    void *host = malloc(bytes);

    REQUIRE(host != NULL);
    memset(host, value, bytes);
    OK(orMemcpy(block, host, bytes, orMemcpyHostToDevice));
    free(host);
}

void *device_block(size_t bytes, int value)
{
    void *block = NULL;

    OK(orMalloc(&block, bytes));
    block_set(block, bytes, value);
    return block;
}

int block_is(const void *block, size_t bytes, int value)
{
    unsigned char *host = (unsigned char *)malloc(bytes);
    size_t same = 0;

    REQUIRE(host != NULL);
    memset(host, ~value, bytes);
    OK(orMemcpy(host, block, bytes, orMemcpyDeviceToHost));
    while (same < bytes && host[same] == (unsigned char)value)
        same++;
    free(host);
    return same == bytes;
}

static void read_byte(void *address)
{
    volatile unsigned char *byte = (volatile unsigned char *)address;
    unsigned char value = *byte;

    (void)value;
}

static void write_byte(void *address)
{
    volatile unsigned char *byte = (volatile unsigned char *)address;

    *byte = 1;
}

int read_faults(const void *address)
{
    return t_faults(read_byte, (void *)address);
}

int write_faults(void *address)
{
    return t_faults(write_byte, address);
}

size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void choose(int device)
{
    OK(orSetDevice(device));
}

orStream_t new_stream(int device)
{
    orStream_t stream = NULL;

    choose(device);
    OK(orStreamCreate(&stream));
    choose(0);
    return stream;
}

orEvent_t new_event(int device, unsigned flags)
{
    orEvent_t event = NULL;

    choose(device);
    OK(orEventCreateWithFlags(&event, flags));
    choose(0);
    return event;
}
