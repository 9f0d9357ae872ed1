/* The file of the simulated cards: made, mapped, locked; and the hand of a test on them. See sim.h. */
#define _GNU_SOURCE
#include "sim.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const param_names[] = {
#define X(name) #name,
    PARAMS(X)
#undef X
};

static struct state *state;
static size_t state_size;
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;
static int self;                        /* our pid, 0: ask; a system call for each item would cost more than the item */
static int64_t born;                    /* when we started, of /proc */
static struct proc *place[DEVICES];     /* ours, where we have been */

static void after_fork(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    mapping = fresh, self = 0;
    memset(place, 0, sizeof place);
}

int64_t sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void sim_sleep_until(int64_t when) {
    struct timespec t = {when / 1000000000LL, when % 1000000000LL};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void defaults(struct device *d, int index, int64_t now) {
    int64_t *p = d->param;
    p[P_memory_total] = 80LL << 30, p[P_memory_reserved] = 512LL << 20, p[P_context] = 512LL << 20;
    p[P_clock_sm] = p[P_clock_max] = 1980, p[P_clock_mem] = p[P_clock_mem_max] = 2619;
    p[P_power_idle] = 70000, p[P_power_busy] = 380000, p[P_power_limit] = p[P_power_default] = 700000;
    p[P_temperature] = 41, p[P_gen] = p[P_gen_max] = 5, p[P_width] = p[P_width_max] = 16;
    p[P_rate_pinned] = 24000000000LL, p[P_rate_pageable] = 6000000000LL;
    p[P_rate_link] = 200000000000LL, p[P_latency_link] = 20000; /* ns: between cards */
    p[P_gpm] = 1, p[P_fields] = 1;
    p[P_slice_sms] = 60, p[P_slice_memory] = 40LL << 30; /* in MIG mode, as 3g.40gb: one slice of a card is modelled */
    snprintf(d->name, sizeof d->name, "Simulated GPU");
    snprintf(d->uuid, sizeof d->uuid, "GPU-51a9a1e0-0000-4000-8000-%012x", index);
    d->energy_at = now;
    d->power = p[P_power_idle];
}

static void make_lock(pthread_mutex_t *lock) { /* the kernel gives it on when its owner dies */
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &how);
}

int sim_create(const char *path, int devices) {
    if (devices < 0 || devices > DEVICES) return SIM_BAD;
    size_t size = sizeof(struct state) + devices * sizeof(struct device); /* sparse: what is not used takes no room */
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return SIM_BAD;
    if (ftruncate(fd, size)) return close(fd), SIM_BAD;
    struct state *s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (s == MAP_FAILED) return SIM_BAD;
    make_lock(&s->lock);
    s->devices = devices;
    s->at = s->window_at = sim_now();
    for (int i = 0; i < devices; i++) defaults(&s->device[i], i, s->at);
    s->magic = MAGIC;
    munmap(s, size);
    return SIM_OK;
}

static struct state *map(const char *path, size_t *size) {
    struct stat info;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    struct state *s = MAP_FAILED;
    if (!fstat(fd, &info) && (size_t)info.st_size >= sizeof(struct state)) {
        *size = info.st_size;
        s = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (s == MAP_FAILED) return NULL;
    if (s->magic == MAGIC && *size == sizeof(struct state) + s->devices * sizeof(struct device)) return s;
    munmap(s, *size);
    return NULL;
}

struct state *sim_state(void) {
    static int watched;
    if (state) return state;
    const char *path = getenv("SIMGPU_STATE");
    if (!path || !*path) return NULL;
    pthread_mutex_lock(&mapping);
    if (!state) state = map(path, &state_size);
    if (state && !watched) watched = 1, pthread_atfork(NULL, NULL, after_fork);
    pthread_mutex_unlock(&mapping);
    return state;
}

int sim_use(const char *path) { /* another state from here on: a test process has many, one after the other */
    pthread_mutex_lock(&mapping);
    if (state) munmap(state, state_size), state = NULL;
    memset(place, 0, sizeof place);
    setenv("SIMGPU_STATE", path, 1);
    pthread_mutex_unlock(&mapping);
    return sim_state() ? SIM_OK : SIM_BAD;
}

int64_t sim_start_time(int pid) {
    char path[64], text[1024], what;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    char *rest = strrchr(text, ')');
    long long started = 0;
    if (!rest || sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
                        &what, &started) != 2)
        return 0;
    return what == 'Z' || what == 'X' ? 0 : started;
}

struct device *sim_lock(int device) {
    if (!sim_state() || device < 0 || device >= state->devices) return NULL;
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD) pthread_mutex_consistent(&state->lock);
    sim_advance(state, sim_now());
    return &state->device[device];
}

void sim_unlock(int device) {
    (void)device;
    pthread_mutex_unlock(&state->lock);
}

static struct proc *free_place(struct device *d) { /* a fresh one, else the one that was left longest ago: it has books */
    if (d->used < PROCS) return &d->procs[d->used++];
    struct proc *best = NULL;
    for (int i = 0; i < PROCS; i++)
        if (!d->procs[i].pid && (!best || d->procs[i].left < best->left)) best = &d->procs[i];
    return best;
}

