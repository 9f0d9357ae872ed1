/* What a process does with a simulated card: queue items, look when they are done, take memory. See sim.h. */
#define _GNU_SOURCE
#include "sim.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct proc *enter(int device, int *why) { /* locked unless NULL */
    struct device *d = sim_lock(device);
    struct proc *p = d ? sim_mine(device) : NULL;
    *why = p && !d->param[P_lost] ? SIM_OK : p ? SIM_LOST : d ? SIM_OOM : SIM_BAD;
    if (d && *why) sim_unlock(device);
    return *why ? NULL : p;
}

static void join(struct state *s, int device, struct proc *p, int stream) { /* it has items now */
    if (p->streams[stream].live) return;
    p->streams[stream].live = 1;
    s->live[s->live_count++] = (struct place){device, p - s->device[device].procs, stream};
}

static int mark_room(const struct proc *p) { /* the oldest mark has been reached: its place may be taken */
    const struct mark *m = &p->marks[(p->marked + 1) % MARKS];
    return !m->number || m->time;
}

static void note_mark(struct proc *p, struct stream *s, struct item *item) {
    item->at = ++p->marked;
    p->marks[item->at % MARKS] = (struct mark){.number = item->at, .item = s->tail, .stream = s - p->streams};
}

static void note_kind(struct proc *p, struct stream *s, int kind) {
    s->kernels += kind == KERNEL;
    p->booked[B_kernels] += kind == KERNEL;
    p->booked[B_copies] += kind == H2D || kind == D2H;
    p->booked[B_collectives] += kind == MEET;
}

/* Queue one item; returns its number on the stream, or its mark's number, or a negative error. SIM_FULL: no room, nothing
 * was done; the caller waits, as CUDA does. */
int64_t sim_push(int device, int stream, const struct item *given, int depth) {
    int why;
    struct proc *p = stream < 0 || stream >= STREAMS ? NULL : enter(device, &why);
    if (!p) return stream < 0 || stream >= STREAMS ? SIM_BAD : why;
    struct state *state = sim_state();
    struct stream *s = &p->streams[stream];
    int64_t number = SIM_FULL;
    if (s->tail - s->done < (uint64_t)(depth < RING ? depth : RING) && (given->kind != MARK || mark_room(p))) {
        struct item *item = &s->ring[s->tail % RING];
        *item = *given;
        item->start = item->done = 0;
        if (item->kind == WAIT) {
            struct proc *other = sim_mine(item->where);
            item->size = other ? other - state->device[item->where].procs : 0;
        }
        if (item->kind == MARK) note_mark(p, s, item);
        note_kind(p, s, item->kind);
        number = item->kind == MARK ? (int64_t)item->at : (int64_t)s->tail;
        s->tail++;
        join(state, device, p, stream);
        sim_settle(state);
    }
    sim_unlock(device);
    return number;
}

/* When a mark was reached, ns of CLOCK_MONOTONIC; 0: not yet. One so old that its place was taken is told as 1. */
int64_t sim_reached(int device, uint64_t number) {
    int why;
    struct proc *p = enter(device, &why);
    if (!p) return why;
    const struct mark *m = &p->marks[number % MARKS];
    int64_t time = m->number == number ? m->time : 1;
    sim_unlock(device);
    return time;
}

/* When the items of this process's streams may be done, ns from now: worked out once in a question, as far as it reaches.
 * Waits that go to and fro between streams would otherwise be followed again for each of them. Under the lock. */
static double outlooks[DEVICES][STREAMS][RING];
static uint64_t reached[DEVICES][STREAMS]; /* items up to here are in it */

static double outlook_of(const struct state *s, const struct proc *p, int device, int stream, uint64_t number);

static double outlook_of_wait(const struct state *s, const struct item *wait) { /* the mark's stream must be so far */
    const struct proc *other = &s->device[wait->where].procs[wait->size];
    const struct mark *m = &other->marks[wait->at % MARKS];
    if (m->number != wait->at || m->time) return 0;
    return outlook_of(s, other, wait->where, m->stream, m->item);
}

static double outlook_of(const struct state *s, const struct proc *p, int device, int stream, uint64_t number) {
    const struct stream *q = &p->streams[stream];
    const struct device *d = &s->device[device];
    double *known = outlooks[device][stream], speed = (double)d->param[P_clock_sm] / d->param[P_clock_max];
    if (number >= q->tail) number = q->tail - 1;
    if (q->done == q->tail || number < q->done) return 0;
    uint64_t i = reached[device][stream] > q->done ? reached[device][stream] : q->done;
    for (double left = i > q->done ? known[(i - 1) % RING] : 0; i <= number; i++) {
        const struct item *item = &q->ring[i % RING];
        if (item->kind == WAIT) left = fmax(left, outlook_of_wait(s, item)); /* marks are older than waits: no circles */
        else left += item->kind == KERNEL ? item->left / speed : item->left;
        known[i % RING] = left, reached[device][stream] = i + 1;
    }
    return known[number % RING]; /* never too long: sharing the card only adds to it */
}

static int64_t outlook(const struct state *s, const struct proc *p, int device, int stream, uint64_t number) {
    memset(reached, 0, sizeof reached);
    return s->at + (int64_t)ceil(outlook_of(s, p, device, stream, number));
}

/* When an item may be done at the soonest, ns; 0: it is. */
int64_t sim_outlook(int device, int stream, int64_t number) {
    int why;
    struct proc *p = enter(device, &why);
    if (!p) return why;
    struct state *s = sim_state();
    int64_t when = 0;
    if ((uint64_t)number >= p->streams[stream].done)
        when = outlook(s, p, device, stream, number);
    sim_unlock(device);
    return when;
}

