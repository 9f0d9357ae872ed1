/* Which cards this process sees, and what they say of themselves. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int visible[DEVICES], visible_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *called(const struct device *d, int slice, char *out, int size) { /* the UUID of a card, or of its slice */
    if (slice) sim_slice(d, out, size);
    else snprintf(out, size, "%s", d->uuid);
    return out;
}

static int named(const char *word, size_t length) { /* the card that an index or (the beginning of) a UUID means, or -1 */
    struct state *s = sim_state();
    char *end, uuid[64];
    if (length > 8 && !strncasecmp(word, "MIG-GPU-", 8)) { /* the old form: that of the card, and which slice */
        word += 4, length = strcspn(word, "/,");
    }
    int slice = !strncasecmp(word, "MIG-", 4);
    if (length > 4 && (slice || !strncasecmp(word, "GPU-", 4))) {
        int found = -1;
        for (int i = 0; i < s->devices; i++) {
            if (slice > s->device[i].param[P_mig]) continue;
            if (strncasecmp(word, called(&s->device[i], slice, uuid, sizeof uuid), length)) continue;
            if (found >= 0) return -1; /* the beginning of several */
            found = i;
        }
        return found;
    }
    long index = strtol(word, &end, 10);
    return end == word + length && length && index >= 0 && index < s->devices ? (int)index : -1;
}

static void see(void) {
    struct state *s = sim_state();
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!s) return;
    if (!list)
        for (; visible_count < s->devices; visible_count++) visible[visible_count] = visible_count;
    while (list && *list && visible_count < DEVICES) {
        list += strspn(list, " ");
        size_t length = strcspn(list, ", ");
        int index = named(list, length);
        for (int i = 0; i < visible_count; i++)
            if (visible[i] == index) index = -2;
        if (index == -2) visible_count = 0; /* the same one twice: none at all */
        if (index < 0) break;               /* what stands behind a wrong one is not seen */
        visible[visible_count++] = index;
        list += length;
        list += strspn(list, ", ");
    }
}

int device_count(void) { return pthread_once(&once, see), visible_count; }
int card_of(int device) { return visible[device]; }
struct device *card(int device) { return &sim_state()->device[visible[device]]; }

/* In MIG mode a card is its slice, however it was asked for. */
int multiprocessors(const struct device *d) { return d->param[P_mig] ? (int)d->param[P_slice_sms] : MULTIPROCESSORS; }

static void uuid_of(const struct device *d, char *out) {
    int digits = 0;
    char uuid[64];
    memset(out, 0, 16);
    for (const char *c = called(d, d->param[P_mig], uuid, sizeof uuid) + 4; *c && digits < 32; c++) {
        if (*c == '-') continue;
        char digit[2] = {*c, 0};
        ((unsigned char *)out)[digits / 2] |= strtol(digit, NULL, 16) << (digits % 2 ? 0 : 4);
        digits++;
    }
}

API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    begin();
    if (device < 0 || device >= device_count()) return fail(cudaErrorInvalidDevice);
    const struct device *d = card(device);
    memset(p, 0, sizeof *p);
    int64_t room = sim_room(d);
    snprintf(p->name, sizeof p->name, "%s%s", d->name, d->param[P_mig] ? " MIG" : "");
    uuid_of(d, p->uuid.bytes);
    p->totalGlobalMem = room - d->param[P_memory_reserved];
    p->major = 8, p->minor = 0; /* on 9.0 torch takes attention to cuDNN graphs, which are not there */
    p->multiProcessorCount = multiprocessors(d), p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxThreadsPerMultiProcessor = 2048, p->maxBlocksPerMultiProcessor = 32;
    p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = 232448, p->sharedMemPerMultiprocessor = 233472;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->totalConstMem = 65536;
    p->memPitch = 2147483647, p->textureAlignment = 512, p->memoryBusWidth = 6144, p->l2CacheSize = 50 << 20;
    p->canMapHostMemory = p->concurrentKernels = p->ECCEnabled = p->unifiedAddressing = p->managedMemory = 1;
    p->streamPrioritiesSupported = p->cooperativeLaunch = p->memoryPoolsSupported = p->clusterLaunch = 1;
    p->asyncEngineCount = 3, p->pciBusID = card_of(device) + 1;
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error) return error;
    switch ((int)attribute) {
    case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = p.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = p.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerBlock; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrClockRate: *value = card(device)->param[P_clock_max] * 1000; break;
    case cudaDevAttrMemoryClockRate: *value = card(device)->param[P_clock_mem_max] * 1000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrPciBusId: *value = p.pciBusID; break;
    case cudaDevAttrCooperativeLaunch: case cudaDevAttrUnifiedAddressing: case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCanMapHostMemory: case cudaDevAttrMemoryPoolsSupported: case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrHostRegisterSupported: *value = 1; break;
    default: *value = 0;
    }
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device) {
    if (device < 0 || device >= device_count()) return fail(cudaErrorInvalidDevice);
    snprintf(out, size, "0000:%02X:00.0", card_of(device) + 1);
    return cudaSuccess;
}

API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) { return *can = device != peer, cudaSuccess; }
API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return (void)peer, (void)flags, cudaSuccess; }
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
