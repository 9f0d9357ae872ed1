/* NCCL: collectives are items on the caller's stream that meet those of the other ranks in the shared state, so that a
 * late rank makes the others wait inside a kernel. Then they take latency + bytes / rate, by the ring algorithms' bytes.
 * Data is moved where the host knows it and it is small (mailbox.c); gradients of kernels are not.
 */
#define _GNU_SOURCE
#include "simcuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { OK, INTERNAL = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, VERSION = 22907, RANKS = 64, GROUPED = 256 };
enum what { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, SEND, RECEIVE };
enum operation { SUM, PROD, MAX, MIN, AVG }; /* ncclRedOp_t; beyond: pre-multiplied sums */
static const char *const names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce",
                                    "ncclSend", "ncclRecv"};

typedef struct { char bytes[128]; } unique_id;
typedef struct comm_handle {
    int index, rank, ranks, device;
    uint64_t id, operations, small, splits;
    uint64_t sent[RANKS], received[RANKS], letters_out[RANKS], letters_in[RANKS]; /* letters: those with data */
    struct mailbox *mail;
} *comm_t;

struct call { comm_t comm; enum what what; const void *from; void *to; size_t count; int type, operation, peer; cudaStream_t stream; };

static __thread struct call group[GROUPED];
static __thread int grouped, depth;

static size_t width(int type) { /* ncclDataType_t: i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16 f8 f8 */
    static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return type >= 0 && type < 12 ? widths[type] : 1;
}

/* ---- what comes of it: the data */

static double get(const char *p, int type) {
    union { int8_t i8; uint8_t u8; int32_t i32; uint32_t u32; int64_t i64; uint64_t u64; float f; double d; } v = {0};
    if (type == 9) return memcpy((char *)&v.f + 2, p, 2), v.f;
    memcpy(&v, p, width(type));
    switch (type) {
    case 0: return v.i8; case 1: return v.u8; case 2: return v.i32; case 3: return v.u32;
    case 4: return v.i64; case 5: return v.u64; case 7: return v.f; case 8: return v.d;
    default: return 0; /* halves: nobody reduces control data in them */
    }
}

static void set(char *p, int type, double value) {
    float f = value;
    int64_t whole = value;
    if (type == 7) memcpy(p, &f, 4);
    else if (type == 8) memcpy(p, &value, 8);
    else if (type == 9) memcpy(p, (char *)&f + 2, 2);
    else if (type == 6) memset(p, 0, 2);
    else memcpy(p, &whole, width(type));
}

static double join(int operation, double a, double b) {
    switch (operation) {
    case PROD: return a * b;
    case MAX: return fmax(a, b);
    case MIN: return fmin(a, b);
    default: return a + b;
    }
}

static void reduce(const struct effect *e, comm_t c, size_t offset) {
    size_t w = width(e->type), size;
    for (size_t at = 0; at < e->size; at += w) {
        double value = get((const char *)mailbox_of(c->mail, e->number, 0, &size) + offset + at, e->type);
        for (int r = 1; r < c->ranks; r++)
            value = join(e->operation, value, get((const char *)mailbox_of(c->mail, e->number, r, &size) + offset + at, e->type));
        set(e->to + at, e->type, e->operation == AVG ? value / c->ranks : value);
    }
}

static int all_known(const struct effect *e, comm_t c) { /* some rank's part may be what a kernel would have made */
    size_t size;
    for (int r = 0; r < c->ranks; r++) {
        mailbox_of(c->mail, e->number, r, &size);
        if (!size && (e->kind != BROADCAST || r == e->root)) return 0;
    }
    return 1;
}

static void give_out(const struct effect *e, comm_t c) {
    size_t size;
    switch (e->kind) {
    case ALL_REDUCE: reduce(e, c, 0); break;
    case REDUCE: if (c->rank == e->root) reduce(e, c, 0); break;
    case REDUCE_SCATTER: reduce(e, c, e->size * c->rank); break;
    case BROADCAST: memcpy(e->to, mailbox_of(c->mail, e->number, e->root, &size), e->size); break;
    default:
        for (int r = 0; r < c->ranks; r++) {
            const void *part = mailbox_of(c->mail, e->number, r, &size);
            memcpy(e->to + e->size / c->ranks * r, part, e->size / c->ranks);
        }
    }
    note_written(e->to, e->size);
}

static int collective_happens(struct effect *e) {
    comm_t c = e->comm;
    if (!mailbox_full(c->mail, e->number)) return 0;
    if (all_known(e, c)) give_out(e, c);
    mailbox_took(c->mail, e->number, c->rank);
    return 1;
}

