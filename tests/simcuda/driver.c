/* libcuda: what c10, NVRTC's stub and Triton ask of the driver. A module is nothing, a function is its name. CUPTI: absent. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;
enum { INVALID = 1, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500, NOT_SUPPORTED = 801 };

static int not_supported(void) { return NOT_SUPPORTED; }

API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
                                                 enum cudaDriverEntryPointQueryResult *result) {
    static void *self;
    Dl_info info;
    (void)version, (void)flags;
    if (!self && dladdr((void *)not_supported, &info)) self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *out = self ? dlsym(self, name) : NULL;
    if (!*out) *out = (void *)not_supported; /* torch asks for all of them and calls few */
    if (result) *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

API int cuInit(unsigned flags) { return (void)flags, begin(), device_count() ? 0 : NO_DEVICE; }
API int cuDriverGetVersion(int *out) { return begin(), *out = opt.driver, 0; }
API int cuDeviceGetCount(int *out) { return *out = device_count(), 0; }
API int cuDeviceGet(int *out, int index) { return *out = index, index < device_count() ? 0 : INVALID_DEVICE; }
API int cuDeviceGetName(char *out, int size, int device) { return snprintf(out, size, "%s", card(device)->name), 0; }
API int cuDeviceGetAttribute(int *out, int attribute, int device) {
    return cudaDeviceGetAttribute(out, (enum cudaDeviceAttr)attribute, device);
}
API int cuDeviceGetUuid(char *out, int device) {
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    return error ? (int)error : (memcpy(out, p.uuid.bytes, 16), 0);
}
API int cuDeviceGetUuid_v2(char *out, int device) { return cuDeviceGetUuid(out, device); }
API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    return *flags = 0, *active = has_context(device), 0;
}
API int cuDevicePrimaryCtxRetain(void **out, int device) { return *out = (void *)(intptr_t)(device + 1), 0; }
API int cuCtxGetCurrent(void **out) { return *out = has_context(current) ? (void *)(intptr_t)(current + 1) : NULL, 0; }
API int cuCtxSetCurrent(void *context_) { return context_ ? (int)cudaSetDevice((int)(intptr_t)context_ - 1) : 0; }
API int cuCtxPushCurrent_v2(void *context_) { return (void)context_, 0; }
API int cuCtxPopCurrent_v2(void **out) { return (void)out, 0; }
API int cuCtxGetDevice(int *out) { return *out = current, 0; }
API int cuCtxSetLimit(int limit, size_t value) { return (void)limit, (void)value, 0; }
API int cuCtxGetLimit(size_t *out, int limit) { return (void)limit, *out = 1 << 20, 0; }
API int cuGetErrorString(int error, const char **out) { return *out = cudaGetErrorString((cudaError_t)error), 0; }
API int cuGetErrorName(int error, const char **out) { return *out = cudaGetErrorName((cudaError_t)error), 0; }

API int cuPointerGetAttribute(void *out, int attribute, address p) { /* 3, 4: the device's and the host's pointer */
    if (attribute == 3 || attribute == 4) *(address *)out = p;
    else *(int *)out = 0;
    return 0;
}
API int cuPointerGetAttributes(unsigned n, int *attributes, void **out, address p) {
    (void)attributes, (void)p;
    for (unsigned i = 0; i < n; i++) memset(out[i], 0, 4);
    return 0;
}
API int cuMemGetAddressRange_v2(address *base, size_t *size, address p) {
    struct range r = range_of((void *)p);
    if (!r.at) return INVALID;
    if (base) *base = (address)r.at;
    if (size) *size = r.size;
    return 0;
}
API int cuMemGetAddressRange(address *base, size_t *size, address p) { return cuMemGetAddressRange_v2(base, size, p); }
API int cuMemcpyDtoH_v2(void *to, address from, size_t size) { return (void)from, memset(to, 0, size), 0; }
API int cuMemsetD32Async(address to, unsigned value, size_t n, cudaStream_t stream) {
    return (void)value, cudaMemsetAsync((void *)to, 0, n * 4, stream);
}

