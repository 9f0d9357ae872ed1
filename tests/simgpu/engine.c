/* How a simulated card works: queues, time slicing, memory, busy time and power. See sim.h. */
#define _GNU_SOURCE
#include "sim.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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

enum { SIM_OK = 0, SIM_BAD = -1, SIM_OOM = -2, SIM_LOST = -3 };
#define REAP 200000000LL /* ns between looks for processes that died without leaving */

static struct state *state;
static int state_fd = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* record locks do not hold threads apart */

static void after_fork(void) { pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER; mutex = fresh; }

int64_t sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(int64_t when) {
    struct timespec t = {when / 1000000000LL, when % 1000000000LL};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void defaults(struct device *d, int index) {
    memset(d, 0, sizeof *d);
    int64_t *p = d->param;
    p[P_memory_total] = 80LL << 30, p[P_memory_reserved] = 512LL << 20, p[P_context] = 512LL << 20;
    p[P_clock_sm] = p[P_clock_max] = 1980, p[P_clock_mem] = p[P_clock_mem_max] = 2619;
    p[P_power_idle] = 70000, p[P_power_busy] = 380000, p[P_power_limit] = p[P_power_default] = 700000;
    p[P_temperature] = 41, p[P_gen] = p[P_gen_max] = 5, p[P_width] = p[P_width_max] = 16;
    p[P_rate_pinned] = 24000000000LL, p[P_rate_pageable] = 6000000000LL;
    p[P_gpm] = 1, p[P_fields] = 1;
    snprintf(d->name, sizeof d->name, "Simulated GPU");
    snprintf(d->uuid, sizeof d->uuid, "GPU-51a9a1e0-0000-4000-8000-%012x", index);
    d->at = d->window_at = sim_now();
    d->power = p[P_power_idle];
}

int sim_create(const char *path, int devices) {
    if (devices < 0 || devices > DEVICES) return SIM_BAD;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return SIM_BAD;
    if (ftruncate(fd, sizeof(struct state))) return close(fd), SIM_BAD;
    struct state *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (s == MAP_FAILED) return SIM_BAD;
    s->devices = devices;
    for (int i = 0; i < devices; i++) defaults(&s->device[i], i);
    s->magic = MAGIC;
    munmap(s, sizeof *s);
    return SIM_OK;
}

struct state *sim_state(void) {
    if (state) return state;
    const char *path = getenv("SIMGPU_STATE");
    struct stat info;
    if (!path || !*path) return NULL;
    pthread_mutex_lock(&mutex);
    if (!state) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0 && !fstat(fd, &info) && info.st_size == sizeof(struct state)) {
            struct state *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (s != MAP_FAILED && s->magic == MAGIC) {
                state = s, state_fd = fd, fd = -1;
                pthread_atfork(NULL, NULL, after_fork);
            } else if (s != MAP_FAILED) {
                munmap(s, sizeof *s);
            }
        }
        if (fd >= 0) close(fd);
    }
    pthread_mutex_unlock(&mutex);
    return state;
}

int sim_use(const char *path) { /* another state from here on: a test process has many, one after the other */
    pthread_mutex_lock(&mutex);
    if (state) munmap(state, sizeof *state), close(state_fd), state = NULL, state_fd = -1;
    setenv("SIMGPU_STATE", path, 1);
    pthread_mutex_unlock(&mutex);
    return sim_state() ? SIM_OK : SIM_BAD;
}

