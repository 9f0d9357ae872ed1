/* CUDA graphs: a capture notes what would be queued, a launch queues it at the cost of one call. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <stdlib.h>
#include <string.h>

void graph_add(struct graph *g, int kind, double ns, int64_t bytes, const char *name) {
    if (g->count == g->room) g->nodes = realloc(g->nodes, (g->room = g->room * 2 + 64) * sizeof *g->nodes);
    g->nodes[g->count++] = (struct node){kind, ns, bytes, name};
}

/* Kernels that follow each other are one item: the device goes from one to the next by itself. */
cudaError_t graph_launch(const struct graph *g, struct queue *q) {
    int64_t started = now();
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < g->count && !error;) {
        struct item item = {.kind = g->nodes[i].kind, .bytes = g->nodes[i].bytes, .sm = 900, .dram = 600};
        double ns = g->nodes[i++].ns;
        while (item.kind == KERNEL && i < g->count && g->nodes[i].kind == KERNEL) ns += g->nodes[i++].ns;
        item.left = (int64_t)(ns + 0.5);
        error = put(q, &item, "graph", NULL);
    }
    while (now() < started + 2 * opt.launch_ns) __builtin_ia32_pause();
    return error;
}

API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    static uint64_t ids;
    (void)mode;
    struct queue *q = queue_of(stream);
    if (q->graph) return fail(cudaErrorIllegalState);
    struct graph *g = calloc(1, sizeof *g);
    g->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED), g->origin = q;
    q->graph = g;
    return cudaSuccess;
}

API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    struct graph *g = queue_of(stream)->graph;
    if (!g) return fail(cudaErrorIllegalState);
    end_captures(g);
    return *out = (cudaGraph_t)g, cudaSuccess;
}

static enum cudaStreamCaptureStatus status(const struct queue *q) {
    return q->graph ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out) {
    return *out = status(queue_of(stream)), cudaSuccess;
}
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *out, unsigned long long *id,
                                         cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
                                         const cudaGraphEdgeData **edges, size_t *count) {
    const struct queue *q = queue_of(stream);
    *out = status(q);
    if (id) *id = q->graph ? q->graph->id : 0;
    if (graph) *graph = (cudaGraph_t)q->graph;
    if (dependencies) *dependencies = NULL;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    return cudaSuccess;
}
API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges,
                                                    size_t count, unsigned flags) {
    return (void)stream, (void)nodes, (void)edges, (void)count, (void)flags, cudaSuccess;
}
API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    return *mode = cudaStreamCaptureModeGlobal, cudaSuccess;
}

API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return (void)nodes, *count = ((struct graph *)graph)->count, cudaSuccess;
}
API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
    const struct graph *g = (const struct graph *)graph;
    struct graph *copy = malloc(sizeof *copy);
    (void)flags;
    *copy = *g, copy->room = g->count;
    copy->nodes = malloc((g->count + 1) * sizeof *g->nodes);
    if (g->count) memcpy(copy->nodes, g->nodes, g->count * sizeof *g->nodes);
    return *out = (cudaGraphExec_t)copy, cudaSuccess;
}
API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(out, graph, flags);
}
API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    cudaError_t error = context();
    if (error) return error;
    forget_all();
    return graph_launch((struct graph *)exec, queue_of(stream));
}
static cudaError_t destroy(void *graph) { return free(((struct graph *)graph)->nodes), free(graph), cudaSuccess; }
API cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return destroy(exec); }
API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags) {
    return (void)graph, (void)path, (void)flags, cudaSuccess;
}
