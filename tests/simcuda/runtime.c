/* The runtime's own state: options, contexts, errors, waiting. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options opt;
__thread int current;
static __thread cudaError_t last_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static int contexts[DEVICES];
static int forked; /* this process is the child of one that used CUDA */

int64_t now(void) { return sim_now(); }

static double number(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text && *text ? atof(text) : otherwise;
}

static void in_child(void) { forked = 1; }

static void read_options(void) {
    opt.scale = number("SIMCUDA_SCALE", 1), opt.kernel_us = number("SIMCUDA_KERNEL_US", 0);
    opt.launch_ns = number("SIMCUDA_LAUNCH_US", 3) * 1000, opt.init_ns = number("SIMCUDA_INIT_MS", 150) * 1000000;
    opt.queue = number("SIMCUDA_QUEUE", RING), opt.spin = number("SIMCUDA_SPIN", 1);
    opt.driver = number("SIMCUDA_DRIVER", 13000), opt.full = number("SIMCUDA_COPY_ALL", 0);
    opt.link_latency_us = number("SIMCUDA_LINK_US", -1), opt.link_rate_gbs = number("SIMCUDA_LINK_GBS", -1);
    if (opt.queue < 1) opt.queue = 1;
    if (getenv("SIMCUDA_TRACE")) trace_open(getenv("SIMCUDA_TRACE"));
    if (opt.queue >= RING) opt.queue = getenv("SIMCUDA_TRACE") ? RING - 1 : RING; /* one item is kept until it is written */
    pthread_atfork(NULL, NULL, in_child);
}

void begin(void) { pthread_once(&once, read_options); }

void wait_until(int64_t when, int blocking) {
    if (opt.spin && !blocking) {
        while (now() < when) __builtin_ia32_pause();
        return;
    }
    int64_t left = when - now();
    if (left > 80000) sim_sleep_until(when - 60000); /* the timer's slack; the rest is shorter than it */
    while (now() < when) __builtin_ia32_pause();
}

cudaError_t fail(cudaError_t error) { return last_error = error; }

cudaError_t because(int64_t sim) {
    switch (sim) {
    case SIM_LOST: return fail(cudaErrorDevicesUnavailable);
    case SIM_OOM: return fail(cudaErrorMemoryAllocation);
    default: return fail(cudaErrorNoDevice);
    }
}

static void leave(void) {
    if (forked) return; /* the parent's contexts are not ours to close */
    trace_finish();
    for (int i = 0; i < DEVICES; i++)
        if (contexts[i]) sim_close(card_of(i));
}

static cudaError_t make_context(int device) {
    int64_t started = now();
    int got = sim_open(card_of(device));
    if (got) return because(got);
    struct device *d = card(device);
    if (sim_used(card_of(device)) > sim_room(d)) return sim_close(card_of(device)), fail(cudaErrorMemoryAllocation);
    int first = 1;
    for (int i = 0; i < DEVICES; i++) first &= !contexts[i];
    if (first) atexit(leave);
    contexts[device] = 1;
    wait_until(started + opt.init_ns, 1);
    return cudaSuccess;
}

cudaError_t context(void) {
    if (forked) return fail(cudaErrorInitializationError);
    if (contexts[current]) return cudaSuccess;
    begin();
    if (current >= device_count()) return fail(cudaErrorNoDevice);
    pthread_mutex_lock(&making);
    cudaError_t error = contexts[current] ? cudaSuccess : make_context(current);
    pthread_mutex_unlock(&making);
    return error;
}

int has_context(int device) { return contexts[device]; }
int is_forked(void) { return forked; }

API cudaError_t cudaGetDeviceCount(int *count) {
    begin();
    *count = 0;
    if (forked) return fail(cudaErrorInitializationError);
    if (opt.driver / 1000 < CUDART_VERSION / 1000) return fail(cudaErrorInsufficientDriver);
    *count = device_count();
    return *count ? cudaSuccess : fail(cudaErrorNoDevice);
}

API cudaError_t cudaGetDevice(int *device) { return forked ? fail(cudaErrorInitializationError) : (*device = current, cudaSuccess); }

API cudaError_t cudaSetDevice(int device) {
    begin();
    if (device < 0 || device >= device_count()) return fail(cudaErrorInvalidDevice);
    current = device;
    return context();
}

API cudaError_t cudaDriverGetVersion(int *version) { return begin(), *version = opt.driver, cudaSuccess; }
API cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION / 1000 * 1000, cudaSuccess; }
API cudaError_t cudaPeekAtLastError(void) { return last_error; }
API cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    if (error != cudaErrorDevicesUnavailable) last_error = cudaSuccess; /* a lost card stays lost */
    return error;
}

static const struct { cudaError_t error; const char *name, *text; } errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

API const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) return errors[i].name;
    return "cudaErrorUnknown";
}

API const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) return errors[i].text;
    return "unknown error";
}

API cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
API cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