struct proc *sim_mine(int device) {
    struct device *d = &state->device[device];
    if (!self) self = getpid(), born = sim_start_time(self);
    struct proc *p = place[device];
    if (p && p->pid == self && p->started == born) return p;
    for (int i = 0; i < d->used; i++)
        if (d->procs[i].pid == self && !d->procs[i].ghost) return place[device] = &d->procs[i];
    p = free_place(d);
    if (!p) return NULL;
    p->ghost = p->util = 0, p->memory = 0, p->window = 0;
    memset(p->booked, 0, sizeof p->booked);
    p->booked[B_since] = state->at;
    for (int j = 0; j < STREAMS; j++) p->streams[j].kernels = 0;
    p->started = born, p->pid = self;
    return place[device] = p;
}

int sim_param(const char *name) {
    for (int i = 0; i < PARAM_COUNT; i++)
        if (!strcmp(name, param_names[i])) return i;
    return SIM_BAD;
}

int sim_set(int device, const char *name, int64_t value) {
    int i = sim_param(name);
    struct device *d = i < 0 ? NULL : sim_lock(device);
    if (!d) return SIM_BAD;
    sim_energy(d, state->at);
    d->param[i] = value;
    sim_unlock(device);
    return SIM_OK;
}

int sim_slower(int device, double factor) { /* what NVML says of the link has to agree with what it carries */
    static const enum param shared[] = {P_rate_pinned, P_rate_pageable, P_rate_link, P_width, P_width_max};
    struct device *d = factor <= 0 ? NULL : sim_lock(device);
    if (!d) return SIM_BAD;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        d->param[shared[i]] = d->param[shared[i]] > factor ? d->param[shared[i]] / factor : 1;
    d->param[P_latency_link] *= factor;
    sim_unlock(device);
    return SIM_OK;
}

int sim_name(int device, const char *name) {
    struct device *d = sim_lock(device);
    if (!d) return SIM_BAD;
    snprintf(d->name, sizeof d->name, "%s", name);
    sim_unlock(device);
    return SIM_OK;
}

int sim_ghost(int device, int pid, int64_t memory, int util) { /* somebody we cannot see; pid may be in use here too */
    struct device *d = sim_lock(device);
    if (!d) return SIM_BAD;
    struct proc *seat = NULL;
    for (int i = 0; i < d->used; i++)
        if (d->procs[i].ghost && d->procs[i].pid == pid) seat = &d->procs[i];
    if (!seat) seat = free_place(d);
    if (seat) {
        sim_leave(state, d, seat);
        seat->ghost = 1, seat->memory = memory, seat->util = util, seat->util_at = 0, seat->window = 0;
        seat->pid = memory ? pid : 0;
    }
    sim_unlock(device);
    return seat ? SIM_OK : SIM_BAD;
}

/* `out` gets the books of the process that is, or last was, `pid`, in the order of BOOKS, and then the time up to which
 * they are kept. */
int sim_booked(int device, int pid, double *out) {
    struct device *d = sim_lock(device);
    if (!d) return SIM_BAD;
    struct proc *found = NULL;
    for (int i = 0; i < d->used; i++) {
        struct proc *p = &d->procs[i];
        if (p->pid == pid && !p->ghost) found = p;
        if (!p->pid && p->was == pid && (!found || (!found->pid && found->left < p->left))) found = p;
    }
    if (found) memcpy(out, found->booked, sizeof found->booked), out[BOOK_COUNT] = found->pid ? state->at : found->left;
    sim_unlock(device);
    return found ? SIM_OK : SIM_BAD;
}

int sim_xid(int device, int xid) {
    struct device *d = sim_lock(device);
    if (!d) return SIM_BAD;
    d->xid[d->xids++ % XIDS] = xid;
    sim_unlock(device);
    return SIM_OK;
}

int sim_fault(const char *function, int device, int code, double delay_s, int has_value, int64_t value) {
    struct state *s = sim_state();
    if (!s) return SIM_BAD;
    pthread_mutex_lock(&mapping);
    int n = s->fault_count;
    if (n < FAULTS) {
        struct fault *f = &s->faults[n];
        memset(f, 0, sizeof *f);
        snprintf(f->function, sizeof f->function, "%s", function);
        f->device = device, f->code = code, f->has_value = has_value, f->value = value;
        f->delay = delay_s < 0 ? -1 : (int64_t)(delay_s * 1e9);
        __atomic_store_n(&s->fault_count, n + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&mapping);
    return n < FAULTS ? n : SIM_BAD;
}

void sim_heal(void) {
    if (sim_state()) __atomic_store_n(&state->fault_count, 0, __ATOMIC_RELEASE);
}

int64_t sim_hits(int fault) { return sim_state() ? state->faults[fault].hits : SIM_BAD; }

int64_t sim_calls(void) { return sim_state() ? state->calls : SIM_BAD; }

void sim_unknown(void) {
    if (sim_state()) __atomic_add_fetch(&state->unknown, 1, __ATOMIC_SEQ_CST);
}
