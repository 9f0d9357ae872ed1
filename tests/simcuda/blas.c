/* cuBLAS and cuBLASLt: what they cost. Arguments behind the sizes are left out where nothing is made of them. */
#include <math.h>
#include "simcuda.h"
#include <library_types.h>
#include <stdlib.h>
#include <string.h>

enum { TF32_MATH = 3, FAST_TF32 = 77, VERSION = 130101 }; /* of cublasMath_t, cublasComputeType_t */

struct handle { cudaStream_t stream; int math, pointers; };

static int gemm(struct handle *h, double m, double n, double k, double batch, int type, int compute) {
    cudaError_t error = context();
    if (error || m * n * batch <= 0) return error ? 13 : 0; /* CUBLAS_STATUS_EXECUTION_FAILED */
    int rounded = compute == FAST_TF32 || h->math == TF32_MATH;
    double ns = matrix_ns(m, n, k, batch, type, rounded), tiles = ceil(m / TILE) * ceil(n / TILE) * batch;
    struct use use = {filled(tiles), type == CUDA_R_32F ? 0.5 * rounded : type == CUDA_R_64F ? 0 : 0.7, 0.4};
    return put_busy_kernel(queue_of(h->stream), ns, "gemm", use) ? 13 : 0;
}

API int cublasCreate_v2(struct handle **out) { return *out = calloc(1, sizeof **out), 0; }
API int cublasDestroy_v2(struct handle *h) { return free(h), 0; }
API int cublasSetStream_v2(struct handle *h, cudaStream_t stream) { return h->stream = stream, 0; }
API int cublasGetStream_v2(struct handle *h, cudaStream_t *out) { return *out = h->stream, 0; }
API int cublasSetWorkspace_v2(struct handle *h, void *p, size_t n) { return (void)h, (void)p, (void)n, 0; }
API int cublasSetMathMode(struct handle *h, int mode) { return h->math = mode, 0; }
API int cublasGetMathMode(struct handle *h, int *out) { return *out = h->math, 0; }
API int cublasSetPointerMode_v2(struct handle *h, int mode) { return h->pointers = mode, 0; }
API int cublasGetPointerMode_v2(struct handle *h, int *out) { return *out = h->pointers, 0; }
API int cublasSetSmCountTarget(struct handle *h, int n) { return (void)h, (void)n, 0; }
API int cublasGetProperty(int type, int *out) { return *out = type ? 0 : VERSION / 10000, 0; }
API int cublasGetVersion_v2(struct handle *h, int *out) { return (void)h, *out = VERSION, 0; }

typedef struct handle *H;
typedef const void *P;
typedef long long L;
API int cublasSgemm_v2(H h, int ta, int tb, int m, int n, int k) {
    return (void)ta, (void)tb, gemm(h, m, n, k, 1, CUDA_R_32F, 0);
}
API int cublasDgemm_v2(H h, int ta, int tb, int m, int n, int k) {
    return (void)ta, (void)tb, gemm(h, m, n, k, 1, CUDA_R_64F, 0);
}
API int cublasGemmEx(H h, int ta, int tb, int m, int n, int k, P alpha, P a, int type, int lda, P b, int b_type, int ldb,
                     P beta, void *c, int c_type, int ldc, int compute) {
    (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)b, (void)b_type, (void)ldb, (void)beta, (void)c, (void)c_type;
    return (void)ldc, gemm(h, m, n, k, 1, type, compute);
}
API int cublasSgemmEx(H h, int ta, int tb, int m, int n, int k, P alpha, P a, int type) {
    return (void)ta, (void)tb, (void)alpha, (void)a, gemm(h, m, n, k, 1, type, 0);
}
static int strided(H h, int m, int n, int k, int batch, int type) { return gemm(h, m, n, k, batch, type, 0); }
API int cublasSgemmStridedBatched(H h, int ta, int tb, int m, int n, int k, P alpha, P a, int lda, L sa, P b, int ldb, L sb,
                                  P beta, void *c, int ldc, L sc, int batch) {
    (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)sa, (void)b, (void)ldb, (void)sb, (void)beta, (void)c, (void)ldc;
    return (void)sc, strided(h, m, n, k, batch, CUDA_R_32F);
}
API int cublasDgemmStridedBatched(H h, int ta, int tb, int m, int n, int k, P alpha, P a, int lda, L sa, P b, int ldb, L sb,
                                  P beta, void *c, int ldc, L sc, int batch) {
    (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)sa, (void)b, (void)ldb, (void)sb, (void)beta, (void)c, (void)ldc;
    return (void)sc, strided(h, m, n, k, batch, CUDA_R_64F);
}
API int cublasGemmStridedBatchedEx(H h, int ta, int tb, int m, int n, int k, P alpha, P a, int type, int lda, L sa, P b,
                                   int b_type, int ldb, L sb, P beta, void *c, int c_type, int ldc, L sc, int batch,
                                   int compute) {
    (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)sa, (void)b, (void)b_type, (void)ldb, (void)sb, (void)beta;
    return (void)c, (void)c_type, (void)ldc, (void)sc, gemm(h, m, n, k, batch, type, compute);
}
API int cublasSgemv_v2(H h, int t, int m, int n) { return (void)t, gemm(h, m, 1, n, 1, CUDA_R_32F, 0); }
API int cublasDgemv_v2(H h, int t, int m, int n) { return (void)t, gemm(h, m, 1, n, 1, CUDA_R_64F, 0); }
API int cublasSdot_v2(H h, int n) { return gemm(h, 1, 1, n, 1, CUDA_R_32F, 0); }
API int cublasDdot_v2(H h, int n) { return gemm(h, 1, 1, n, 1, CUDA_R_64F, 0); }
API int cublasDotEx(H h, int n) { return gemm(h, 1, 1, n, 1, CUDA_R_32F, 0); }
API int cublasStrsm_v2(H h, int s, int u, int t, int d, int m, int n) {
    return (void)s, (void)u, (void)t, (void)d, gemm(h, m, n, m, 0.5, CUDA_R_32F, 0);
}