static int letter_comes(struct effect *e) {
    comm_t c = e->comm;
    size_t size;
    const void *data = letter_of(c->mail, e->root, c->rank, e->number, &size);
    if (!data) return 0;
    if (size) memcpy(e->to, data, size < e->size ? size : e->size), note_written(e->to, size);
    letter_took(c->mail, e->root, c->rank, e->number);
    return 1;
}

static size_t part_size(const struct call *k) { /* what this rank gives */
    size_t bytes = k->count * width(k->type);
    return k->what == REDUCE_SCATTER ? bytes * k->comm->ranks : bytes;
}

static size_t result_size(const struct call *k) {
    size_t bytes = k->count * width(k->type);
    return k->what == ALL_GATHER ? bytes * k->comm->ranks : bytes;
}

static const void *known_part(const struct call *k) { /* NULL: the host does not know it */
    size_t size = part_size(k);
    if (k->what == BROADCAST && k->comm->rank != k->peer) return NULL;
    effects_wait(k->from, size);
    return is_known(k->from, size < 8 ? size : 8) ? k->from : NULL; /* the rest may be room in a buffer that was enlarged */
}

static void exchange_data(const struct call *k) {
    comm_t c = k->comm;
    size_t size = part_size(k);
    int moves = size && size <= SMALL;
    const void *part = moves && k->what != RECEIVE ? known_part(k) : NULL;
    if (k->to && (k->what != BROADCAST || c->rank != k->peer)) forget(k->to);
    if (!moves) return;
    effects_settle();
    if (k->what == SEND) {
        uint64_t number = ++c->letters_out[k->peer];
        while (!letter_room(c->mail, c->rank, k->peer, number)) effects_settle(), sim_sleep_until(now() + 50000);
        letter_send(c->mail, c->rank, k->peer, number, part, size);
        return;
    }
    struct effect e = {.to = k->to, .size = result_size(k), .comm = c, .kind = k->what, .type = k->type,
                       .operation = k->operation, .root = k->peer};
    if (k->what == RECEIVE) {
        e.number = ++c->letters_in[k->peer], e.happen = letter_comes;
    } else {
        e.number = ++c->small, e.happen = collective_happens;
        while (!mailbox_room(c->mail, e.number)) effects_settle(), sim_sleep_until(now() + 50000);
        mailbox_give(c->mail, e.number, c->rank, part, size);
        if (!part && (k->what != BROADCAST || c->rank == k->peer)) e.size = 0; /* nothing will be written */
    }
    effect_add(e);
    effects_settle();
}

/* ---- what it takes: the time */

static double transfer_ns(const struct call *k, int first) {
    const int64_t *param = card(k->comm->device)->param;
    double n = k->comm->ranks, bytes = k->count * width(k->type);
    double latency = opt.link_latency_us >= 0 ? opt.link_latency_us * 1e3 : param[P_latency_link];
    double rate = opt.link_rate_gbs > 0 ? opt.link_rate_gbs : param[P_rate_link] / 1e9;
    double share = k->what == ALL_REDUCE ? 2 * (n - 1) / n : k->what == ALL_GATHER || k->what == REDUCE_SCATTER ? n - 1 : 1;
    return (first ? latency : 0) + bytes * share / rate;
}

static uint64_t meeting_number(const struct call *k) { /* the same for all that meet */
    comm_t c = k->comm;
    uint64_t rank = c->rank, peer = k->peer;
    if (k->what == SEND) return 1ull << 63 | rank << 54 | peer << 46 | ++c->sent[peer];
    if (k->what == RECEIVE) return 1ull << 63 | peer << 54 | rank << 46 | ++c->received[peer];
    return ++c->operations;
}

static cudaError_t put_part(const struct call *k, uint64_t number, int kind, int first) {
    current = k->comm->device;
    cudaError_t error = context();
    if (error) return error;
    struct queue *q = queue_of(k->stream);
    double ns = transfer_ns(k, first);
    if (q->graph) { /* in a graph: its time alone */
        if (kind == MEET) graph_add(q->graph, KERNEL, ns, 0, names[k->what]);
        return cudaSuccess;
    }
    struct item item = {.kind = kind, .at = number, .where = k->comm->index, .sm = k->comm->rank};
    item.size = k->what >= SEND ? 2 : k->comm->ranks;
    if (kind == MEET) item.tensor = first, item.left = (int64_t)ns, item.bytes = k->count * width(k->type);
    return put(q, &item, names[k->what], NULL);
}

