/* Values on the device that the host can rely on.
 *
 * Kernels compute nothing, but control flow reads scalars: `if torch.isfinite(loss)`, GradScaler's found_inf, sizes in
 * collectives of objects. What the host wrote (copies, fills) is known until a kernel is given its address; comparisons,
 * sums and the like of a few elements are really computed, with 0 for what is not known; all other scalars read as 0.
 */
#define _GNU_SOURCE
#include "simcuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 16, LISTED = 512, FEW = 64, ARGUMENTS = 8, WORDS = 96, REDUCTION = 256, NEAR = 1 << 16 };

static struct { const char *at; uint32_t size, epoch; } known[PLACES]; /* by address; of two that meet, the later is known */

static uint32_t epoch = 1; /* what was noted before is not known any more */

static size_t place(const void *p) { return ((uintptr_t)p >> 2) * 0x9E3779B97F4A7C15ull >> 48; }

/* Elements of short tensors are read one by one, by addresses of their own. */
void note_written(const void *p, size_t size) {
    for (size_t at = 0; at < size && at < LISTED; at += size > 64 ? 8 : 4) {
        size_t i = place((const char *)p + at);
        known[i].at = (const char *)p + at, known[i].epoch = epoch;
        known[i].size = size - at < UINT32_MAX ? size - at : UINT32_MAX;
    }
}

int is_known(const void *p, size_t size) { /* also what was written piece by piece */
    for (size_t at = 0, i; at < size; at += known[i].size) {
        i = place((const char *)p + at);
        if (known[i].at != (const char *)p + at || known[i].epoch != epoch) return 0;
    }
    return 1;
}

void forget(const void *p) {
    size_t i = place(p), size = known[i].at == p ? known[i].size : 0;
    for (size_t at = 0; at < size && at < LISTED; at += 4) {
        i = place((const char *)p + at);
        if (known[i].at == (const char *)p + at) known[i].at = NULL;
    }
}

void forget_all(void) { epoch++; }

/* Whatever address a kernel is given, it may write there. Nobody says how many arguments there are and how long: they lie
 * near each other on the stack of the caller, and too much is forgotten rather than too little. */
static void forget_arguments(void **arguments, int length) {
    for (int i = 0; i < ARGUMENTS; i++) {
        ptrdiff_t off = (char *)arguments[i] - (char *)arguments;
        if (off < -NEAR || off > NEAR || (uintptr_t)arguments[i] % 8) continue;
        const uintptr_t *words = arguments[i];
        for (int j = 0; j < length; j++)
            if (words[j]) forget((const void *)words[j]);
    }
}

/* Types as they are mangled: one letter, or a class of c10. */
static size_t width(const char *type) {
    if (*type == 'N') return 2; /* N3c104HalfE, N3c108BFloat16E */
    return strchr("fij", *type) ? 4 : strchr("dlmxy", *type) ? 8 : strchr("st", *type) ? 2 : 1;
}
static const char *after(const char *type) { return *type == 'N' ? strchr(type, 'E') + 1 : type + 1; }

static double load(const char *p, const char *type) {
    float f;
    double d;
    int64_t whole = 0;
    switch (*type) {
    case 'f': return memcpy(&f, p, 4), f;
    case 'd': return memcpy(&d, p, 8), d;
    case 'N': return strstr(type, "BFloat16") == type + 5 ? (memset(&f, 0, 4), memcpy((char *)&f + 2, p, 2), f) : 0;
    default: memcpy(&whole, p, width(type));
    }
    int shift = 64 - 8 * width(type); /* of a narrow type the sign is its top bit */
    return strchr("ilsax", *type) ? (double)((int64_t)((uint64_t)whole << shift) >> shift) : (double)whole;
}

static void store(char *p, const char *type, double value) {
    float f = value;
    int64_t whole = isfinite(value) ? (int64_t)value : 0;
    switch (*type) {
    case 'f': memcpy(p, &f, 4); break;
    case 'd': memcpy(p, &value, 8); break;
    case 'N': memset(p, 0, 2); if (strstr(type, "BFloat16") == type + 5) memcpy(p, (char *)&f + 2, 2); break;
    case 'b': *p = value != 0; break;
    default: memcpy(p, &whole, width(type));
    }
}

