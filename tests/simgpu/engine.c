/* How time passes on the simulated cards: queues, time slicing, collectives, busy time, power and the books. See sim.h. */
#define _GNU_SOURCE
#include "sim.h"
#include <math.h>
#include <string.h>

#define REAP 200000000LL /* ns between looks for processes that died without leaving */

/* What a process does on a card in one step of time. */
enum { RUNS = 1, FEEDS = 2, FETCHES = 4, LINGERS = 8, EXCHANGES = 16, COPY_SHOWS = 32, COLLECTIVE_SHOWS = 64, WORKS = 128 };

struct view { /* a stream that has items, and what stands at its head */
    struct device *device;
    struct proc *proc;
    struct stream *stream;
    struct item *item;
};

static struct view look(struct state *s, int i) {
    struct place at = s->live[i];
    struct view v = {.device = &s->device[at.device]};
    v.proc = &v.device->procs[at.proc];
    v.stream = &v.proc->streams[at.stream];
    v.item = &v.stream->ring[v.stream->done % RING];
    return v;
}

static struct mark *mark_of(struct state *s, const struct item *wait) {
    struct mark *m = &s->device[wait->where].procs[wait->size].marks[wait->at % MARKS];
    return m->number == wait->at && !m->time ? m : NULL; /* NULL: reached, or so long ago that its place is taken */
}

static struct meeting *meeting_of(struct comm *c, uint64_t number) {
    for (uint64_t i = 0, at = number * 0x9E3779B97F4A7C15ull >> 40; i < MEETINGS; i++) {
        struct meeting *m = &c->meetings[(at + i) % MEETINGS];
        if (m->number == number) return m;
        if (!m->number) return *m = (struct meeting){.number = number}, m;
    }
    return NULL;
}

static void arrive(struct state *s, const struct item *item) {
    struct meeting *m = meeting_of(&s->comms[item->where], item->at);
    if (m && ++m->arrived == item->size) m->begun = s->at;
}

/* Open addressing has no holes: what stands behind a free place must still be found, so places are freed by moving up. */
static void forget(struct comm *c, struct meeting *m) {
    uint64_t hole = m - c->meetings;
    for (uint64_t i = (hole + 1) % MEETINGS; c->meetings[i].number; i = (i + 1) % MEETINGS) {
        uint64_t home = (c->meetings[i].number * 0x9E3779B97F4A7C15ull >> 40) % MEETINGS;
        if ((i - home + MEETINGS) % MEETINGS < (i - hole + MEETINGS) % MEETINGS) continue;
        c->meetings[hole] = c->meetings[i], hole = i;
    }
    c->meetings[hole].number = 0;
}

static int64_t met(struct state *s, const struct item *item) { /* when everybody was there, ns; 0: not yet */
    struct meeting *m = meeting_of(&s->comms[item->where], item->at);
    return m ? m->begun : 0;
}

static void part(struct state *s, const struct item *item) {
    struct comm *c = &s->comms[item->where];
    struct meeting *m = meeting_of(c, item->at);
    if (m && ++m->finished >= item->size) forget(c, m);
}

static int finished(struct state *s, struct view *v) { /* what stands at the head of a stream is over */
    struct item *item = v->item;
    if (!item->start) {
        item->start = s->at;
        if (item->kind == ARRIVE) arrive(s, item);
    }
    if (item->kind == WAIT) return !mark_of(s, item);
    if (item->kind == MEET && !met(s, item)) return s->comms[item->where].aborted >> item->sm & 1;
    if (item->kind == MEET && item->tensor) item->left -= s->at - met(s, item), item->tensor = 0; /* it runs since then */
    if (item->left > 0.5) return 0;
    if (item->kind == MEET) part(s, item);
    if (item->kind != MARK) return 1;
    struct mark *m = &v->proc->marks[item->at % MARKS];
    if (m->number == item->at) m->time = s->at;
    return 1;
}

/* One stream's end may set another one free, wherever it stands in the list: until nothing changes. */
void sim_settle(struct state *s) {
    for (int changed = 1; changed;) {
        changed = 0;
        for (int i = 0; i < s->live_count; i++) {
            struct view v = look(s, i);
            uint64_t before = v.stream->done;
            while (v.stream->done < v.stream->tail && finished(s, &v)) {
                v.item->done = s->at;
                v.item = &v.stream->ring[++v.stream->done % RING];
            }
            if (v.stream->done != before) changed = s->live_count > 1;
            if (v.stream->done < v.stream->tail) continue;
            v.stream->live = 0;
            s->live[i--] = s->live[--s->live_count];
        }
    }
}

