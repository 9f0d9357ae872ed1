/* The simulated CUDA runtime: what its files know of each other. README.md says what it models.
 *
 * Everything that takes time is an item on a stream of the engine (../simgpu/sim.h); everything that is data happens on the
 * host when it is called. `device` is CUDA's ordinal in this process, `card` the number in the shared state.
 */
#ifndef SIMCUDA_H
#define SIMCUDA_H
#define CUDA_ENABLE_DEPRECATED
#include "../simgpu/sim.h"
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
enum { HEAD = 256 << 10 }; /* B of a big copy that are really copied: touching memory costs more than the copy would */

struct options { /* of the environment, read once */
    double scale, kernel_us;                /* of all kernels; every kernel lasts this long, 0: the table says */
    int64_t launch_ns, init_ns;             /* host time of a launch, of the first use of the device */
    int queue, spin, driver, full;          /* items in a launch queue; waits burn a core; version; copy all bytes */
    double link_latency_us, link_rate_gbs;  /* of collectives, negative: as the card's parameters say */
};

struct queue { /* what cudaStream_t points to */
    int device, priority;
    unsigned flags;
    int slot;             /* of the engine, -1: none, which also means that nothing is queued */
    int64_t last;         /* the last item, where it has a slot */
    struct graph *graph;  /* it is being captured into this */
    struct queue *next;
};

struct node { int kind; double ns; int64_t bytes; const char *name; };
struct graph { size_t count, room; struct node *nodes; uint64_t id; struct queue *origin; };

struct range { char *at; size_t size; int type, device; }; /* type: enum cudaMemoryType */

/* runtime.c */
extern struct options opt;
extern __thread int current; /* device of this thread */
int64_t now(void);
void wait_until(int64_t when, int blocking);
cudaError_t fail(cudaError_t error);      /* remembers it for cudaGetLastError */
cudaError_t because(int64_t sim);         /* fail() for a negative answer of the engine */
cudaError_t context(void);                /* makes the current device's context, as the first use does */
int has_context(int device);
int is_forked(void);                      /* nothing can be done with CUDA here, not even let go of what the parent made */
void begin(void);                         /* reads the environment, once */

/* devices.c */
int device_count(void);
int card_of(int device);
struct device *card(int device); /* not locked: for parameters */
int multiprocessors(const struct device *d);

/* streams.c */
struct queue *queue_of(cudaStream_t stream);
cudaError_t put(struct queue *q, struct item *item, const char *name, int64_t *number);
/* What a kernel keeps busy of the card: shares of the multiprocessors, of the tensor cores' time, of the memory's rate. */
struct use {
    double sm, tensor, dram;
};
enum { MULTIPROCESSORS = 132, TILE = 128 }; /* a block of a matrix product is a tile of so many rows and columns */
static inline double filled(double blocks) { return blocks < MULTIPROCESSORS ? 0.95 * blocks / MULTIPROCESSORS : 0.95; }
cudaError_t put_kernel(struct queue *q, double ns, const char *name);
cudaError_t put_busy_kernel(struct queue *q, double ns, const char *name, struct use use);
cudaError_t await(struct queue *q, int64_t number, int blocking);
cudaError_t await_queue(struct queue *q);
cudaError_t await_device(int device);
void end_captures(struct graph *graph);

/* trace.c */
void trace_open(const char *path);
void trace_room(int card, int slot);
void trace_item(const struct queue *q, int64_t number, const struct item *item, const char *name);
void trace_sync(const char *name);
void trace_finish(void);

/* graphs.c */
cudaError_t graph_launch(const struct graph *g, struct queue *q);
void graph_add(struct graph *g, int kind, double ns, int64_t bytes, const char *name);

/* memory.c */
struct range range_of(const void *p);
void remember(void *p, size_t size, int type, int device);

/* kernels.c */
cudaError_t run_kernel(const char *name, uint64_t blocks, uint64_t threads, void **arguments, struct queue *q);

/* costs.c: ns at full clocks */
double kernel_ns(const char *name, uint64_t blocks, uint64_t threads, void **arguments, double *tensor, double *dram);
double matrix_ns(double m, double n, double k, double batch, int type, int tensor_float);
double convolution_ns(double flop, double bytes, int type);
double memory_ns(double bytes);

/* copies.c */
cudaError_t copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream, int async);

/* values.c */
void note_written(const void *p, size_t size);
int is_known(const void *p, size_t size);
void forget(const void *p);
void forget_all(void);
void kernel_values(const char *name, void **arguments);

/* mailbox.c: what ranks give to a collective, in a file that all of them map */
struct mailbox *mailbox_open(uint64_t id, int ranks);
void mailbox_close(struct mailbox *m);
int mailbox_room(const struct mailbox *m, uint64_t number);
void mailbox_give(struct mailbox *m, uint64_t number, int rank, const void *data, size_t size);
int mailbox_full(const struct mailbox *m, uint64_t number);
const void *mailbox_of(const struct mailbox *m, uint64_t number, int rank, size_t *size);
void mailbox_took(struct mailbox *m, uint64_t number, int rank);
int letter_room(const struct mailbox *m, int from, int to, uint64_t number);
void letter_send(struct mailbox *m, int from, int to, uint64_t number, const void *data, size_t size);
const void *letter_of(struct mailbox *m, int from, int to, uint64_t number, size_t *size);
void letter_took(struct mailbox *m, int from, int to, uint64_t number);
enum { SMALL = 64 << 10 }; /* B: data of larger operations is not moved */

/* effects.c: data of collectives, which comes when all ranks have given theirs */
struct effect {
    int (*happen)(struct effect *); /* 0: not yet */
    char *to;
    size_t size;
    const char *from;               /* of a copy behind one that has not happened */
    int owned;                      /* `from` is ours, to be freed */
    void *comm;
    uint64_t number;
    int kind, type, operation, root;
    struct effect *next;
};
void effect_add(struct effect e);
int effects_pending(const void *p, size_t size); /* something has yet to be written there */
void effects_copy(void *to, const void *from, size_t size);
void effects_write(void *to, const void *data, size_t size);
void effects_settle(void);
void effects_wait(const void *p, size_t size);
#endif