static int64_t start_time(int pid) { /* 0: not there, or a zombie */
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

static void reap(struct device *d, int64_t now) {
    if (now - d->reaped_at < REAP) return;
    d->reaped_at = now;
    for (int i = 0; i < PROCS; i++) {
        struct proc *p = &d->procs[i];
        if (p->pid && !p->ghost && start_time(p->pid) != p->started) p->pid = 0; /* its work dies with it */
    }
}

static void end_window(struct device *d) {
    double busy = d->window_busy / WINDOW, seconds = WINDOW / 1e9;
    int util = (int)(100 * busy + 0.5);
    for (int i = 0; i < PROCS; i++) {
        struct proc *p = &d->procs[i];
        if (!p->pid) continue;
        if (!p->ghost) p->util = (int)(100 * p->window / WINDOW + 0.5);
        if (p->ghost && p->util > util) util = p->util;
        p->util_at = d->window_at + WINDOW;
        p->window = 0;
    }
    d->util = util;
    d->util_mem = (int)(100 * d->window_dram / WINDOW + 0.5);
    d->power = d->param[P_power_idle] + (int)((d->param[P_power_busy] - d->param[P_power_idle]) * busy);
    d->rate_tx = d->window_tx / seconds, d->rate_rx = d->window_rx / seconds;
    d->window_busy = d->window_dram = d->window_tx = d->window_rx = 0;
    d->window_at += WINDOW;
}

static struct item *head(struct stream *s, int64_t at) {
    while (s->done < s->tail) {
        struct item *item = &s->ring[s->done % RING];
        if (item->left > 0.5) return item;
        item->done = at;
        s->done++;
    }
    return NULL;
}

/* Let time pass until `now`: the streams that have a kernel at their head share the card equally (time slicing), and
 * those that have a copy there share the copy engine. */
static void advance(struct device *d, int64_t now) {
    reap(d, now);
    while (d->at < now) {
        struct { struct proc *proc; struct stream *stream; struct item *item; } live[PROCS * STREAMS];
        int n = 0, kernels = 0, copies = 0;
        for (int i = 0; i < PROCS; i++) {
            if (!d->procs[i].pid) continue;
            for (int j = 0; j < STREAMS; j++) {
                struct stream *s = &d->procs[i].streams[j];
                struct item *item = head(s, d->at);
                if (!item) continue;
                live[n].proc = &d->procs[i], live[n].stream = s, live[n++].item = item;
                if (item->kind == KERNEL) kernels++;
                else copies++;
            }
        }
        double speed = (double)d->param[P_clock_sm] / d->param[P_clock_max];
        int64_t end = d->window_at + WINDOW < now ? d->window_at + WINDOW : now;
        double step = end - d->at;
        for (int i = 0; i < n; i++) {
            int kernel = live[i].item->kind == KERNEL;
            double rate = kernel ? speed / kernels : 1.0 / copies;
            if (live[i].item->left / rate < step) step = live[i].item->left / rate;
        }
        if (step < 1) step = 1;
        for (int i = 0; i < n; i++) {
            struct item *item = live[i].item;
            double used = step * (item->kind == KERNEL ? speed / kernels : 1.0 / copies);
            if (item->kind == KERNEL) {
                live[i].proc->window += step / kernels;
                d->sm += step / kernels * item->sm / 1000, d->tensor += step / kernels * item->tensor / 1000;
                d->dram += step / kernels * item->dram / 1000, d->window_dram += step / kernels * item->dram / 1000;
            } else {
                double bytes = item->bytes * (used < item->left ? used / item->left : 1.0);
                item->bytes -= bytes;
                *(item->kind == H2D ? &d->rx : &d->tx) += bytes;
                *(item->kind == H2D ? &d->window_rx : &d->window_tx) += bytes;
            }
            item->left -= used;
        }
        if (kernels) d->busy += step, d->window_busy += step;
        d->energy += step / 1e6 * (kernels ? d->param[P_power_busy] : d->param[P_power_idle]);
        d->at += (int64_t)(step + 0.5);
        if (d->at > now) d->at = now;
        for (int i = 0; i < n; i++) head(live[i].stream, d->at);
        if (d->at >= d->window_at + WINDOW) end_window(d);
    }
}

static void record_lock(int device, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = device, .l_len = 1};
    while (fcntl(state_fd, type == F_UNLCK ? F_SETLK : F_SETLKW, &lock) && errno == EINTR) {}
}

struct device *sim_lock(int device) {
    if (!sim_state() || device < 0 || device >= state->devices) return NULL;
    pthread_mutex_lock(&mutex);
    record_lock(device, F_WRLCK);
    struct device *d = &state->device[device];
    advance(d, sim_now());
    return d;
}

void sim_unlock(int device) {
    record_lock(device, F_UNLCK);
    pthread_mutex_unlock(&mutex);
}

static struct proc *mine(struct device *d) { /* this process's place on the card, made when it has none */
    int pid = getpid();
    for (int i = 0; i < PROCS; i++)
        if (d->procs[i].pid == pid && !d->procs[i].ghost) return &d->procs[i];
    for (int i = 0; i < PROCS; i++) {
        struct proc *p = &d->procs[i];
        if (p->pid) continue;
        memset(p, 0, sizeof *p); /* a 48 KiB page walk, once a process */
        p->started = start_time(pid), p->pid = pid;
        return p;
    }
    return NULL;
}

static int64_t used(const struct device *d) {
    int64_t total = d->param[P_memory_reserved];
    for (int i = 0; i < PROCS; i++)
        if (d->procs[i].pid) total += d->procs[i].memory + (d->procs[i].ghost ? 0 : d->param[P_context]);
    return total;
}

int sim_open(int device) {
    struct device *d = sim_lock(device);
    if (!d) return SIM_BAD;
    int ok = mine(d) ? SIM_OK : SIM_OOM;
    if (d->param[P_lost]) ok = SIM_LOST;
    sim_unlock(device);
    return ok;
}

void sim_close(int device) {
    struct device *d = sim_lock(device);
    if (!d) return;
    for (int i = 0; i < PROCS; i++)
        if (d->procs[i].pid == getpid() && !d->procs[i].ghost) d->procs[i].pid = 0;
    sim_unlock(device);
}