/* What a functor's name means, with the operator that it holds (at::native's EqOpType and OpType). */
static int combine(const char *functor, int operator, double a, double b, double *out) {
    if (strstr(functor, "CompareEqFunctor")) *out = operator ? a != b : a == b;
    else if (strstr(functor, "Abs")) *out = fabs(a);
    else if (strstr(functor, "CompareFunctor") || strstr(functor, "compare_scalar")) *out = operator == 0 ? a >= b : operator == 1 ? a > b : operator == 2 ? a <= b : a < b;
    else if (strstr(functor, "BitwiseAnd")) *out = (int64_t)a & (int64_t)b;
    else if (strstr(functor, "BitwiseOr")) *out = (int64_t)a | (int64_t)b;
    else if (strstr(functor, "MulFunctor")) *out = a * b;
    else return 0;
    return 1;
}

struct elementwise { int inputs, scalar_first; const char *name, *types[3]; }; /* types: of the inputs, then the output's */

static int parse(const char *kernel, struct elementwise *e) {
    static const struct { const char *name; int inputs, first; } forms[] = {
        {"BinaryFunctorI", 2, 0}, {"AUnaryFunctorI", 1, 1}, {"BUnaryFunctorI", 1, 0}};
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(kernel, forms[i].name);
        if (!at) continue;
        *e = (struct elementwise){.inputs = forms[i].inputs, .scalar_first = forms[i].first, .name = at};
        e->types[0] = at + strlen(forms[i].name), e->types[1] = after(e->types[0]), e->types[2] = after(e->types[1]);
        return strchr("fdlijmbhastN", *e->types[2]) != NULL;
    }
    static const struct { const char *name; int inputs; const char *result; } plain[] = {
        {"compare_scalar_kernelI", 1, "b"}, {"CompareFunctorI", 2, "b"}, {"CompareEqFunctorI", 2, "b"}, {"AbsFunctorI", 1, NULL},
        {"CUDAFunctorOnSelf_addI", 1, NULL}, {"CUDAFunctor_addI", 2, NULL}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const char *at = strstr(kernel, plain[i].name);
        if (!at) continue;
        const char *type = at + strlen(plain[i].name);
        *e = (struct elementwise){plain[i].inputs, 0, at, {type, type, plain[i].result ? plain[i].result : type}};
        return strchr("fdlijmbhastN", *type) != NULL;
    }
    return 0;
}

static double element(const char *base, int i, int n, const char *type) {
    size_t w = width(type);
    effects_wait(base, n * w);
    return is_known(base, n * w) ? load(base + i * w, type) : 0;
}

/* at::native's elementwise kernels: (int n, functor, array<char *, 1 + inputs>), the output first. */
static int compute_elements(const char *kernel, void **arguments) {
    struct elementwise e;
    int n = *(int *)arguments[0];
    if (n > FEW || !parse(kernel, &e)) return 0;
    char **data = arguments[2];
    const char *functor = arguments[1];
    int operator = *(int *)functor;
    double results[FEW], scalar = 0;
    int adds = strstr(e.name, "_addI") != NULL; /* its functor: (other and) alpha */
    const char *of_scalar = *e.types[0] == 'N' ? "f" : e.types[0];
    size_t at = width(of_scalar) > 4 ? 8 : 4; /* the scalar stands behind the operator */
    if (e.inputs == 1 && !adds && !strstr(e.name, "Abs")) scalar = load(functor + at, of_scalar);
    for (int i = 0; i < n; i++) {
        double a = element(data[1], i, n, e.types[0]), b = e.inputs == 2 ? element(data[2], i, n, e.types[1]) : scalar;
        if (adds && e.inputs == 2) results[i] = a + b * load(functor, of_scalar);
        else if (adds) results[i] = a + load(functor, of_scalar) * load(functor + width(of_scalar), of_scalar);
        else if (!combine(e.name, operator, e.scalar_first ? b : a, e.scalar_first ? a : b, &results[i])) return 0;
    }
    char out[FEW * 8];
    for (int i = 0; i < n; i++) store(out + i * width(e.types[2]), e.types[2], results[i]);
    effects_write(data[0], out, n * width(e.types[2]));
    note_written(data[0], n * width(e.types[2]));
    return 1;
}