API int cuModuleLoad(void **out, const char *path) { return (void)path, *out = malloc(8), 0; }
API int cuModuleLoadData(void **out, const void *image) { return (void)image, *out = malloc(8), 0; }
API int cuModuleLoadDataEx(void **out, const void *image, unsigned n, void *options, void **values) {
    return (void)image, (void)n, (void)options, (void)values, *out = malloc(8), 0;
}
API int cuModuleUnload(void *module) { return free(module), 0; }
API int cuModuleGetFunction(void **out, void *module, const char *name) { return (void)module, *out = strdup(name), 0; }
API int cuModuleGetGlobal_v2(void **out, size_t *size, void *module, const char *name) {
    (void)module, (void)name;
    if (size) *size = 8;
    return cudaGetSymbolAddress(out, NULL);
}
API int cuFuncGetAttribute(int *out, int attribute, void *f) { /* 4: registers; 0: threads in a block */
    return (void)f, *out = attribute == 4 ? 32 : attribute == 0 ? 1024 : 0, 0;
}
API int cuFuncSetAttribute(void *f, int attribute, int value) { return (void)f, (void)attribute, (void)value, 0; }
API int cuFuncSetCacheConfig(void *f, int config) { return (void)f, (void)config, 0; }
API int cuKernelGetFunction(void **out, void *kernel) { return *out = kernel, 0; }
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, void *f, int block, size_t shared) {
    return (void)f, (void)shared, *out = 2048 / (block > 0 ? block : 1), 0;
}
API int cuOccupancyMaxActiveClusters(int *out, void *f, const void *config) { return (void)f, (void)config, *out = 66, 0; }
API int cuTensorMapEncodeTiled(void) { return NOT_SUPPORTED; }
API int cuTensorMapEncodeIm2col(void) { return NOT_SUPPORTED; }
API int cuLinkCreate_v2(void) { return NOT_SUPPORTED; }
API int cuLinkAddData_v2(void) { return NOT_SUPPORTED; }
API int cuLinkComplete(void) { return NOT_SUPPORTED; }

/* Triton's kernels: 8 elements a thread, 12 B each. */
static int cu_launch(const char *name, double blocks, double threads, cudaStream_t stream) {
    int error = context();
    if (error || !blocks) return error ? error : INVALID;
    return put_busy_kernel(queue_of(stream), 1500 + memory_ns(blocks * threads * 96), name, (struct use){filled(blocks), 0, 0.8});
}
API int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       cudaStream_t stream, void **arguments, void **extra) {
    (void)shared, (void)arguments, (void)extra;
    return cu_launch(f, (double)gx * gy * gz, (double)bx * by * bz, stream);
}
API int cuLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                  unsigned shared, cudaStream_t stream, void **arguments) {
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, arguments, NULL);
}
struct launch { unsigned gx, gy, gz, bx, by, bz, shared; cudaStream_t stream; }; /* the head of CUlaunchConfig */
API int cuLaunchKernelEx(const struct launch *c, void *f, void **arguments, void **extra) {
    return cuLaunchKernel(f, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->stream, arguments, extra);
}

API int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status) {
    enum cudaDriverEntryPointQueryResult result;
    cudaGetDriverEntryPointByVersion(name, out, version, flags, &result);
    if (*out == (void *)not_supported) *out = NULL;
    if (status) *status = *out ? 0 : 1;
    return *out ? 0 : NOT_FOUND;
}

/* Kineto subscribes to CUPTI when torch starts, and would drive the real one against this runtime. */
#define CUPTI(name) API int name(void) { return 15; } /* CUPTI_ERROR_NOT_INITIALIZED */
CUPTI(cuptiSubscribe) CUPTI(cuptiUnsubscribe) CUPTI(cuptiEnableCallback) CUPTI(cuptiEnableDomain) CUPTI(cuptiFinalize)
CUPTI(cuptiActivityEnable) CUPTI(cuptiActivityDisable) CUPTI(cuptiActivityFlushAll) CUPTI(cuptiActivityRegisterCallbacks)
CUPTI(cuptiActivityRegisterTimestampCallback) CUPTI(cuptiActivitySetAttribute)
CUPTI(cuptiActivityPushExternalCorrelationId) CUPTI(cuptiActivityPopExternalCorrelationId)
