/* Streams: queues that are given a stream of the engine while they have something on it, and waiting for them. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue default_queues[DEVICES], *queues;
static struct queue *owners[DEVICES][STREAMS]; /* of the engine's streams on each card */

struct queue *queue_of(cudaStream_t stream) { /* 0, 1 and 2 are names of the default stream */
    if ((uintptr_t)stream > 2) return (struct queue *)stream;
    static int made[DEVICES];
    struct queue *q = &default_queues[current];
    if (!made[current]) *q = (struct queue){.device = current, .slot = -1, .last = -1}, made[current] = 1;
    return q;
}

static int idle(int card_number, int slot) {
    uint64_t done = 0;
    int64_t tail = sim_tail(card_number, slot, &done);
    return tail >= 0 && (uint64_t)tail == done;
}

static int bind(struct queue *q) { /* a free stream of the engine, else one with nothing left on it; 0: there is none now */
    int number = card_of(q->device);
    for (int pass = 0; pass < 2; pass++) {
        for (int slot = 0; slot < STREAMS; slot++) {
            struct queue *owner = owners[number][slot];
            if (pass ? !owner || !idle(number, slot) : owner != NULL) continue;
            if (owner) owner->slot = -1, owner->last = -1;
            owners[number][slot] = q, q->slot = slot;
            return 1;
        }
    }
    return 0;
}

static int64_t room_at(struct queue *q) { /* when there may be room for one more */
    uint64_t done = 0;
    int64_t tail = q->slot < 0 ? -1 : sim_tail(card_of(q->device), q->slot, &done);
    int64_t when = tail < 0 ? 0 : sim_outlook(card_of(q->device), q->slot, done);
    int64_t least = now() + (opt.spin ? 500 : 20000);
    return when > least ? when : least;
}

/* Queue an item; waits, as the launch of a kernel does, where the queue is full. */
cudaError_t put(struct queue *q, struct item *item, const char *name, int64_t *number) {
    for (;;) {
        int64_t got = SIM_FULL;
        pthread_mutex_lock(&lock);
        if (q->slot >= 0 || bind(q)) {
            trace_room(card_of(q->device), q->slot);
            got = sim_push(card_of(q->device), q->slot, item, opt.queue);
            if (got >= 0) q->last = item->kind == MARK ? sim_tail(card_of(q->device), q->slot, NULL) - 1 : got;
            if (got >= 0) trace_item(q, q->last, item, name);
        }
        pthread_mutex_unlock(&lock);
        if (number) *number = got;
        if (got >= 0) return cudaSuccess;
        if (got != SIM_FULL) return because(got);
        wait_until(room_at(q), 0);
    }
}

#define START_NS 1000.0

/* Of a kernel's time no warp runs in the first part, in which the card sends its blocks out. */
static double manned(double ns) { return ns > 2 * START_NS ? 1 - START_NS / ns : 0.5; }

cudaError_t put_busy_kernel(struct queue *q, double ns, const char *name, struct use use) {
    int64_t started = now();
    ns = (opt.kernel_us > 0 ? opt.kernel_us * 1000 : ns) * opt.scale;
    ns = ns * MULTIPROCESSORS / multiprocessors(card(q->device));
    if (q->graph) return graph_add(q->graph, KERNEL, ns, 0, name), cudaSuccess;
    struct item item = {.kind = KERNEL, .left = (int64_t)(ns + 0.5), .size = use.dram == 0}; /* spinning touches no memory */
    double at_work = 1000 * manned(ns);
    item.sm = at_work * use.sm, item.tensor = at_work * use.tensor, item.dram = at_work * use.dram;
    cudaError_t error = put(q, &item, name, NULL);
    while (now() < started + opt.launch_ns) __builtin_ia32_pause(); /* what a launch costs the host */
    return error;
}

cudaError_t put_kernel(struct queue *q, double ns, const char *name) { return put_busy_kernel(q, ns, name, (struct use){0.9, 0, 0.6}); }