/* Queue one item; returns its number on the stream, or a negative error. Waits while the queue is full, as CUDA does. */
int64_t sim_enqueue(int device, int stream, int kind, double amount, int sm, int tensor, int dram) {
    for (;;) {
        struct device *d = sim_lock(device);
        if (!d || stream < 0 || stream >= STREAMS) return d ? sim_unlock(device), SIM_BAD : SIM_BAD;
        struct proc *p = mine(d);
        if (!p || d->param[P_lost]) return sim_unlock(device), p ? SIM_LOST : SIM_OOM;
        struct stream *s = &p->streams[stream];
        if (s->tail - s->done < RING - 1) {
            struct item *item = &s->ring[s->tail % RING];
            *item = (struct item){.kind = kind, .sm = sm, .tensor = tensor, .dram = dram};
            if (kind == KERNEL) item->left = amount * 1e9; /* seconds */
            else item->bytes = amount;
            if (kind == H2D || kind == D2H) /* `sm` is set for a pinned one */
                item->left = 1e9 * amount / d->param[sm ? P_rate_pinned : P_rate_pageable];
            int64_t number = s->tail++;
            head(s, d->at);
            sim_unlock(device);
            return number;
        }
        sim_unlock(device);
        sleep_until(sim_now() + 200000);
    }
}

static double outlook(const struct device *d, const struct stream *s, uint64_t number) {
    double left = 0, speed = (double)d->param[P_clock_sm] / d->param[P_clock_max];
    for (uint64_t i = s->done; i <= number; i++) {
        const struct item *item = &s->ring[i % RING];
        left += item->kind == KERNEL ? item->left / speed : item->left;
    }
    return left; /* never too long: sharing the card only adds to it */
}

/* When item `number` finished, ns; 0 while it has not. Waits for it if `wait`. Negative: the device is lost. */
int64_t sim_finished(int device, int stream, int64_t number, int wait) {
    for (;;) {
        struct device *d = sim_lock(device);
        struct proc *p = d ? mine(d) : NULL;
        if (!p) return d ? sim_unlock(device), SIM_BAD : SIM_BAD;
        if (d->param[P_lost]) return sim_unlock(device), SIM_LOST;
        struct stream *s = &p->streams[stream];
        if ((uint64_t)number < s->done) {
            int64_t done = s->done - number <= RING ? s->ring[number % RING].done : 1;
            sim_unlock(device);
            return done;
        }
        int64_t wake = d->at + (int64_t)outlook(d, s, number) + 1000;
        sim_unlock(device);
        if (!wait) return 0;
        sleep_until(wake);
    }
}

int sim_synchronize(int device) {
    for (int stream = 0; stream < STREAMS; stream++) {
        struct device *d = sim_lock(device);
        struct proc *p = d ? mine(d) : NULL;
        int64_t last = p ? (int64_t)p->streams[stream].tail - 1 : -1;
        if (d) sim_unlock(device);
        if (!p) return SIM_BAD;
        if (last >= 0 && sim_finished(device, stream, last, 1) < 0) return SIM_LOST;
    }
    return SIM_OK;
}

int sim_alloc(int device, int64_t bytes) { /* negative bytes give back */
    struct device *d = sim_lock(device);
    struct proc *p = d ? mine(d) : NULL;
    int ok = !p ? SIM_BAD : used(d) + bytes > d->param[P_memory_total] ? SIM_OOM : SIM_OK;
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

double sim_busy(int device) { /* s with at least one kernel running, ever */
    struct device *d = sim_lock(device);
    double seconds = d ? d->busy / 1e9 : -1;
    if (d) sim_unlock(device);
    return seconds;
}

int sim_set(int device, const char *name, int64_t value) {
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (strcmp(name, param_names[i])) continue;
        struct device *d = sim_lock(device);
        if (!d) return SIM_BAD;
        d->param[i] = value;
        sim_unlock(device);
        return SIM_OK;
    }
    return SIM_BAD;
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
    struct proc *place = NULL;
    for (int i = PROCS - 1; i >= 0; i--)
        if (!d->procs[i].pid || (d->procs[i].ghost && d->procs[i].pid == pid)) place = &d->procs[i];
    for (int i = 0; i < PROCS; i++)
        if (d->procs[i].ghost && d->procs[i].pid == pid) place = &d->procs[i];
    if (place) {
        memset(place, 0, sizeof *place);
        place->ghost = 1, place->memory = memory, place->util = util, place->pid = memory ? pid : 0;
    }
    sim_unlock(device);
    return place ? SIM_OK : SIM_BAD;
}

int sim_xid(int device, int xid) {
    struct device *d = sim_lock(device);
    if (!d) return SIM_BAD;
    d->xid[d->xids++ % XIDS] = xid;
    sim_unlock(device);
    return SIM_OK;
}

int sim_fault(const char *function, int device, int code, double delay_s, int has_value, int64_t value) {
    if (!sim_state()) return SIM_BAD;
    pthread_mutex_lock(&mutex);
    int n = state->fault_count;
    if (n < FAULTS) {
        struct fault *f = &state->faults[n];
        memset(f, 0, sizeof *f);
        snprintf(f->function, sizeof f->function, "%s", function);
        f->device = device, f->code = code, f->has_value = has_value, f->value = value;
        f->delay = delay_s < 0 ? -1 : (int64_t)(delay_s * 1e9);
        __atomic_store_n(&state->fault_count, n + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&mutex);
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
