/* cuDNN's version 7 interface, to which TORCH_CUDNN_V8_API_DISABLED keeps torch: what it costs. (RNNs: rnn.c) */
#define _GNU_SOURCE
#include "simcuda.h"
#include <library_types.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = 0, DOUBLE = 1, RANKS = 8, VERSION = 92000, FAILED = 5000 }; /* of cudnnDataType_t, cudnnStatus_t */

struct handle { cudaStream_t stream; };
struct descriptor { int type, ranks, sizes[RANKS], groups; }; /* of every kind */
typedef struct handle *H;
typedef struct descriptor *D;

__attribute__((constructor)) static void keep_to_version_7(void) { setenv("TORCH_CUDNN_V8_API_DISABLED", "1", 0); }

static double elements(const struct descriptor *t) {
    double n = 1;
    for (int i = 0; i < t->ranks; i++) n *= t->sizes[i];
    return n;
}
static double bytes(const struct descriptor *t) { return elements(t) * (t->type == DOUBLE ? 8 : t->type == FLOAT ? 4 : 2); }

static int run(H h, double ns, const char *name, double tensor) {
    if (context()) return FAILED;
    return put_busy_kernel(queue_of(h->stream), ns, name, (struct use){0.9, tensor, 0.5}) ? FAILED : 0;
}

static int convolve(H h, D x, D w, D y, const char *name) { /* w: channels out, channels in of a group, height, width */
    double flop = 2 * elements(y);
    for (int i = 1; i < w->ranks; i++) flop *= w->sizes[i];
    int type = x->type == FLOAT ? CUDA_R_32F : x->type == DOUBLE ? CUDA_R_64F : CUDA_R_16F;
    return run(h, convolution_ns(flop, bytes(x) + bytes(w) + bytes(y), type), name, x->type == FLOAT ? 0.3 : 0.6);
}

static int pass(H h, D x, double passes, const char *name) { return run(h, 2000 + memory_ns(passes * bytes(x)), name, 0); }

API size_t cudnnGetVersion(void) { return VERSION; }
API size_t cudnnGetCudartVersion(void) { return 13000; }
API int cudnnGetProperty(int type, int *out) { return *out = type == 0 ? 9 : type == 1 ? 20 : 0, 0; }
API const char *cudnnGetErrorString(int e) { return e ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_SUCCESS"; }
API void cudnnGetLastErrorString(char *out, size_t n) {
    if (n) *out = 0;
}
API int cudnnCreate(H *out) { return *out = calloc(1, sizeof **out), 0; }
API int cudnnDestroy(H h) { return free(h), 0; }
API int cudnnSetStream(H h, cudaStream_t stream) { return h->stream = stream, 0; }
API int cudnnGetStream(H h, cudaStream_t *out) { return *out = h->stream, 0; }

static int create(D *out) { return *out = calloc(1, sizeof **out), (*out)->groups = 1, 0; }
#define DESCRIPTOR(name)                                                                                               \
    API int cudnnCreate##name##Descriptor(D *out) { return create(out); }                                              \
    API int cudnnDestroy##name##Descriptor(D d) { return free(d), 0; }
DESCRIPTOR(Tensor) DESCRIPTOR(Filter) DESCRIPTOR(Convolution) DESCRIPTOR(Activation) DESCRIPTOR(Dropout) DESCRIPTOR(Pooling)

static int shape(D d, int type, int ranks, const int *sizes) {
    d->type = type, d->ranks = ranks < RANKS ? ranks : RANKS;
    return memcpy(d->sizes, sizes, d->ranks * sizeof *sizes), 0;
}
API int cudnnSetTensorNdDescriptor(D d, int type, int ranks, const int *sizes, const int *strides) {
    return (void)strides, shape(d, type, ranks, sizes);
}
API int cudnnGetTensorNdDescriptor(D d, int wanted, int *type, int *ranks, int *sizes, int *strides) {
    (void)wanted, (void)strides;
    return *type = d->type, *ranks = d->ranks, memcpy(sizes, d->sizes, d->ranks * sizeof *sizes), 0;
}
API int cudnnGetFilterNdDescriptor(D d, int wanted, int *type, int *format, int *ranks, int *sizes) {
    *format = 0;
    return cudnnGetTensorNdDescriptor(d, wanted, type, ranks, sizes, NULL);
}
API int cudnnSetFilterNdDescriptor(D d, int type, int format, int ranks, const int *sizes) {
    return (void)format, shape(d, type, ranks, sizes);
}
API int cudnnSetConvolutionNdDescriptor(D d, int ranks, const int *pad, const int *step, const int *dilation, int mode, int type) {
    return (void)pad, (void)step, (void)dilation, (void)mode, (void)type, d->ranks = ranks, 0;
}
API int cudnnSetConvolutionGroupCount(D d, int groups) { return d->groups = groups, 0; }
API int cudnnSetConvolutionMathType(D d, int type) { return (void)d, (void)type, 0; }
API int cudnnSetActivationDescriptor(D d, int mode, int nan, double limit) { return (void)d, (void)mode, (void)nan, (void)limit, 0; }
API int cudnnSetPooling2dDescriptor(D d, int m, int nan, int h, int w, int ph, int pw, int sh, int sw) {
    return (void)d, (void)m, (void)nan, (void)h, (void)w, (void)ph, (void)pw, (void)sh, (void)sw, 0;
}
API int cudnnDropoutGetStatesSize(H h, size_t *out) { return (void)h, *out = 1024, 0; }
API int cudnnSetDropoutDescriptor(D d, H h, float p, void *states, size_t n, unsigned long long seed) {
    return (void)d, (void)h, (void)p, (void)states, (void)n, (void)seed, 0;
}
API int cudnnRestoreDropoutDescriptor(D d, H h, float p, void *states, size_t n, unsigned long long seed) {
    return cudnnSetDropoutDescriptor(d, h, p, states, n, seed);
}

/* There is one algorithm for each direction. */
struct algorithm { int number, status; float ms; size_t memory; int determinism, math, reserved[3]; };
static int only_one(int *got, struct algorithm *out) {
    *out = (struct algorithm){.number = 1, .ms = 1, .determinism = 1};
    return *got = 1, 0;
}
#define ALGORITHMS(direction)                                                                                          \
    API int cudnnGetConvolution##direction##Algorithm_v7(H h, D a, D b, D c, D d, int n, int *got, struct algorithm *out) {  \
        return (void)h, (void)a, (void)b, (void)c, (void)d, (void)n, only_one(got, out);                               \
    }                                                                                                                  \
    API int cudnnFindConvolution##direction##AlgorithmEx(H h, D a, void *x, D b, void *y, D c, D d, void *z, int n,    \
                                                         int *got, struct algorithm *out) {                            \
        return (void)h, (void)a, (void)x, (void)b, (void)y, (void)c, (void)d, (void)z, (void)n, only_one(got, out);    \
    }                                                                                                                  \
    API int cudnnGetConvolution##direction##WorkspaceSize(H h, D a, D b, D c, D d, int algorithm, size_t *out) {       \
        return (void)h, (void)a, (void)b, (void)c, (void)d, (void)algorithm, *out = 1 << 20, 0;                        \
    }