void sim_leave(struct state *s, struct device *d, struct proc *p) {
    for (int i = 0; i < s->live_count; i++) {
        if (look(s, i).proc == p) s->live[i--] = s->live[--s->live_count];
    }
    for (int j = 0; j < STREAMS; j++) p->streams[j].done = p->streams[j].tail, p->streams[j].live = 0;
    for (uint64_t i = 0; i < MARKS; i++)
        if (!p->marks[i].time) p->marks[i].time = s->at;
    p->was = p->pid, p->pid = 0, p->left = s->at, p->memory = 0;
    (void)d;
}

void sim_reap(struct state *s, int64_t now) { /* a `now` of INT64_MAX: in any case */
    if (now - s->reaped_at < REAP) return;
    s->reaped_at = now < INT64_MAX ? now : s->at;
    for (int k = 0; k < s->devices; k++) {
        struct device *d = &s->device[k];
        for (int i = 0; i < d->used; i++) {
            struct proc *p = &d->procs[i];
            if (p->pid && !p->ghost && sim_start_time(p->pid) != p->started) sim_leave(s, d, p); /* its work dies with it */
        }
    }
}

void sim_energy(struct device *d, int64_t at) { /* what a busy card draws on top is added while it is busy */
    d->energy += (at - d->energy_at) / 1e6 * d->param[P_power_idle];
    d->energy_at = at;
}

static void end_window(struct device *d, int64_t at) {
    double busy = d->window_busy / WINDOW, seconds = WINDOW / 1e9;
    int util = (int)(100 * busy + 0.5);
    for (int i = 0; i < d->used; i++) {
        struct proc *p = &d->procs[i];
        if (!p->pid) continue;
        if (!p->ghost) p->util = (int)(100 * p->window / WINDOW + 0.5);
        if (p->ghost && p->util > util) util = p->util;
        p->util_at = at;
        p->window = 0;
    }
    d->util = util;
    d->util_mem = (int)(100 * d->window_dram / WINDOW + 0.5);
    d->power = d->param[P_power_idle] + (int)((d->param[P_power_busy] - d->param[P_power_idle]) * busy);
    d->rate_tx = d->window_tx / seconds, d->rate_rx = d->window_rx / seconds;
    d->window_busy = d->window_dram = d->window_tx = d->window_rx = 0;
    sim_energy(d, at);
}

static void end_windows(struct state *s, int64_t now) {
    double busy = 0;
    for (int k = 0; k < s->devices; k++) {
        busy += s->device[k].window_busy + s->device[k].window_rx + s->device[k].window_tx;
        end_window(&s->device[k], s->window_at + WINDOW);
    }
    s->window_at += WINDOW;
    s->quiet = busy > 0 || s->live_count ? 0 : s->quiet + 1;
    if (s->quiet < 2 || now - s->window_at < 2 * WINDOW) return;
    s->window_at += (now - s->window_at) / WINDOW * WINDOW - WINDOW; /* nothing happened: the next one says so too */
    s->at = s->window_at;
}

static double clock_share(const struct device *d) { return (double)d->param[P_clock_sm] / d->param[P_clock_max]; }

/* How fast an item goes on: processes with a kernel at hand share the card equally (time slicing), and a process's own
 * streams share what it gets; copies in one direction share that copy engine; links are not contended. */
static double rate(struct state *s, const struct view *v) {
    switch (v->item->kind) {
    case KERNEL: return clock_share(v->device) / v->device->sharing / v->proc->running;
    case H2D: case D2H: return 1.0 / v->device->copying[v->item->kind == D2H];
    case MEET: return met(s, v->item) > 0;
    default: return 0;
    }
}

static void count(struct state *s, struct view *views) {
    for (int i = 0; i < s->live_count; i++) {
        views[i] = look(s, i);
        views[i].device->sharing = views[i].device->copying[0] = views[i].device->copying[1] = 0;
        views[i].proc->running = views[i].proc->doing = 0;
    }
    for (int i = 0; i < s->live_count; i++) {
        struct view *v = &views[i];
        int kind = v->item->kind;
        if (kind == KERNEL) v->device->sharing += !v->proc->running++, v->proc->doing |= v->item->size ? RUNS : RUNS | WORKS;
        if (kind == H2D || kind == D2H) v->device->copying[kind == D2H]++, v->proc->doing |= kind == H2D ? FEEDS : FETCHES;
        if (kind == MEET) v->proc->doing |= met(s, v->item) ? EXCHANGES : LINGERS;
    }
}

