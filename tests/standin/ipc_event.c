/* SPDX-License-Identifier: MIT */
#include "tests/standin/ipc_event.h"

#include "base/process/client.h"
#include "base/process/fork_fd.h"
#include "base/process/service.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096

/* What lies in the page. */
struct shared {
    _Atomic uint64_t recorded; /* how often                */
    _Atomic uint64_t done;     /* which of them has passed */
};

struct ipc_event {
    _Atomic int refs;
    int fd;              /* of the page                                     */
    int connection;      /* to who made it; -1: this process                */
    struct offer *offer; /* under which others find it, or NULL             */
    struct shared *page;
};

/* One record or wait that is queued. */
struct turn {
    struct ipc_event *event;
    uint64_t number;
};

static struct ipc_event *event_of(int fd, int connection)
{
    struct ipc_event *event = calloc(1, sizeof *event);
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (!event || page == MAP_FAILED) {
        free(event);
        if (page != MAP_FAILED)
            munmap(page, PAGE_BYTES);
        return NULL;
    }
    atomic_store(&event->refs, 1);
    event->fd = fd;
    event->connection = connection;
    event->page = page;
    return event;
}

CUresult ipc_event_create(struct ipc_event **out)
{
    int fd = memfd_create("standin-event", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (ftruncate(fd, PAGE_BYTES) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
        !(*out = event_of(fd, -1))) {
        close(fd);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return CUDA_SUCCESS;
}

/* For the service. */
static acre_status event_fd_at(void *arg, uint32_t index, int *out_fd)
{
    (void)index;
    *out_fd = fcntl(((struct ipc_event *)arg)->fd, F_DUPFD_CLOEXEC, 0);
    return *out_fd >= 0 ? ACRE_OK : ACRE_ERR_LIMIT;
}

CUresult ipc_event_handle(struct ipc_event *event, char out[64])
{
    struct offer_terms terms = {.fd_total = 1, .fd_at = event_fd_at, .arg = event};

    if (event->connection >= 0)
        return CUDA_ERROR_INVALID_HANDLE; /* who made it shares it */
    if (!event->offer && offer_create(&terms, &event->offer) != ACRE_OK)
        return CUDA_ERROR_OPERATING_SYSTEM;
    offer_ticket(event->offer, (uint8_t *)out);
    return CUDA_SUCCESS;
}

CUresult ipc_event_open(const char handle[64], struct ipc_event **out)
{
    struct client client = {.fd = -1};
    struct stat facts;
    int fd = -1;

    acre_status status = client_open((const uint8_t *)handle, &client);
    if (status == ACRE_OK)
        status = client_next(&client, &fd);
    if (status != ACRE_OK) {
        client_close(&client);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    int connection = client_keep(&client);
    if (fstat(fd, &facts) != 0 || facts.st_size != PAGE_BYTES ||
        !(*out = event_of(fd, connection))) {
        close(fd);
        fork_fd_close(connection);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_SUCCESS;
}

struct ipc_event *ipc_event_ref(struct ipc_event *event)
{
    if (event)
        atomic_fetch_add(&event->refs, 1);
    return event;
}

void ipc_event_unref(struct ipc_event *event)
{
    if (!event || atomic_fetch_sub(&event->refs, 1) > 1)
        return;
    offer_destroy(event->offer);
    munmap(event->page, PAGE_BYTES);
    fork_fd_close(event->connection);
    close(event->fd);
    free(event);
}

/* ---- Recording and waiting --------------------------------------------------------- */

static int is_passed(struct ipc_event *event, uint64_t number)
{
    return atomic_load(&event->page->done) >= number;
}

static void wait_for(struct ipc_event *event, uint64_t number)
{
    const struct timespec moment = {0, 100000};

    while (!is_passed(event, number))
        nanosleep(&moment, NULL);
}

static void turn_record(void *arg)
{
    struct turn *turn = arg;
    uint64_t done = atomic_load(&turn->event->page->done);

    while (done < turn->number &&
           !atomic_compare_exchange_weak(&turn->event->page->done, &done, turn->number))
        ;
    ipc_event_unref(turn->event);
    free(turn);
}

static void turn_wait(void *arg)
{
    struct turn *turn = arg;

    wait_for(turn->event, turn->number);
    ipc_event_unref(turn->event);
    free(turn);
}

static CUresult turn_queue(struct ipc_event *event, uint64_t number, void (*fn)(void *),
                           const struct place *at)
{
    acre_capture_info info = {.struct_size = sizeof info};
    struct turn *turn = malloc(sizeof *turn);
    CUresult result = turn ? SIM(capture_info, at->device, at->sim, &info)
                           : CUDA_ERROR_OUT_OF_MEMORY;

    if (!result && info.status != ACRE_CAPTURE_NONE)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!result) {
        *turn = (struct turn){ipc_event_ref(event), number};
        result = SIM(launch_host, at->device, at->sim, fn, turn);
        if (result)
            ipc_event_unref(event);
    }
    if (result)
        free(turn);
    return result;
}

CUresult ipc_event_record(struct ipc_event *event, const struct place *at)
{
    uint64_t number = atomic_fetch_add(&event->page->recorded, 1) + 1;
    CUresult result = turn_queue(event, number, turn_record, at);

    if (result)
        atomic_fetch_sub(&event->page->recorded, 1);
    return result;
}

CUresult ipc_event_wait(struct ipc_event *event, const struct place *at)
{
    return turn_queue(event, atomic_load(&event->page->recorded), turn_wait, at);
}

int ipc_event_is_done(struct ipc_event *event)
{
    return is_passed(event, atomic_load(&event->page->recorded));
}

void ipc_event_synchronize(struct ipc_event *event)
{
    wait_for(event, atomic_load(&event->page->recorded));
}