ALGORITHMS(Forward) ALGORITHMS(BackwardData) ALGORITHMS(BackwardFilter)

API int cudnnConvolutionForward(H h, void *alpha, D xd, void *x, D wd, void *w, D c, int algorithm, void *space, size_t n,
                                void *beta, D yd) {
    (void)alpha, (void)x, (void)w, (void)c, (void)algorithm, (void)space, (void)n, (void)beta;
    return convolve(h, xd, wd, yd, "convolution");
}
API int cudnnConvolutionBackwardData(H h, void *alpha, D wd, void *w, D yd, void *y, D c, int algorithm, void *space,
                                     size_t n, void *beta, D xd) {
    (void)alpha, (void)w, (void)y, (void)c, (void)algorithm, (void)space, (void)n, (void)beta;
    return convolve(h, xd, wd, yd, "convolution_data");
}
API int cudnnConvolutionBackwardFilter(H h, void *alpha, D xd, void *x, D yd, void *y, D c, int algorithm, void *space,
                                       size_t n, void *beta, D wd) {
    (void)alpha, (void)x, (void)y, (void)c, (void)algorithm, (void)space, (void)n, (void)beta;
    return convolve(h, xd, wd, yd, "convolution_filter");
}
API int cudnnConvolutionBiasActivationForward(H h, void *alpha, D xd, void *x, D wd, void *w, D c, int algorithm, void *space,
                                              size_t n, void *beta, D zd, void *z, D bd, void *b, D ad, D yd) {
    (void)alpha, (void)x, (void)w, (void)c, (void)algorithm, (void)space, (void)n, (void)beta, (void)zd, (void)z, (void)bd;
    return (void)b, (void)ad, convolve(h, xd, wd, yd, "convolution");
}

#define NO_SPACE(name, ...)                                                                                            \
    _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"")                                                         \
    API int name(__VA_ARGS__, size_t *out) { return *out = 0, 0; }
NO_SPACE(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, H h, int m, int o, D x, D z, D y, D s, D a)
NO_SPACE(cudnnGetBatchNormalizationBackwardExWorkspaceSize, H h, int m, int o, D x, D y, D dy, D dz, D dx, D s, D a)
NO_SPACE(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, H h, int m, int o, D a, D x)
API int cudnnBatchNormalizationForwardTrainingEx(H h, int m, int o, void *alpha, void *beta, D x) {
    return (void)m, (void)o, (void)alpha, (void)beta, pass(h, x, 3, "batch_norm");
}
API int cudnnBatchNormalizationForwardInference(H h, int m, void *alpha, void *beta, D x) {
    return (void)m, (void)alpha, (void)beta, pass(h, x, 2, "batch_norm");
}
API int cudnnBatchNormalizationBackwardEx(H h, int m, int o, void *a, void *b, void *c, void *d, D x) {
    return (void)m, (void)o, (void)a, (void)b, (void)c, (void)d, pass(h, x, 5, "batch_norm_backward");
}
API int cudnnPoolingForward(H h, D p, void *alpha, D x) { return (void)p, (void)alpha, pass(h, x, 2, "pooling"); }
