/* SPDX-License-Identifier: MIT */
#include "tests/openreg/support.h"

void gate_pass(void *arg)
{
    struct gate *gate = (struct gate *)arg;

    pthread_mutex_lock(&gate->mutex);
    gate->inside++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    gate->passed++;
    pthread_mutex_unlock(&gate->mutex);
}

void gate_open(void *arg)
{
    struct gate *gate = (struct gate *)arg;

    pthread_mutex_lock(&gate->mutex);
    gate->is_open = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void gate_close(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->is_open = gate->passed = gate->inside = 0;
    pthread_mutex_unlock(&gate->mutex);
}

void gate_await(struct gate *gate, int inside)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->inside < inside)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

int gate_passed(struct gate *gate)
{
    int passed;

    pthread_mutex_lock(&gate->mutex);
    passed = gate->passed;
    pthread_mutex_unlock(&gate->mutex);
    return passed;
}

static void *open_later(void *gate)
{
    usleep(20000); /* long enough for a wait that does not wait to be caught */
    gate_open(gate);
    return NULL;
}

pthread_t gate_open_later(struct gate *gate)
{
    pthread_t thread;

    REQUIRE_EQ(pthread_create(&thread, NULL, open_later, gate), 0);
    return thread;
}

struct call {
    void (*fn)(void *);
    void *arg;
};

static void *run_call(void *arg)
{
    struct call *call = (struct call *)arg;

    call->fn(call->arg);
    return NULL;
}

void on_thread(void (*fn)(void *), void *arg)
{
    struct call call;
    pthread_t thread;

    call.fn = fn;
    call.arg = arg;
    REQUIRE_EQ(pthread_create(&thread, NULL, run_call, &call), 0);
    pthread_join(thread, NULL);
}

void count_task(void *number)
{
    __atomic_fetch_add((int *)number, 1, __ATOMIC_ACQ_REL);
}

int number_at(int *number)
{
    return __atomic_load_n(number, __ATOMIC_ACQUIRE);
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
