/* The simulated cards: one file in shared memory that every process maps, and the few calls that change it.
 *
 * Everything that happens on a card follows from this state and the clock: whoever looks first lets time pass up to now,
 * for all cards at once, under a robust mutex in the state. No thread, no server.
 */
#ifndef SIM_H
#define SIM_H
#include <pthread.h>
#include <stdint.h>

enum { MAGIC = 0x53494d35, DEVICES = 16, PROCS = 48, STREAMS = 8, RING = 1024, MARKS = 4096, FAULTS = 64, XIDS = 16 };
enum { COMMS = 128, MEETINGS = 512 };
enum { SIM_OK = 0, SIM_BAD = -1, SIM_OOM = -2, SIM_LOST = -3, SIM_FULL = -4 };
#define WINDOW 166666667LL /* ns: the period of NVML's utilisation on most products, 1/6 s */

enum kind { MARK, KERNEL, H2D, D2H, WAIT, ARRIVE, MEET };

struct item {      /* one thing on a stream */
    double left;   /* ns: of device time at full clocks, of the copy engine, of a collective's transfer */
    int64_t start; /* when it came to the head of its stream, ns of CLOCK_MONOTONIC */
    int64_t done;  /* when it finished */
    int64_t bytes; /* of a copy */
    uint64_t at;   /* MARK, WAIT: the number of the mark; ARRIVE, MEET: which meeting of the communicator */
    uint16_t kind, sm, tensor, dram; /* kernels: what they keep busy, per mille; MEET: sm is the rank,
                                      * tensor is set where its time runs since the last one came */
    uint16_t where;                  /* WAIT: the device of the mark; ARRIVE, MEET: the communicator */
    uint16_t size;                   /* WAIT: the place of its process there; ARRIVE, MEET: how many meet;
                                      * KERNEL: set where it does nothing but count cycles */
};

struct stream {
    uint64_t done, tail; /* items finished and items queued, ever */
    uint64_t kernels;    /* kernels queued, ever: without one it is no compute stream */
    int32_t live;        /* it stands in the list of streams that have items */
    struct item ring[RING];
};

struct mark { /* a point on a stream, kept when its item is long gone */
    uint64_t number, item;
    int64_t time; /* when it was reached, 0: not yet */
    int64_t stream;
};

/* How a process's time on a card went, ns. The first five overlap; `kernel` and the two `exposed` do not: what is left
 * of the time since `since` its compute streams had nothing to do. `spun` is the part of `kernel` in which nothing but
 * cycles was counted; `kernels` to `waits` are numbers, the last one of waits that the process asked for;
 * `latest` is when it last had anything to do. */
#define BOOKS(X)                                                                                                       \
    X(since) X(kernel) X(h2d) X(d2h) X(collective_wait) X(collective_move) X(exposed_copy) X(exposed_collective)       \
    X(spun) X(kernels) X(copies) X(collectives) X(waits) X(latest)

enum book {
#define X(name) B_##name,
    BOOKS(X)
#undef X
        BOOK_COUNT
};

struct proc {
    int32_t pid, ghost; /* a ghost is on the card but no process of this machine */
    int32_t was;        /* the last process that had this place */
    int32_t running;    /* streams with a kernel at their head, while time passes */
    int32_t doing;      /* bits of engine.c, while time passes */
    int64_t started;    /* start time from /proc/PID/stat: a pid may be given to another process */
    int64_t left;       /* ns, when it was given up */
    int64_t memory;     /* allocated, B */
    double window;      /* ns of SM time in this window */
    int32_t util;       /* per cent of the last whole window */
    int64_t util_at;    /* ns, when it ended */
    double booked[BOOK_COUNT];
    uint64_t marked; /* marks made, ever */
    struct mark marks[MARKS];
    struct stream streams[STREAMS];
};

/* What a test may set, by these names. Clocks in MHz, power in mW, temperature in degC, memory in B, rates in B/s. */
#define PARAMS(X)                                                                                                      \
    X(memory_total) X(memory_reserved) X(context) X(clock_sm) X(clock_max) X(clock_mem) X(clock_mem_max) X(throttle)   \
    X(power_idle) X(power_busy) X(power_limit) X(temperature) X(gen) X(gen_max) X(width) X(width_max) X(ecc) X(mig)    \
    X(pid_offset) X(rate_pinned) X(rate_pageable) X(gpm) X(lost) X(fields) X(compute_mode) X(power_default)            \
    X(rate_link) X(latency_link) X(slice_sms) X(slice_memory)