/* What a compute stream without a kernel waits for, through marks of other streams: the kind of item, or -1. */
static int held_by(struct state *s, const struct view *v) {
    const struct item *item = v->item;
    for (int hops = 0; item->kind == WAIT && hops < STREAMS; hops++) {
        struct mark *m = mark_of(s, item);
        if (!m) return -1;
        struct stream *other = &s->device[item->where].procs[item->size].streams[m->stream];
        if (other->done >= other->tail) return -1;
        item = &other->ring[other->done % RING];
    }
    return item->kind;
}

static void book(struct state *s, const struct view *views, double step) {
    for (int i = 0; i < s->live_count; i++) {
        int32_t *doing = &views[i].proc->doing;
        if (!views[i].stream->kernels || *doing & RUNS) continue;
        int kind = held_by(s, &views[i]);
        if (kind == H2D || kind == D2H) *doing |= COPY_SHOWS;
        if (kind == MEET) *doing |= COLLECTIVE_SHOWS;
    }
    for (int i = 0; i < s->live_count; i++) {
        double *b = views[i].proc->booked;
        int doing = views[i].proc->doing;
        views[i].proc->doing = 0; /* once for each process */
        b[B_latest] = s->at + step;
        if (doing & RUNS) b[B_kernel] += step;
        if (doing & RUNS && !(doing & WORKS)) b[B_spun] += step;
        if (doing & FEEDS) b[B_h2d] += step;
        if (doing & FETCHES) b[B_d2h] += step;
        if (doing & LINGERS) b[B_collective_wait] += step;
        if (doing & EXCHANGES) b[B_collective_move] += step;
        if (doing & COLLECTIVE_SHOWS) b[B_exposed_collective] += step;
        else if (doing & COPY_SHOWS) b[B_exposed_copy] += step;
    }
}

static void use_units(const struct view *v, double step) { /* what a kernel keeps busy */
    struct device *d = v->device;
    const struct item *item = v->item;
    double share = step / d->sharing / v->proc->running;
    v->proc->window += share;
    d->sm += share * item->sm / 1000, d->tensor += share * item->tensor / 1000;
    d->dram += share * item->dram / 1000, d->window_dram += share * item->dram / 1000;
}

static void use_link(const struct view *v, double used) {
    struct device *d = v->device;
    struct item *item = v->item;
    double bytes = item->bytes * (used < item->left ? used / item->left : 1.0);
    item->bytes -= bytes;
    *(item->kind == H2D ? &d->rx : &d->tx) += bytes;
    *(item->kind == H2D ? &d->window_rx : &d->window_tx) += bytes;
}

static void be_busy(struct device *d, double step) { /* once for each card */
    if (!d->sharing) return;
    d->busy += step, d->window_busy += step;
    d->energy += step / 1e6 * (d->param[P_power_busy] - d->param[P_power_idle]);
    d->sharing = 0;
}

/* The step to the next thing that happens. */
static void step(struct state *s, int64_t now) {
    static struct view views[DEVICES * PROCS * STREAMS];
    int64_t end = s->window_at + WINDOW < now ? s->window_at + WINDOW : now;
    double ns = end - s->at;
    count(s, views);
    for (int i = 0; i < s->live_count; i++) {
        double speed = rate(s, &views[i]);
        if (speed > 0 && views[i].item->left / speed < ns) ns = views[i].item->left / speed;
    }
    if (ns < 1) ns = 1;
    book(s, views, ns);
    for (int i = 0; i < s->live_count; i++) {
        struct view *v = &views[i];
        double used = ns * rate(s, v);
        if (v->item->kind == KERNEL) use_units(v, ns);
        if (v->item->kind == H2D || v->item->kind == D2H) use_link(v, used);
        v->item->left -= used;
    }
    for (int i = 0; i < s->live_count; i++) {
        if (views[i].item->kind == MEET && !views[i].device->sharing) views[i].device->sharing = 1; /* NCCL's kernel spins */
        if (views[i].item->kind == MEET && !views[i].proc->running) views[i].proc->window += ns;
    }
    for (int i = 0; i < s->live_count; i++) be_busy(views[i].device, ns);
    s->at += llround(ns);
    if (s->at > now) s->at = now;
}

void sim_advance(struct state *s, int64_t now) {
    sim_reap(s, now);
    while (s->at < now) {
        if (s->live_count) step(s, now);
        else s->at = s->window_at + WINDOW < now ? s->window_at + WINDOW : now;
        if (s->live_count) sim_settle(s);
        if (s->at >= s->window_at + WINDOW) end_windows(s, now);
    }
}
