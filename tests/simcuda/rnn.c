/* cuDNN's recurrent networks: LSTM, GRU and plain ones, what they cost. */
#define _GNU_SOURCE
#include "simcuda.h"
#include <library_types.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = 0, DOUBLE = 1, BIDIRECTIONAL = 1, LSTM = 2, GRU = 3, FAILED = 5000 };

struct handle { cudaStream_t stream; };
struct network { int cell, directions, type, input, hidden, layers; };
struct data { int type, steps, batch, size; };
struct tensor { int type, ranks, sizes[8], groups; }; /* as in dnn.c */
typedef struct handle *H;
typedef struct network *N;
typedef struct data *D;

API int cudnnCreateRNNDescriptor(N *out) { return *out = calloc(1, sizeof **out), 0; }
API int cudnnDestroyRNNDescriptor(N n) { return free(n), 0; }
API int cudnnCreateRNNDataDescriptor(D *out) { return *out = calloc(1, sizeof **out), 0; }
API int cudnnDestroyRNNDataDescriptor(D d) { return free(d), 0; }

API int cudnnSetRNNDescriptor_v8(N n, int algorithm, int cell, int bias, int direction, int input_mode, int type, int precision,
                                 int math, int input, int hidden, int projection, int layers, void *dropout, unsigned flags) {
    (void)algorithm, (void)bias, (void)input_mode, (void)precision, (void)math, (void)projection, (void)dropout, (void)flags;
    *n = (struct network){cell, direction == BIDIRECTIONAL ? 2 : 1, type, input, hidden, layers};
    return 0;
}
API int cudnnSetRNNDataDescriptor(D d, int type, int layout, int steps, int batch, int size, const int *lengths, void *fill) {
    (void)layout, (void)lengths, (void)fill;
    return *d = (struct data){type, steps, batch, size}, 0;
}

static size_t width(const struct network *n) { return n->type == DOUBLE ? 8 : n->type == FLOAT ? 4 : 2; }
static int gates(const struct network *n) { return n->cell == LSTM ? 4 : n->cell == GRU ? 3 : 1; }
static size_t input_of(const struct network *n, int layer) { return layer < n->directions ? n->input : (size_t)n->hidden * n->directions; }

static size_t layer_weights(const struct network *n, int layer) { /* elements: both matrices and both biases of each gate */
    return gates(n) * n->hidden * (input_of(n, layer) + n->hidden + 2);
}

API int cudnnGetRNNWeightSpaceSize(H h, N n, size_t *out) {
    (void)h;
    *out = 0;
    for (int layer = 0; layer < n->layers * n->directions; layer++) *out += layer_weights(n, layer) * width(n);
    return 0;
}
API int cudnnGetRNNTempSpaceSizes(H h, N n, int mode, D x, size_t *work, size_t *reserve) {
    size_t state = (size_t)x->steps * x->batch * n->hidden * n->directions * n->layers * gates(n) * width(n);
    (void)h;
    if (work) *work = state;
    if (reserve) *reserve = mode ? state : 0;
    return 0;
}

/* Matrices first, layer by layer; then the biases, as cuDNN lays them out and torch relies on. */
API int cudnnGetRNNWeightParams(H h, N n, int layer, size_t size, const void *space, int which, struct tensor *matrix,
                                void **matrix_at, struct tensor *bias, void **bias_at) {
    size_t matrices = 0, biases = 0, hidden = n->hidden, g = gates(n);
    (void)h, (void)size;
    for (int i = 0; i < n->layers * n->directions; i++) matrices += g * hidden * (input_of(n, i) + hidden);
    for (int i = 0; i < layer; i++) biases += 2 * g * hidden;
    size_t at = 0, recurrent = (size_t)which >= g, columns = recurrent ? hidden : input_of(n, layer);
    for (int i = 0; i < layer; i++) at += g * hidden * (input_of(n, i) + hidden);
    at += recurrent ? g * hidden * input_of(n, layer) + (which - g) * hidden * hidden : which * hidden * columns;
    if (matrix) *matrix = (struct tensor){n->type, 3, {1, (int)hidden, (int)columns}, 1};
    if (bias) *bias = (struct tensor){n->type, 3, {1, (int)hidden, 1}, 1};
    if (matrix_at) *matrix_at = (char *)space + at * width(n);
    if (bias_at) *bias_at = (char *)space + (matrices + biases + which * hidden) * width(n);
    return 0;
}

static int run(H h, N n, D x, double passes, const char *name) { /* a matrix product in each step and layer */
    int type = n->type == FLOAT ? CUDA_R_32F : n->type == DOUBLE ? CUDA_R_64F : CUDA_R_16F;
    double ns = 0;
    if (context()) return FAILED;
    for (int layer = 0; layer < n->layers * n->directions; layer++) {
        ns += matrix_ns((double)x->steps * x->batch, gates(n) * n->hidden, input_of(n, layer), 1, type, 1);
        ns += x->steps * matrix_ns(x->batch, gates(n) * n->hidden, n->hidden, 1, type, 1);
    }
    return put_busy_kernel(queue_of(h->stream), passes * ns, name, (struct use){0.9, 0.2, 0.4}) ? FAILED : 0;
}

API int cudnnRNNForward(H h, N n, int mode, const void *lengths, D x) {
    return (void)mode, (void)lengths, run(h, n, x, 1, "rnn");
}
API int cudnnRNNBackwardData_v8(H h, N n, const void *lengths, D y) { return (void)lengths, run(h, n, y, 1, "rnn_backward"); }
API int cudnnRNNBackwardWeights_v8(H h, N n, int add, const void *lengths, D x) {
    return (void)add, (void)lengths, run(h, n, x, 0.5, "rnn_weights");
}
