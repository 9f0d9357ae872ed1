/* What kernels cost, in ns at full clocks: by their names and sizes, with the rates of a card of the H100's class.
 *
 * These are orders of magnitude that behave as kernels do (a fixed part, bytes, FLOP), not measurements.
 */
#define _GNU_SOURCE
#include "simcuda.h"
#include <library_types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAM 3000.0    /* B/ns */
#define KERNEL_NS 1500.0
#define GEMM_NS 3000.0

double memory_ns(double bytes) { return bytes / DRAM; }

struct row {
    const char *in_name;
    double fixed_ns, bytes_of_thread, ns_of_block; /* block: for those whose work does not go by threads */
};
static const struct row table[] = { /* the first that fits */
    {"multi_tensor_apply", 1500, 0, 350},         /* chunks of 64 Ki elements */
    {"FillFunctor", 1500, 16, 0},                 /* four elements a thread, written only */
    {"EmbeddingBag", 2000, 128, 0},
    {"embedding_backward", 3000, 128, 0},
    {"embedding", 2000, 64, 0},
    {"indexSelect", 2000, 32, 0}, {"index_elementwise", 2000, 48, 0}, {"indexing_backward", 4000, 128, 0},
    {"scatter_gather", 2000, 48, 0},
    {"layer_norm_grad", 2500, 96, 0}, {"layer_norm", 2000, 64, 0}, {"LayerNorm", 2000, 64, 0}, {"GammaBeta", 3000, 64, 0},
    {"RowwiseMoments", 2000, 64, 0},
    {"batch_norm", 2500, 64, 0},
    {"SoftMax", 2000, 64, 0}, {"softmax", 2000, 64, 0},
    {"nll_loss", 2500, 8, 0}, {"reduce_kernel", 2500, 64, 0}, {"distribution", 2000, 16, 0}, {"dropout", 1800, 48, 0},
    {"RadixSort", 6000, 64, 0}, {"DeviceScan", 3000, 64, 0}, {"DeviceReduce", 3000, 64, 0}, {"sort", 6000, 64, 0},
    {"topk", 6000, 64, 0}, {"upsample", 2000, 48, 0}, {"max_pool", 2000, 64, 0}, {"avg_pool", 2000, 64, 0},
    {"conv_depthwise", 3000, 128, 0}, {"col2im", 2000, 64, 0}, {"im2col", 2000, 64, 0},
    {"CatArrayBatchedCopy", 1800, 64, 0}, {"elementwise", 1500, 48, 0},
};

/* Attention: blocks of rows of queries, each against all keys, of which nobody tells the number: 512 are taken. A block of
 * flash's has the sizes that its name says, …traitsILi<head>ELi<rows>E…; others 64 of each. */
static double attention_ns(const char *name, uint64_t blocks, uint64_t threads, double *tensor) {
    int head = 64, rows = 64;
    const char *traits = strstr(name, "traitsILi");
    if (traits) sscanf(traits, "traitsILi%dELi%dE", &head, &rows);
    double keys = 512; /* what a block walks over, when nothing is said */
    double flop = 4.0 * blocks * rows * keys * head * (strstr(name, "bwd") || strstr(name, "backward") ? 2.5 : 1);
    (void)threads;
    *tensor = 0.5;
    return GEMM_NS + flop / 400e3;
}

/* at::cuda::spin_kernel(int64_t cycles), of torch.cuda._sleep */
static double spin_ns(void **arguments) { /* as long on however few multiprocessors */
    const struct device *d = card(current);
    return *(int64_t *)arguments[0] * 1e3 / d->param[P_clock_max] * multiprocessors(d) / MULTIPROCESSORS;
}

double kernel_ns(const char *name, uint64_t blocks, uint64_t threads, void **arguments, double *tensor, double *dram) {
    if (strstr(name, "spin_kernel")) return *dram = 0, spin_ns(arguments);
    if (strstr(name, "flash_") || strstr(name, "fmha_")) return attention_ns(name, blocks, threads, tensor);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *r = &table[i];
        if (strstr(name, r->in_name))
            return r->fixed_ns + memory_ns(threads * r->bytes_of_thread) + blocks * r->ns_of_block;
    }
    return KERNEL_NS + memory_ns(threads * 48.0);
}

static double rate_of(int type, int tensor_float) { /* FLOP/ns, dense, as good libraries reach it */
    switch (type) {
    case CUDA_R_64F: case CUDA_C_64F: return 50e3;
    case CUDA_R_16F: case CUDA_R_16BF: return 700e3;
    case CUDA_R_8F_E4M3: case CUDA_R_8F_E5M2: return 1200e3;
    default: return tensor_float ? 350e3 : 50e3;
    }
}

static double width_of(int type) {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : type >= CUDA_R_8F_E4M3 ? 1 : 4;
}

double matrix_ns(double m, double n, double k, double batch, int type, int tensor_float) {
    double compute = 2 * m * n * k * batch / rate_of(type, tensor_float);
    double memory = memory_ns((m * k + k * n + m * n) * batch * width_of(type));
    return GEMM_NS + (compute > memory ? compute : memory);
}

double convolution_ns(double flop, double bytes, int type) { /* lower rates: they are seldom as square */
    double compute = flop / (rate_of(type, 1) * (type == CUDA_R_32F ? 0.43 : 0.7)), memory = memory_ns(bytes);
    return GEMM_NS + (compute > memory ? compute : memory);
}