/* The same of a mark; `time` is when it was reached. */
int64_t sim_mark_outlook(int device, uint64_t number) {
    int why;
    struct proc *p = enter(device, &why);
    if (!p) return why;
    struct state *s = sim_state();
    const struct mark *m = &p->marks[number % MARKS];
    int64_t when = 0;
    if (m->number == number && !m->time)
        when = outlook(s, p, device, m->stream, m->item);
    sim_unlock(device);
    return when;
}

int64_t sim_tail(int device, int stream, uint64_t *done) { /* items queued ever, and finished */
    int why;
    struct proc *p = enter(device, &why);
    if (!p) return why;
    int64_t tail = p->streams[stream].tail;
    if (done) *done = p->streams[stream].done;
    sim_unlock(device);
    return tail;
}

int sim_fetch(int device, int stream, uint64_t number, struct item *out) { /* a copy of a finished item that is still kept */
    int why;
    struct proc *p = enter(device, &why);
    if (!p) return why;
    const struct stream *s = &p->streams[stream];
    int ok = number < s->done && s->tail - number <= RING;
    if (ok) *out = s->ring[number % RING];
    sim_unlock(device);
    return ok ? SIM_OK : SIM_BAD;
}

static int64_t used(const struct device *d) {
    int64_t total = d->param[P_memory_reserved];
    for (int i = 0; i < d->used; i++)
        if (d->procs[i].pid) total += d->procs[i].memory + (d->procs[i].ghost ? 0 : d->param[P_context]);
    return total;
}

int64_t sim_room(const struct device *d) { return d->param[d->param[P_mig] ? P_slice_memory : P_memory_total]; }

void sim_slice(const struct device *d, char *out, int size) { snprintf(out, size, "MIG-f%s", d->uuid + 5); }

int sim_open(int device) { /* SIM_OOM: no room for the context */
    struct device *d = sim_lock(device);
    if (!d) return SIM_BAD;
    struct proc *p = sim_mine(device);
    int ok = d->param[P_lost] ? SIM_LOST : p ? SIM_OK : SIM_OOM;
    sim_unlock(device);
    return ok;
}

void sim_close(int device) {
    struct device *d = sim_lock(device);
    if (!d) return;
    struct proc *p = sim_mine(device);
    if (p) sim_leave(sim_state(), d, p);
    sim_unlock(device);
}

int sim_alloc(int device, int64_t bytes) { /* negative bytes give back */
    struct device *d = sim_lock(device);
    struct proc *p = d ? sim_mine(device) : NULL;
    if (p && bytes > 0 && used(d) + bytes > sim_room(d)) sim_reap(sim_state(), INT64_MAX); /* of the dead */
    int ok = !p ? SIM_BAD : bytes > 0 && used(d) + bytes > sim_room(d) ? SIM_OOM : SIM_OK;
    if (ok == SIM_OK) p->memory = p->memory + bytes > 0 ? p->memory + bytes : 0;
    if (d) sim_unlock(device);
    return ok;
}

int64_t sim_used(int device) {
    struct device *d = sim_lock(device);
    int64_t bytes = d ? used(d) : SIM_BAD;
    if (d) sim_unlock(device);
    return bytes;
}

void sim_waited(int device) {
    int why;
    struct proc *p = enter(device, &why);
    if (!p) return;
    p->booked[B_waits]++;
    sim_unlock(device);
}

double sim_busy(int device) { /* s with at least one kernel running, ever */
    struct device *d = sim_lock(device);
    double seconds = d ? d->busy / 1e9 : -1;
    if (d) sim_unlock(device);
    return seconds;
}

/* The plain face for simgpu.py: one call that waits itself. `amount`: seconds of a kernel, bytes of a copy, in which case
 * `sm` is set for pinned memory. */
int64_t sim_enqueue(int device, int stream, int kind, double amount, int sm, int tensor, int dram) {
    struct state *s = sim_state();
    if (!s || device < 0 || device >= s->devices) return SIM_BAD;
    struct item item = {.kind = kind, .sm = sm, .tensor = tensor, .dram = dram, .bytes = kind == KERNEL ? 0 : amount};
    if (kind == KERNEL) item.left = amount * 1e9;
    if (kind == H2D || kind == D2H) item.left = 1e9 * amount / s->device[device].param[sm ? P_rate_pinned : P_rate_pageable];
    for (;;) {
        int64_t number = sim_push(device, stream, &item, RING - 1);
        if (number < 0 && number != SIM_FULL) return number;
        if (number >= 0) return kind == MARK ? sim_tail(device, stream, NULL) - 1 : number;
        sim_sleep_until(sim_now() + 200000);
    }
}

/* When item `number` finished, ns; 0 while it has not. Waits for it if `wait`. Negative: the device is lost. */
int64_t sim_finished(int device, int stream, int64_t number, int wait) {
    for (;;) {
        int64_t wake = sim_outlook(device, stream, number);
        struct item item;
        if (wake < 0) return wake;
        if (!wake) return sim_fetch(device, stream, number, &item) == SIM_OK ? item.done : 1;
        if (!wait) return 0;
        sim_sleep_until(wake + 1000);
    }
}

int sim_synchronize(int device) {
    for (int stream = 0; stream < STREAMS; stream++) {
        int64_t tail = sim_tail(device, stream, NULL);
        if (tail < 0) return tail;
        if (tail > 0 && sim_finished(device, stream, tail - 1, 1) < 0) return SIM_LOST;
    }
    return SIM_OK;
}
