/* Events: marks on streams. The engine keeps the times of the last few thousand marks; an event that was seen keeps its own. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <pthread.h>
#include <stdlib.h>

struct event {
    int card, recorded, timing, blocking;
    uint64_t mark;
    int64_t time;                /* ns when it was reached, 0: not known yet */
    struct graph *graph;         /* it was recorded in this capture */
    struct event *next, **where; /* in the list of those whose time is not known */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event *pending;
static unsigned recorded;

static void take_out(struct event *e) {
    if (!e->where) return;
    *e->where = e->next;
    if (e->next) e->next->where = e->where;
    e->where = NULL;
}

static void put_in(struct event *e) {
    e->next = pending, e->where = &pending;
    if (pending) pending->where = &e->next;
    pending = e;
}

static int64_t look(struct event *e) { /* under the lock: its time, 0: not yet, or negative */
    if (e->time || !e->recorded) return e->time;
    int64_t time = sim_reached(e->card, e->mark);
    if (time <= 0) return time;
    take_out(e);
    return e->time = time;
}

static void look_at_all(void) { /* before the engine forgets them */
    for (struct event *e = pending, *next; e; e = next) next = e->next, look(e);
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    cudaError_t error = context();
    if (error) return error;
    struct event *e = calloc(1, sizeof *e);
    e->timing = !(flags & cudaEventDisableTiming), e->blocking = !!(flags & cudaEventBlockingSync);
    *event = (cudaEvent_t)e;
    return cudaSuccess;
}
API cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

API cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (is_forked()) return fail(cudaErrorInitializationError);
    pthread_mutex_lock(&lock);
    take_out((struct event *)event);
    pthread_mutex_unlock(&lock);
    free(event);
    return cudaSuccess;
}

API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    (void)flags;
    int64_t started = now(), mark;
    cudaError_t error = context();
    if (error) return error;
    struct queue *q = queue_of(stream);
    struct event *e = (struct event *)event;
    e->graph = q->graph;
    if (q->graph) return cudaSuccess;
    struct item item = {.kind = MARK};
    error = put(q, &item, NULL, &mark);
    if (error) return error;
    pthread_mutex_lock(&lock);
    take_out(e);
    e->card = card_of(q->device), e->mark = mark, e->time = 0, e->recorded = 1;
    put_in(e);
    if (++recorded % (MARKS / 4) == 0) look_at_all();
    pthread_mutex_unlock(&lock);
    while (now() < started + opt.launch_ns / 2) __builtin_ia32_pause();
    return cudaSuccess;
}
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }

API cudaError_t cudaEventQuery(cudaEvent_t event) {
    struct event *e = (struct event *)event;
    cudaError_t error = context();
    if (error) return error;
    pthread_mutex_lock(&lock);
    int64_t time = look(e);
    int ready = time > 0 || !e->recorded;
    pthread_mutex_unlock(&lock);
    if (time < 0) return because(time);
    if (ready) effects_settle();
    return ready ? cudaSuccess : cudaErrorNotReady;
}

API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    struct event *e = (struct event *)event;
    trace_sync(__func__);
    for (;;) {
        cudaError_t error = cudaEventQuery(event);
        if (error != cudaErrorNotReady) return error;
        int64_t when = sim_mark_outlook(e->card, e->mark), least = now() + (opt.spin && !e->blocking ? 500 : 20000);
        if (when < 0) return because(when);
        wait_until(when > least ? when : least, e->blocking);
    }
}

API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    struct event *a = (struct event *)from, *b = (struct event *)to;
    if (!a->recorded || !b->recorded || !a->timing || !b->timing || a->card != b->card)
        return fail(cudaErrorInvalidResourceHandle);
    cudaError_t error = cudaEventQuery(from);
    if (!error) error = cudaEventQuery(to);
    if (error) return error;
    *ms = (b->time - a->time) / 1e6;
    return cudaSuccess;
}

API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    (void)flags;
    cudaError_t error = context();
    if (error) return error;
    struct queue *q = queue_of(stream);
    struct event *e = (struct event *)event;
    if (e->graph) return q->graph = e->graph, cudaSuccess; /* the capture draws this stream in */
    pthread_mutex_lock(&lock);
    int64_t time = look(e);
    int over = time > 0 || !e->recorded;
    struct item item = {.kind = WAIT, .at = e->mark, .where = e->card};
    pthread_mutex_unlock(&lock);
    if (time < 0) return because(time);
    return over || q->graph ? cudaSuccess : put(q, &item, NULL, NULL);
}
