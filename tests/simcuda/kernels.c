/* Kernels: their names, and launching them. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct known { const void *host; const char *name; };
static struct known *table; /* open addressing by the address of the host's stub */
static size_t size, used;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static size_t place(const void *host) { return ((uintptr_t)host * 0x9E3779B97F4A7C15ull >> 20) & (size - 1); }

static void insert(struct known k) {
    size_t i = place(k.host);
    while (table[i].host && table[i].host != k.host) i = (i + 1) & (size - 1);
    used += !table[i].host;
    table[i] = k;
}

static void grow(void) {
    struct known *old = table;
    size_t old_size = size;
    size = size ? size * 2 : 1 << 16; /* torch registers some 30,000 */
    table = calloc(size, sizeof *table), used = 0;
    for (size_t i = 0; i < old_size; i++)
        if (old[i].host) insert(old[i]);
    free(old);
}

API void **__cudaRegisterFatBinary(void *binary) {
    static void *handle[4];
    (void)binary;
    return handle;
}
API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
API void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int ext, size_t n, int constant, int global) {
    (void)handle, (void)host, (void)address, (void)name, (void)ext, (void)n, (void)constant, (void)global;
}
API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                                void *bid, void *bdim, void *gdim, int *warp) {
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)bdim, (void)gdim, (void)warp;
    pthread_rwlock_wrlock(&lock);
    if (used * 2 >= size) grow();
    insert((struct known){host, name});
    pthread_rwlock_unlock(&lock);
}

static const char *name_of(const void *host) {
    const char *name = "unknown";
    pthread_rwlock_rdlock(&lock);
    for (size_t i = size ? place(host) : 0; size && table[i].host; i = (i + 1) & (size - 1))
        if (table[i].host == host) { name = table[i].name; break; }
    pthread_rwlock_unlock(&lock);
    return name;
}

/* What __cudaPushCallConfiguration gives to the stub that the compiler made for a kernel. */
static __thread struct { dim3 grid, block; size_t shared; cudaStream_t stream; } calls[8];
static __thread unsigned depth;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    calls[depth & 7].grid = grid, calls[depth & 7].block = block;
    calls[depth & 7].shared = shared, calls[depth & 7].stream = stream;
    depth++;
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    depth--;
    *grid = calls[depth & 7].grid, *block = calls[depth & 7].block;
    *shared = calls[depth & 7].shared, *(cudaStream_t *)stream = calls[depth & 7].stream;
    return cudaSuccess;
}
API cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host) { return *out = (cudaKernel_t)host, cudaSuccess; }

cudaError_t run_kernel(const char *name, uint64_t blocks, uint64_t threads, void **arguments, struct queue *q) {
    if (!threads) return fail(cudaErrorInvalidConfiguration);
    double tensor = 0, dram = 0.6;
    double ns = kernel_ns(name, blocks, threads, arguments, &tensor, &dram);
    kernel_values(name, arguments);
    return put_busy_kernel(q, ns, name, (struct use){filled(blocks), tensor, dram});
}

static cudaError_t launch(const void *host, dim3 grid, dim3 block, void **arguments, cudaStream_t stream) {
    cudaError_t error = context();
    if (error) return error;
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    return run_kernel(name_of(host), blocks, blocks * block.x * block.y * block.z, arguments, queue_of(stream));
}

API cudaError_t cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **a, size_t shared, cudaStream_t s) {
    return (void)shared, launch(f, grid, block, a, s);
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t f, dim3 grid, dim3 block, void **a, size_t shared, cudaStream_t s) {
    return (void)shared, launch(f, grid, block, a, s);
}
API cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **a, size_t shared, cudaStream_t s) {
    return (void)shared, launch(f, grid, block, a, s);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **a) {
    return launch(f, c->gridDim, c->blockDim, a, c->stream);
}

API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *f) {
    (void)f;
    memset(out, 0, sizeof *out);
    out->binaryVersion = out->ptxVersion = 90, out->maxThreadsPerBlock = 1024, out->numRegs = 32;
    out->maxDynamicSharedSizeBytes = 232448;
    return cudaSuccess;
}
API cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int v) {
    return (void)f, (void)a, (void)v, cudaSuccess;
}
API cudaError_t cudaFuncSetCacheConfig(const void *f, enum cudaFuncCache c) { return (void)f, (void)c, cudaSuccess; }
API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t f, enum cudaFuncAttribute a, int v, int d) {
    return (void)f, (void)a, (void)v, (void)d, cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, const void *f, int block, size_t shared,
                                                                       unsigned flags) {
    (void)f, (void)shared, (void)flags;
    int n = 2048 / (block > 0 ? block : 1);
    return *out = n > 32 ? 32 : n < 1 ? 1 : n, cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, const void *f, int block, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, f, block, shared, 0);
}