/* Everything of a group arrives before any of it waits: sends and receives of a group do not hold each other up. */
static int launch(const struct call *calls, int n) {
    int64_t started = now();
    uint64_t numbers[GROUPED];
    int before = current;
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < n; i++) exchange_data(&calls[i]), numbers[i] = meeting_number(&calls[i]);
    for (int i = 0; i < 2 * n && !error; i++) error = put_part(&calls[i % n], numbers[i % n], i < n ? ARRIVE : MEET, i == n);
    current = before;
    while (now() < started + 2 * opt.launch_ns) __builtin_ia32_pause();
    return error ? INTERNAL : OK;
}

static int call(struct call k) {
    if (!k.comm || k.comm->index < 0 || k.peer < 0 || k.peer >= k.comm->ranks) return INVALID_ARGUMENT;
    if (!depth) return launch(&k, 1);
    if (grouped == GROUPED) return INVALID_USAGE;
    group[grouped++] = k;
    return OK;
}

API int ncclGroupStart(void) { return depth++, OK; }
API int ncclGroupEnd(void) {
    if (!depth) return INVALID_USAGE;
    if (--depth) return OK;
    int n = grouped;
    grouped = 0;
    return n ? launch(group, n) : OK;
}

API int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, comm_t c, cudaStream_t s) {
    return call((struct call){c, ALL_REDUCE, from, to, n, type, op, 0, s});
}
API int ncclAllGather(const void *from, void *to, size_t n, int type, comm_t c, cudaStream_t s) {
    return call((struct call){c, ALL_GATHER, from, to, n, type, 0, 0, s});
}
API int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, comm_t c, cudaStream_t s) {
    return call((struct call){c, REDUCE_SCATTER, from, to, n, type, op, 0, s});
}
API int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, comm_t c, cudaStream_t s) {
    return call((struct call){c, BROADCAST, from, to, n, type, 0, root, s});
}
API int ncclBcast(void *p, size_t n, int type, int root, comm_t c, cudaStream_t s) {
    return ncclBroadcast(p, p, n, type, root, c, s);
}
API int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, comm_t c, cudaStream_t s) {
    return call((struct call){c, REDUCE, from, to, n, type, op, root, s});
}
API int ncclSend(const void *from, size_t n, int type, int peer, comm_t c, cudaStream_t s) {
    return call((struct call){c, SEND, from, NULL, n, type, 0, peer, s});
}
API int ncclRecv(void *to, size_t n, int type, int peer, comm_t c, cudaStream_t s) {
    return call((struct call){c, RECEIVE, NULL, to, n, type, 0, peer, s});
}
API int ncclAlltoAll(const void *from, void *to, size_t n, int type, comm_t c, cudaStream_t s) {
    ncclGroupStart();
    for (int r = 0; r < c->ranks; r++) {
        ncclSend((const char *)from + r * n * width(type), n, type, r, c, s);
        ncclRecv((char *)to + r * n * width(type), n, type, r, c, s);
    }
    return ncclGroupEnd();
}

/* ---- communicators */

static comm_t make(uint64_t id, int ranks, int rank) {
    comm_t c = calloc(1, sizeof *c);
    *c = (struct comm_handle){.rank = rank, .ranks = ranks, .device = current, .id = id};
    c->mail = mailbox_open(id, ranks);
    c->index = c->mail ? sim_comm_join(id, ranks) : SIM_BAD;
    if (c->index >= 0) return c;
    free(c);
    return NULL;
}

static void meet_all(comm_t c) {
    while (!sim_comm_ready(c->index)) sim_sleep_until(now() + 200000);
}

static uint64_t hash(const void *data, size_t n, uint64_t h) { /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
    return h ? h : 1;
}

API int ncclGetUniqueId(unique_id *out) {
    memset(out, 0, sizeof *out);
    return getrandom(out->bytes, 32, 0) == 32 ? OK : INTERNAL;
}
API int ncclCommInitRankConfig(comm_t *out, int ranks, unique_id id, int rank, void *config) {
    (void)config;
    if (ranks < 1 || ranks > RANKS || rank < 0 || rank >= ranks) return INVALID_ARGUMENT;
    if (context()) return INTERNAL;
    *out = make(hash(&id, sizeof id, 0xcbf29ce484222325ull), ranks, rank);
    if (*out && !depth) meet_all(*out); /* in a group one thread makes several of its ranks */
    return *out ? OK : INTERNAL;
}
API int ncclCommInitRank(comm_t *out, int ranks, unique_id id, int rank) {
    return ncclCommInitRankConfig(out, ranks, id, rank, NULL);
}
API int ncclCommInitRankScalable(comm_t *out, int ranks, int rank, int n, unique_id *ids, void *config) {
    return n < 1 ? INVALID_ARGUMENT : ncclCommInitRankConfig(out, ranks, ids[0], rank, config);
}
API int ncclCommInitAll(comm_t *out, int n, const int *devices) {
    unique_id id;
    int result = ncclGetUniqueId(&id), before = current;
    ncclGroupStart();
    for (int i = 0; i < n && !result; i++) {
        cudaSetDevice(devices ? devices[i] : i);
        result = ncclCommInitRank(&out[i], n, id, i);
    }
    ncclGroupEnd();
    cudaSetDevice(before);
    return result;
}

