/* Memory: the device's is lazy memory of the host, counted in the shared state. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GRAIN (2u << 20)             /* B: what cudaMalloc takes at once */
#define ALLOCATION 60000             /* ns, and per MiB: mapping on the device, pinning on the host */
#define ALLOCATION_MIB 300
#define PINNING 20000
#define PINNING_MIB 250000

static struct range *ranges; /* by address */
static size_t count, room;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static size_t above(const void *p) { /* the first range that begins behind p */
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].at <= (const char *)p) low = middle + 1;
        else high = middle;
    }
    return low;
}

void remember(void *p, size_t size, int type, int device) {
    pthread_rwlock_wrlock(&lock);
    if (count == room) ranges = realloc(ranges, (room = room * 2 + 64) * sizeof *ranges);
    size_t i = above(p);
    memmove(ranges + i + 1, ranges + i, (count - i) * sizeof *ranges);
    ranges[i] = (struct range){p, size, type, device};
    count++;
    pthread_rwlock_unlock(&lock);
}

static struct range drop(const void *p) {
    struct range found = {0};
    pthread_rwlock_wrlock(&lock);
    size_t i = above(p);
    if (i && ranges[i - 1].at == (const char *)p) {
        found = ranges[i - 1];
        memmove(ranges + i - 1, ranges + i, (count - i) * sizeof *ranges);
        count--;
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

struct range range_of(const void *p) {
    struct range found = {0};
    pthread_rwlock_rdlock(&lock);
    size_t i = above(p);
    if (i && (const char *)p < ranges[i - 1].at + ranges[i - 1].size) found = ranges[i - 1];
    pthread_rwlock_unlock(&lock);
    return found;
}

static void *map(size_t size, int flags) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

API cudaError_t cudaMalloc(void **out, size_t size) {
    int64_t started = now();
    cudaError_t error = context();
    if (error) return error;
    *out = NULL;
    if (!size) return cudaSuccess;
    size_t whole = (size + GRAIN - 1) / GRAIN * GRAIN;
    int got = sim_alloc(card_of(current), whole);
    if (got) return because(got);
    void *p = map(whole, MAP_NORESERVE);
    if (!p) return sim_alloc(card_of(current), -(int64_t)whole), fail(cudaErrorMemoryAllocation);
    madvise(p, whole, MADV_HUGEPAGE);
    madvise(p, whole, MADV_DONTFORK);
    madvise(p, whole, MADV_DONTDUMP);
    remember(p, whole, cudaMemoryTypeDevice, current);
    wait_until(started + ALLOCATION + (int64_t)(whole >> 20) * ALLOCATION_MIB, 1);
    return *out = p, cudaSuccess;
}

API cudaError_t cudaFree(void *p) {
    cudaError_t error = context();
    if (error || !p) return error;
    error = await_device(current); /* as the real one does */
    struct range r = drop(p);
    if (!r.at) return fail(cudaErrorInvalidValue);
    munmap(r.at, r.size);
    sim_alloc(card_of(r.device), -(int64_t)r.size);
    return error;
}

API cudaError_t cudaMallocAsync(void **out, size_t size, cudaStream_t stream) { return (void)stream, cudaMalloc(out, size); }
API cudaError_t cudaFreeAsync(void *p, cudaStream_t stream) { return (void)stream, cudaFree(p); }

API cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags) {
    (void)flags;
    int64_t started = now();
    cudaError_t error = context();
    if (error) return error;
    size_t whole = (size + 4095) / 4096 * 4096;
    void *p = map(whole ? whole : 4096, MAP_POPULATE);
    if (!p) return fail(cudaErrorMemoryAllocation);
    remember(p, whole ? whole : 4096, cudaMemoryTypeHost, current);
    wait_until(started + PINNING + (int64_t)(whole >> 20) * PINNING_MIB, 1);
    return *out = p, cudaSuccess;
}
API cudaError_t cudaMallocHost(void **out, size_t size) { return cudaHostAlloc(out, size, 0); }

API cudaError_t cudaFreeHost(void *p) {
    if (!p) return cudaSuccess;
    struct range r = drop(p);
    if (!r.at) return fail(cudaErrorInvalidValue);
    munmap(r.at, r.size);
    return cudaSuccess;
}

API cudaError_t cudaHostRegister(void *p, size_t size, unsigned flags) {
    (void)flags;
    cudaError_t error = context();
    if (!error) remember(p, size, cudaMemoryTypeHost, current);
    return error;
}
API cudaError_t cudaHostUnregister(void *p) { return drop(p).at ? cudaSuccess : fail(cudaErrorInvalidValue); }
API cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags) { return (void)flags, *out = p, cudaSuccess; }

API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    cudaError_t error = context();
    if (error) return error;
    const struct device *d = card(current);
    int64_t used = sim_used(card_of(current));
    *total = sim_room(d) - d->param[P_memory_reserved];
    *free_bytes = sim_room(d) > used ? sim_room(d) - used : 0;
    return cudaSuccess;
}

API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p) {
    struct range r = range_of(p);
    memset(out, 0, sizeof *out);
    out->type = r.at ? r.type : cudaMemoryTypeUnregistered;
    out->device = r.at ? r.device : -1;
    if (r.at) out->devicePointer = (void *)p;
    if (r.at && r.type == cudaMemoryTypeHost) out->hostPointer = (void *)p;
    return cudaSuccess;
}

/* Memory pools are not modelled: allocations of a stream are plain ones. */
API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device) {
    return *out = (cudaMemPool_t)(intptr_t)(device + 1), cudaSuccess;
}
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *out) {
    (void)pool, (void)attribute;
    return *(uint64_t *)out = 0, cudaSuccess;
}
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    return (void)pool, (void)attribute, (void)value, cudaSuccess;
}
API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n) {
    return (void)pool, (void)list, (void)n, cudaSuccess;
}
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) { return (void)pool, (void)keep, cudaSuccess; }
