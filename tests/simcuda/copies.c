/* Copies: the time is the engine's, the data is moved on the host at once.
 *
 * Of big copies only the head is moved. Scalars that are not known (values.c) read as 0.
 */
#define _GNU_SOURCE
#include "simcuda.h"
#include <string.h>

#define LATENCY 8000       /* ns: of a copy over the link, whatever its size */
#define STAGED (64 << 10)  /* B: smaller ones from pageable memory are taken by the driver, and the call returns */
enum { SCALAR = 8 }; /* B */

static char staging[1 << 20], symbols[1 << 16];

static size_t moved(size_t size) { return opt.full || size <= HEAD ? size : HEAD; }

static void give_out(void *to, const void *from, size_t size) { /* device to host */
    if (size <= SCALAR && !is_known(from, size) && !effects_pending(from, size)) memset(to, 0, size);
    else effects_copy(to, from, moved(size));
}

static void stage(void *to, const void *from, size_t size) { /* the host feeds a staging buffer: that costs it time */
    effects_wait(to, size);
    memcpy(to, from, moved(size));
    for (size_t at = HEAD; !opt.full && at < size; at += sizeof staging)
        memcpy(staging, (const char *)from + at, size - at < sizeof staging ? size - at : sizeof staging);
}

static cudaError_t queue_copy(struct queue *q, int kind, size_t size, int fast, int64_t *number) {
    int64_t started = now();
    const int64_t *param = card(q->device)->param;
    double ns = LATENCY + 1e9 * size / param[fast ? P_rate_pinned : P_rate_pageable];
    const char *name = kind == H2D ? fast ? "pinned" : "pageable" : fast ? "pinned_back" : "pageable_back";
    *number = -1;
    if (q->graph) return graph_add(q->graph, kind, ns, size, name), cudaSuccess;
    struct item item = {.kind = kind, .left = (int64_t)(ns + 0.5), .bytes = size};
    cudaError_t error = put(q, &item, name, number);
    while (now() < started + opt.launch_ns) __builtin_ia32_pause();
    return error;
}

static cudaError_t within_device(void *to, const void *from, size_t size, struct queue *q, int async) {
    cudaError_t error = put_busy_kernel(q, 1500 + memory_ns(2.0 * size), "copy_d2d", (struct use){0.9, 0, 0.9});
    if (is_known(from, size)) note_written(to, size);
    if (size <= HEAD || opt.full) effects_copy(to, from, size);
    return error || async ? error : await_queue(q);
}

static cudaError_t to_device(void *to, const void *from, size_t size, struct queue *q, int pinned, int async) {
    int64_t number;
    if (!pinned && q->graph) return fail(cudaErrorStreamCaptureUnsupported);
    if (!pinned && size > STAGED) { /* blocks, whatever was asked for */
        cudaError_t error = await_queue(q);
        if (error) return error;
    }
    cudaError_t error = queue_copy(q, H2D, size, pinned || size <= STAGED, &number);
    if (error) return error;
    note_written(to, size);
    if (pinned || size <= STAGED) effects_write(to, from, moved(size));
    else stage(to, from, size);
    return async && (pinned || size <= STAGED) ? cudaSuccess : await(q, number, 0);
}

static cudaError_t to_host(void *to, const void *from, size_t size, struct queue *q, int pinned, int async) {
    int64_t number;
    if (!pinned && q->graph) return fail(cudaErrorStreamCaptureUnsupported);
    cudaError_t error = queue_copy(q, D2H, size, pinned || size <= STAGED, &number);
    if (error || q->graph) return error;
    if (!async || !pinned) error = await(q, number, 0);
    if (!error) give_out(to, from, size);
    return error;
}

cudaError_t copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream, int async) {
    cudaError_t error = context();
    if (error || !size) return error;
    struct queue *q = queue_of(stream);
    struct range a = range_of(to), b = range_of(from);
    int into = a.type == cudaMemoryTypeDevice, out_of = b.type == cudaMemoryTypeDevice;
    if (kind == cudaMemcpyHostToDevice && !into) return fail(cudaErrorInvalidValue);
    if (kind == cudaMemcpyDeviceToHost && !out_of) return fail(cudaErrorInvalidValue);
    if (into && out_of) return within_device(to, from, size, q, async);
    if (into) return to_device(to, from, size, q, b.type == cudaMemoryTypeHost, async);
    if (out_of) return to_host(to, from, size, q, a.type == cudaMemoryTypeHost, async);
    error = await_queue(q);
    if (!error) memmove(to, from, size);
    return error;
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return copy(to, from, size, kind, stream, 1);
}
API cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    return copy(to, from, size, kind, 0, 0);
}
API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                                  enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < height && !error; i++)
        error = copy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width, kind, stream, 1);
    return error;
}
API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, cudaStream_t s) {
    (void)to_device, (void)from_device;
    return copy(to, from, size, cudaMemcpyDefault, s, 1);
}

API cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    cudaError_t error = context();
    if (error || !size) return error;
    error = put_busy_kernel(queue_of(stream), 1500 + memory_ns(size), "memset", (struct use){0.9, 0, 0.9});
    effects_wait(to, size);
    memset(to, value, moved(size));
    note_written(to, size);
    return error;
}
API cudaError_t cudaMemset(void *to, int value, size_t size) { return cudaMemsetAsync(to, value, size, 0); }

/* Symbols of device code have no data here. */
API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t n, size_t at, enum cudaMemcpyKind kind) {
    return (void)symbol, (void)from, (void)n, (void)at, (void)kind, cudaSuccess;
}
API cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) { return (void)symbol, *out = symbols, cudaSuccess; }