cudaError_t await(struct queue *q, int64_t number, int blocking) {
    for (;;) {
        pthread_mutex_lock(&lock); /* a stream that has lost its place has nothing queued */
        int64_t when = q->slot < 0 || number < 0 ? 0 : sim_outlook(card_of(q->device), q->slot, number);
        pthread_mutex_unlock(&lock);
        if (when < 0) return because(when);
        if (!when) return effects_settle(), cudaSuccess;
        int64_t least = now() + (opt.spin && !blocking ? 500 : 20000); /* what others hold up has no time yet */
        wait_until(when > least ? when : least, blocking);
    }
}

cudaError_t await_queue(struct queue *q) { return await(q, q->last, 0); }

cudaError_t await_device(int device) {
    for (int slot = 0; slot < STREAMS; slot++) {
        pthread_mutex_lock(&lock);
        struct queue *q = owners[card_of(device)][slot];
        pthread_mutex_unlock(&lock);
        cudaError_t error = q ? await_queue(q) : cudaSuccess;
        if (error) return error;
    }
    return cudaSuccess;
}

void end_captures(struct graph *graph) { /* streams that were drawn in are free again */
    pthread_mutex_lock(&lock);
    for (struct queue *q = queues; q; q = q->next)
        if (q->graph == graph) q->graph = NULL;
    for (int i = 0; i < DEVICES; i++)
        if (default_queues[i].graph == graph) default_queues[i].graph = NULL;
    pthread_mutex_unlock(&lock);
}

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    cudaError_t error = context();
    if (error) return error;
    struct queue *q = calloc(1, sizeof *q);
    *q = (struct queue){.device = current, .priority = priority, .flags = flags, .slot = -1, .last = -1};
    pthread_mutex_lock(&lock);
    q->next = queues, queues = q;
    pthread_mutex_unlock(&lock);
    *stream = (cudaStream_t)q;
    return cudaSuccess;
}
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
API cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

API cudaError_t cudaStreamDestroy(cudaStream_t stream) { /* what is queued goes on: the engine's stream keeps it */
    if ((uintptr_t)stream <= 2) return cudaSuccess;
    struct queue *q = (struct queue *)stream;
    await_queue(q);
    pthread_mutex_lock(&lock);
    if (q->slot >= 0) owners[card_of(q->device)][q->slot] = NULL;
    for (struct queue **at = &queues; *at; at = &(*at)->next)
        if (*at == q) { *at = q->next; break; }
    pthread_mutex_unlock(&lock);
    free(q);
    return cudaSuccess;
}

API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *out) { return *out = queue_of(stream)->priority, cudaSuccess; }
API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *out) { return *out = queue_of(stream)->flags, cudaSuccess; }

API cudaError_t cudaDeviceSynchronize(void) {
    cudaError_t error = context();
    trace_sync(__func__);
    return error ? error : await_device(current);
}

API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t error = context();
    if (error) return error;
    struct queue *q = queue_of(stream);
    trace_sync(__func__);
    return q->graph ? fail(cudaErrorStreamCaptureUnsupported) : await_queue(q);
}

API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    cudaError_t error = context();
    if (error) return error;
    struct queue *q = queue_of(stream);
    pthread_mutex_lock(&lock);
    int64_t when = q->slot < 0 || q->last < 0 ? 0 : sim_outlook(card_of(q->device), q->slot, q->last);
    pthread_mutex_unlock(&lock);
    if (when < 0) return because(when);
    if (!when) effects_settle();
    return when ? cudaErrorNotReady : cudaSuccess;
}

/* A function on the host, when the stream is so far. What is queued behind it does not wait for its end. */
struct call { struct queue *q; int64_t number; cudaStream_t stream; cudaStreamCallback_t callback; cudaHostFn_t function; void *data; };

static void *call_later(void *argument) {
    struct call *c = argument;
    cudaError_t error = await(c->q, c->number, 1);
    if (c->callback) c->callback(c->stream, error, c->data);
    else c->function(c->data);
    free(c);
    return NULL;
}

static cudaError_t call(struct call given) {
    cudaError_t error = context();
    if (error) return error;
    struct call *c = malloc(sizeof *c);
    *c = given, c->q = queue_of(c->stream), c->number = c->q->last;
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_later, c)) return free(c), fail(cudaErrorUnknown);
    pthread_detach(thread);
    return cudaSuccess;
}

API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned flags) {
    (void)flags;
    return call((struct call){.stream = stream, .callback = callback, .data = data});
}
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    return call((struct call){.stream = stream, .function = function, .data = data});
}