/* FillFunctor<T>: zeros are zeros, whatever their number. */
static int fill(const char *kernel, void **arguments) {
    const char *type = strstr(kernel, "11FillFunctorI");
    if (!type) return 0;
    size_t w = width(type += 14), n = *(int *)arguments[0];
    char *to = *(char **)arguments[2];
    struct range r = range_of(to);
    if (!strchr("fdlijmbhastN", *type) || strstr(type, "complex") == type + 5 || to < r.at || to + n * w > r.at + r.size) return 0;
    if (n * w > HEAD && !opt.full) n = HEAD / w;
    int late = effects_pending(to, n * w);
    char *at = late ? malloc(n * w + 1) : to;
    for (size_t i = 0; i < n; i++) memcpy(at + i * w, arguments[1], w);
    if (late) effects_write(to, at, n * w), free(at);
    note_written(to, n * w);
    return 1;
}

/* ReduceOp<T, …> of a few known elements to one: the struct holds two pointers into the device, from and to. */
static int reduce(const char *kernel, void **arguments) {
    const char *type = strstr(kernel, "ReduceOpI");
    int sums = strstr(kernel, "sum_functor") != NULL;
    if (!type || (!sums && !strstr(kernel, "MaxNanFunctor"))) return 0;
    type += 9;
    const uintptr_t *words = arguments[0];
    const char *from = NULL;
    char *to = NULL;
    for (int i = 0; i + 1 < REDUCTION && !to; i++) { /* next to each other; elsewhere in it there may be anything */
        if (range_of((const void *)words[i]).type != cudaMemoryTypeDevice) continue;
        if (range_of((const void *)words[i + 1]).type != cudaMemoryTypeDevice) continue;
        from = (const char *)words[i], to = (char *)words[i + 1];
    }
    if (!to || !strchr("fdlij", *type)) return 0;
    effects_wait(from, 8);
    size_t w = width(type), n = is_known(from, w) ? known[place(from)].size / w : 0;
    if (!n || n > FEW) return 0;
    double result = load(from, type);
    for (size_t i = 1; i < n; i++) {
        double next = load(from + i * w, type);
        result = sums ? result + next : fmax(result, next);
    }
    char out[8];
    store(out, type, result);
    effects_write(to, out, w);
    note_written(to, w);
    return 1;
}

/* CatArrayBatchedCopy<OpaqueType<W>, unsigned, dimensions, N, …>(to, {from[N], offset[N], length[N], elements[N], …}, …):
 * of a few known elements, one behind the other. */
static int concatenate(const char *kernel, void **arguments) {
    const char *type = strstr(kernel, "OpaqueTypeILj"), *batch = strstr(kernel, "EEEjLi1ELi");
    int w = type ? atoi(type + 13) : 0, n = batch ? atoi(batch + 10) : 0;
    if (!w || !n || n > 512) return 0;
    const char *const *from = arguments[1];
    const uint32_t *offset = (const uint32_t *)(from + n), *elements = offset + 2 * n;
    char *to = *(char **)arguments[0];
    uint32_t total = 0;
    for (int i = 0; i < n && range_of(from[i]).type == cudaMemoryTypeDevice && offset[i] == total && elements[i]; i++) {
        effects_wait(from[i], w);
        if (total + elements[i] > FEW || !is_known(from[i], elements[i] * w)) return 0;
        memcpy(to + total * w, from[i], elements[i] * w);
        total += elements[i];
    }
    if (total) note_written(to, total * w);
    return total > 0;
}

void kernel_values(const char *name, void **arguments) {
    if (strstr(name, "vectorized_elementwise_kernel") || strstr(name, "unrolled_elementwise_kernel")) {
        if (!fill(name, arguments) && !compute_elements(name, arguments)) forget(*(void **)arguments[2]); /* its output */
        return;
    }
    int reduces = strstr(name, "reduce_kernel") != NULL;
    if (reduces && reduce(name, arguments)) return;
    if (strstr(name, "CatArrayBatchedCopy") && concatenate(name, arguments)) return;
    if (!strstr(name, "amp_update_scale")) forget_arguments(arguments, reduces ? REDUCTION : WORDS); /* the scale stays as it is */
}