/* Every rank says its colour and key in the mailbox; those of one colour are a new communicator, in the order of their keys. */
API int ncclCommSplit(comm_t c, int colour, int key, comm_t *out, void *config) {
    int mine[2] = {colour, key}, rank = 0, ranks = 0;
    size_t size;
    (void)config;
    uint64_t number = ++c->small, split = ++c->splits;
    while (!mailbox_room(c->mail, number)) effects_settle(), sim_sleep_until(now() + 50000);
    mailbox_give(c->mail, number, c->rank, mine, sizeof mine);
    while (!mailbox_full(c->mail, number)) sim_sleep_until(now() + 50000);
    for (int r = 0; r < c->ranks; r++) {
        const int *theirs = mailbox_of(c->mail, number, r, &size);
        if (theirs[0] != colour) continue;
        ranks++, rank += theirs[1] < key || (theirs[1] == key && r < c->rank);
    }
    effects_settle(); /* in order: what came before is taken first */
    mailbox_took(c->mail, number, c->rank);
    *out = NULL;
    if (colour < 0) return OK; /* NCCL_SPLIT_NOCOLOR */
    uint64_t parts[3] = {c->id, split, (uint64_t)colour};
    int before = current;
    current = c->device;
    *out = make(hash(parts, sizeof parts, 0xcbf29ce484222325ull), ranks, rank);
    current = before;
    if (*out) meet_all(*out);
    return *out ? OK : INTERNAL;
}

static int leave(comm_t c) { /* the handle stays: its effects may still be on the list */
    if (c->index >= 0) sim_comm_leave(c->index);
    return c->index = -1, OK;
}
API int ncclCommFinalize(comm_t c) { return (void)c, OK; }
API int ncclCommDestroy(comm_t c) { return leave(c); }
API int ncclCommAbort(comm_t c) {
    if (c->index >= 0) sim_comm_abort(c->index, c->rank);
    return leave(c);
}
API int ncclCommGetAsyncError(comm_t c, int *out) { return (void)c, *out = OK, OK; }
API int ncclCommCount(comm_t c, int *out) { return *out = c->ranks, OK; }
API int ncclCommUserRank(comm_t c, int *out) { return *out = c->rank, OK; }
API int ncclCommCuDevice(comm_t c, int *out) { return *out = c->device, OK; }
API int ncclGetVersion(int *out) { return *out = VERSION, OK; }
API const char *ncclGetErrorString(int error) {
    static const char *const texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                        "invalid argument", "invalid usage", "remote process exited or there was a network error"};
    return error >= 0 && error < 7 ? texts[error] : "unknown result code";
}
API const char *ncclGetLastError(comm_t c) { return (void)c, ""; }

/* A sum of what was multiplied before counts as a sum: nobody reads its data. */
API int ncclRedOpCreatePreMulSum(int *out, void *factor, int type, int where, comm_t c) {
    return (void)factor, (void)type, (void)where, (void)c, *out = AVG + 1, OK;
}
API int ncclRedOpDestroy(int op, comm_t c) { return (void)op, (void)c, OK; }
API int ncclMemAlloc(void **out, size_t n) { return cudaMalloc(out, n) ? INTERNAL : OK; }
API int ncclMemFree(void *p) { return cudaFree(p) ? INTERNAL : OK; }
API int ncclCommRegister(comm_t c, void *p, size_t n, void **out) { return (void)c, (void)p, (void)n, *out = p, OK; }
API int ncclCommDeregister(comm_t c, void *handle) { return (void)c, (void)handle, OK; }

/* Symmetric memory and one-sided operations are not there. */
#define ABSENT(name) API int name(void) { return INVALID_USAGE; }
ABSENT(ncclCommMemStats) ABSENT(ncclCommResume) ABSENT(ncclCommSuspend) ABSENT(ncclCommShrink) ABSENT(ncclCommWindowRegister)
ABSENT(ncclCommWindowDeregister) ABSENT(ncclDevCommCreate) ABSENT(ncclDevCommDestroy) ABSENT(ncclPutSignal)
ABSENT(ncclSignal) ABSENT(ncclWaitSignal) ABSENT(ncclGetLsaMultimemDevicePointer) ABSENT(ncclGetPeerDevicePointer)
ABSENT(ncclGroupSimulateEnd)