enum param {
#define X(name) P_##name,
    PARAMS(X)
#undef X
        PARAM_COUNT
};

struct device {
    int64_t param[PARAM_COUNT];
    char name[64], uuid[64];
    int32_t used;                      /* places in `procs` that were ever taken */
    int32_t sharing, copying[2];       /* while time passes: processes with a kernel, copies in each direction */
    double busy, window_busy;          /* ns with at least one kernel running: ever, in this window */
    double sm, tensor, dram;           /* ns weighted by what the kernels keep busy */
    double energy;                     /* uJ, up to energy_at */
    int64_t energy_at;
    double tx, rx;                     /* B over the link */
    double window_dram, window_tx, window_rx;
    int32_t util, util_mem, power;     /* of the last whole window: per cent, per cent, mW */
    int64_t rate_tx, rate_rx;          /* B/s in the last whole window */
    uint64_t xids;
    int32_t xid[XIDS];
    struct proc procs[PROCS];
};

struct fault { /* what a function answers instead; NULL-named ones are free */
    char function[64];
    int32_t device; /* -1: all */
    int32_t code;   /* returned when not 0 */
    int64_t delay;  /* ns before it answers, -1: for ever */
    int32_t has_value;
    int64_t value;  /* given out with SUCCESS */
    int64_t hits;
};

struct comm { /* a communicator: ranks, on any cards, that meet in collectives */
    uint64_t id;
    int32_t ranks, joined, left;
    uint64_t aborted; /* the ranks that have, by bits: what they wait for is over for them */
    struct meeting {
        uint64_t number; /* which operation of the communicator; 0: free */
        int32_t arrived, finished;
        int64_t begun; /* ns, when the last one came; 0: somebody is missing */
    } meetings[MEETINGS];
};

struct place { uint8_t device, proc, stream; };

struct state {
    int32_t magic, devices;
    int32_t unknown; /* bumped: every process that initialised before gets Unknown Error until it does so again */
    int32_t fault_count;
    int64_t calls;
    pthread_mutex_t lock;
    int64_t at;                   /* everything up to here has happened, ns */
    int64_t window_at, reaped_at; /* when this window began; when we last looked for dead processes */
    int32_t quiet;                /* windows that ended one after the other with nothing on any card */
    int32_t live_count;
    struct place live[DEVICES * PROCS * STREAMS]; /* the streams that have items */
    struct fault faults[FAULTS];
    struct comm comms[COMMS];
    struct device device[];
};

/* state.c */
struct state *sim_state(void);         /* maps SIMGPU_STATE, NULL when there is none */
struct device *sim_lock(int device);   /* the device, advanced to now, and locked: all of them are */
void sim_unlock(int device);
int64_t sim_now(void);
void sim_sleep_until(int64_t when);
int64_t sim_start_time(int pid);       /* 0: not there, or a zombie */
struct proc *sim_mine(int device);     /* this process's place on a locked device, made when it has none */
int sim_param(const char *name);       /* its number, or negative */

/* engine.c: time passes */
void sim_energy(struct device *d, int64_t at); /* add what it drew since it was last added */
void sim_advance(struct state *s, int64_t now);
void sim_settle(struct state *s);      /* take away what is done at the heads of the streams */
void sim_reap(struct state *s, int64_t now); /* take dead processes off the cards */
void sim_leave(struct state *s, struct device *d, struct proc *p);

/* queue.c */
int64_t sim_push(int device, int stream, const struct item *item, int depth);
int64_t sim_reached(int device, uint64_t mark);
int64_t sim_outlook(int device, int stream, int64_t number);
int64_t sim_mark_outlook(int device, uint64_t mark);
int64_t sim_tail(int device, int stream, uint64_t *done);
int sim_fetch(int device, int stream, uint64_t number, struct item *out);
int sim_open(int device);
void sim_close(int device);
int64_t sim_room(const struct device *d); /* B that all processes on it may have: in MIG mode those of its one slice */
void sim_slice(const struct device *d, char *out, int size); /* the UUID of that */
int sim_alloc(int device, int64_t bytes);
void sim_waited(int device);           /* book that this process asked to wait for a card */
int64_t sim_used(int device);

/* comms.c */
int sim_comm_join(uint64_t id, int ranks); /* its number; it may be used when `sim_comm_ready` */
int sim_comm_ready(int comm);
void sim_comm_abort(int comm, int rank);
void sim_comm_leave(int comm);
#endif