/* Lt: descriptors are ours, opaque to torch. Numbers of attributes are those of cublasLt.h. */
enum { LAYOUT_BATCH = 5, TRANSPOSE_A = 3 };
struct layout { int type, batch; uint64_t rows, columns; };
struct description { int compute, transposed; };

API size_t cublasLtGetVersion(void) { return VERSION; }
API int cublasLtCreate(struct handle **out) { return cublasCreate_v2(out); }
API int cublasLtDestroy(struct handle *h) { return cublasDestroy_v2(h); }
API int cublasLtMatrixLayoutCreate(struct layout **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    (void)ld;
    *out = malloc(sizeof **out);
    return **out = (struct layout){type, 1, rows, columns}, 0;
}
API int cublasLtMatrixLayoutDestroy(struct layout *l) { return free(l), 0; }
API int cublasLtMatrixLayoutSetAttribute(struct layout *l, int attribute, const void *value, size_t n) {
    (void)n;
    if (attribute == LAYOUT_BATCH) l->batch = *(const int *)value;
    return 0;
}
API int cublasLtMatmulDescCreate(struct description **out, int compute, int scale) {
    (void)scale;
    *out = malloc(sizeof **out);
    return **out = (struct description){compute, 0}, 0;
}
API int cublasLtMatmulDescDestroy(struct description *d) { return free(d), 0; }
API int cublasLtMatmulDescSetAttribute(struct description *d, int attribute, const void *value, size_t n) {
    (void)n;
    if (attribute == TRANSPOSE_A) d->transposed = *(const int *)value;
    return 0;
}
API int cublasLtMatmulPreferenceCreate(void **out) { return *out = malloc(8), 0; }
API int cublasLtMatmulPreferenceDestroy(void *p) { return free(p), 0; }
API int cublasLtMatmulPreferenceSetAttribute(void *p, int a, const void *v, size_t n) {
    return (void)p, (void)a, (void)v, (void)n, 0;
}

struct heuristic { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };
API int cublasLtMatmulAlgoGetHeuristic(H h, struct description *d, struct layout *a, struct layout *b, struct layout *c,
                                       struct layout *o, void *p, int wanted, struct heuristic *out, int *got) {
    (void)h, (void)d, (void)a, (void)b, (void)c, (void)o, (void)p, (void)wanted;
    memset(out, 0, sizeof *out);
    return out->waves = 1, *got = 1, 0; /* torch fails where there is none */
}
API int cublasLtMatmul(H h, struct description *d, P alpha, P a, struct layout *la, P b, struct layout *lb, P beta, P c,
                       struct layout *lc, void *o, struct layout *lo, P algorithm, void *workspace, size_t n,
                       cudaStream_t stream) {
    struct handle on = *h;
    (void)alpha, (void)a, (void)b, (void)lb, (void)beta, (void)c, (void)lc, (void)o, (void)algorithm, (void)workspace, (void)n;
    on.stream = stream;
    return gemm(&on, lo->rows, lo->columns, d->transposed ? la->rows : la->columns, la->batch, la->type, d->compute);
}
