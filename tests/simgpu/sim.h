/* The simulated cards: one file in shared memory that every process maps, and the few calls that change it.
 *
 * Everything that happens on a card follows from this state and the clock: whoever looks first advances it to now, under
 * a POSIX record lock that the kernel drops when its owner dies. No thread, no futex, no server.
 */
#ifndef SIM_H
#define SIM_H
#include <stdint.h>

enum { MAGIC = 0x53494d33, DEVICES = 16, PROCS = 48, STREAMS = 2, RING = 1024, FAULTS = 64, XIDS = 16 };
#define WINDOW 166666667LL /* ns: the period of NVML's utilisation on most products, 1/6 s */

enum kind { MARK, KERNEL, H2D, D2H };

struct item {      /* one thing on a stream */
    double left;   /* ns of device time at full clocks, or of the copy engine */
    int64_t done;  /* when it finished, ns of CLOCK_MONOTONIC */
    int64_t bytes; /* of a copy */
    uint16_t kind, sm, tensor, dram; /* kernels: what they keep busy, per mille */
};

struct stream {
    uint64_t done, tail; /* items finished and items queued, ever */
    struct item ring[RING];
};

struct proc {
    int32_t pid, ghost; /* a ghost is on the card but no process of this machine */
    int64_t started;    /* start time from /proc/PID/stat: a pid may be given to another process */
    int64_t memory;     /* allocated, B */
    double window;      /* ns of SM time in this window */
    int32_t util;       /* per cent of the last whole window */
    int64_t util_at;    /* ns, when it ended */
    struct stream streams[STREAMS];
};

/* What a test may set, by these names. Clocks in MHz, power in mW, temperature in degC, memory in B, rates in B/s. */
#define PARAMS(X)                                                                                                      \
    X(memory_total) X(memory_reserved) X(context) X(clock_sm) X(clock_max) X(clock_mem) X(clock_mem_max) X(throttle)   \
    X(power_idle) X(power_busy) X(power_limit) X(temperature) X(gen) X(gen_max) X(width) X(width_max) X(ecc) X(mig)    \
    X(pid_offset) X(rate_pinned) X(rate_pageable) X(gpm) X(lost) X(fields) X(compute_mode) X(power_default)

enum param {
#define X(name) P_##name,
    PARAMS(X)
#undef X
        PARAM_COUNT
};

struct device {
    int64_t param[PARAM_COUNT];
    char name[64], uuid[64];
    int64_t at;                        /* everything up to here has happened, ns */
    int64_t window_at, reaped_at;
    double busy, window_busy;          /* ns with at least one kernel running: ever, in this window */
    double sm, tensor, dram;           /* ns weighted by what the kernels keep busy */
    double energy;                     /* uJ */
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

struct state {
    int32_t magic, devices;
    int32_t unknown; /* bumped: every process that initialised before gets Unknown Error until it does so again */
    int32_t fault_count;
    int64_t calls;
    struct fault faults[FAULTS];
    struct device device[DEVICES];
};

struct state *sim_state(void);         /* maps SIMGPU_STATE, NULL when there is none */
struct device *sim_lock(int device);   /* the device, advanced to now, and locked */
void sim_unlock(int device);
int64_t sim_now(void);
#endif
