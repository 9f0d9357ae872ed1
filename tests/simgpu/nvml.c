/* The face of the simulated cards: the NVML calls that the real pynvml makes, answered from the state in sim.h.
 *
 * Struct layouts and units are those of nvml.h (see nvidia-ml-py's pynvml.py). Every call first asks the list of faults
 * whether it shall be slow, fail, hang, or answer something else.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, UNKNOWN = 999
};
typedef int nvmlReturn;
typedef unsigned long long u64;
struct handle { int index, mig; };

static struct handle handles[DEVICES] = {{0}}, instances[DEVICES];
static int refcount, born; /* born: the generation of Unknown Error at initialisation */

static void pause_ns(int64_t ns) {
    if (ns < 0) for (;;) pause();
    struct timespec t = {ns / 1000000000LL, ns % 1000000000LL};
    nanosleep(&t, NULL);
}

/* What the list of faults says on this call: its return code, and a value to give out where `value` is not NULL. */
static nvmlReturn fault(const char *function, int device, int64_t *value) {
    struct state *s = sim_state();
    if (!s) return DRIVER_NOT_LOADED;
    __atomic_add_fetch(&s->calls, 1, __ATOMIC_RELAXED);
    int n = __atomic_load_n(&s->fault_count, __ATOMIC_ACQUIRE);
    nvmlReturn code = SUCCESS;
    for (int i = 0; i < n; i++) {
        struct fault *f = &s->faults[i];
        if ((f->device >= 0 && f->device != device) || (strcmp(f->function, "*") && strcmp(f->function, function))) continue;
        __atomic_add_fetch(&f->hits, 1, __ATOMIC_RELAXED);
        if (f->delay) pause_ns(f->delay);
        if (f->code) code = f->code;
        if (f->has_value && value) *value = f->value;
    }
    return code;
}

/* `d` locked, or return why not. MIG instances answer for their parent, but for their name and memory. */
#define ENTER_VALUE(h, value)                                                                                          \
    struct handle *handle = (h);                                                                                       \
    if (!refcount) return UNINITIALIZED;                                                                               \
    if (!handle) return INVALID_ARGUMENT;                                                                              \
    if (sim_state() && sim_state()->unknown > born) return UNKNOWN;                                                    \
    nvmlReturn wrong = fault(__func__, handle->index, value);                                                          \
    if (wrong) return wrong;                                                                                           \
    struct device *d = sim_lock(handle->index);                                                                        \
    if (!d) return INVALID_ARGUMENT;                                                                                   \
    if (d->param[P_lost]) LEAVE(GPU_IS_LOST)
#define ENTER(h) ENTER_VALUE(h, NULL)
#define LEAVE(code) return sim_unlock(handle->index), (code)

/* A call that gives one number. */
#define SCALAR(name, type, expression)                                                                                 \
    nvmlReturn name(struct handle *h, type *out) {                                                                     \
        int64_t forced = INT64_MIN;                                                                                    \
        ENTER_VALUE(h, &forced);                                                                                       \
        int64_t *p = d->param;                                                                                         \
        (void)p;                                                                                                       \
        *out = forced != INT64_MIN ? (type)forced : (type)(expression);                                                \
        LEAVE(SUCCESS);                                                                                                \
    }

nvmlReturn nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    nvmlReturn wrong = fault("nvmlInit", -1, NULL);
    if (wrong) return wrong;
    born = sim_state()->unknown;
    for (int i = 0; i < DEVICES; i++) handles[i].index = instances[i].index = i, instances[i].mig = 1;
    refcount++;
    return SUCCESS;
}
nvmlReturn nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn nvmlShutdown(void) {
    if (!refcount) return UNINITIALIZED;
    refcount--;
    return SUCCESS;
}

const char *nvmlErrorString(nvmlReturn code) {
    static char text[32];
    snprintf(text, sizeof text, "error %d", code);
    return text;
}

nvmlReturn nvmlSystemGetDriverVersion(char *out, unsigned size) { return snprintf(out, size, "580.00.sim"), SUCCESS; }
nvmlReturn nvmlSystemGetNVMLVersion(char *out, unsigned size) { return snprintf(out, size, "13.580.sim"), SUCCESS; }
nvmlReturn nvmlSystemGetCudaDriverVersion_v2(int *out) {
    nvmlReturn wrong = sim_state() ? fault(__func__, -1, NULL) : SUCCESS;
    if (wrong) return wrong;
    const char *told = getenv("SIMCUDA_DRIVER");
    return *out = told ? atoi(told) : 13000, SUCCESS;
}
nvmlReturn nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }
nvmlReturn nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    return snprintf(out, size, "process-%u", pid), SUCCESS;
}

static nvmlReturn system_call(const char *function) {
    if (!refcount) return UNINITIALIZED;
    if (sim_state()->unknown > born) return UNKNOWN;
    return fault(function, -1, NULL);
}

nvmlReturn nvmlDeviceGetCount_v2(unsigned *out) {
    nvmlReturn wrong = system_call(__func__);
    if (!wrong) *out = sim_state()->devices;
    return wrong;
}
nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, struct handle **out) {
    nvmlReturn wrong = system_call(__func__);
    if (wrong) return wrong;
    if (index >= (unsigned)sim_state()->devices) return INVALID_ARGUMENT;
    wrong = fault("nvmlDeviceGetHandleByIndex", index, NULL);
    *out = &handles[index];
    return wrong ? wrong : sim_state()->device[index].param[P_lost] ? GPU_IS_LOST : SUCCESS;
}
nvmlReturn nvmlDeviceGetHandleByUUID(const char *uuid, struct handle **out) {
    nvmlReturn wrong = system_call(__func__);
    if (wrong) return wrong;
    for (int i = 0; i < sim_state()->devices; i++)
        if (!strcmp(uuid, sim_state()->device[i].uuid)) return *out = &handles[i], SUCCESS;
    return NOT_FOUND;
}

nvmlReturn nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct handle **out) {
    const char *bus = strchr(bus_id, ':');
    nvmlReturn wrong = system_call(__func__);
    if (wrong) return wrong;
    int index = bus ? (int)strtol(bus + 1, NULL, 16) - 1 : -1;
    if (index < 0 || index >= sim_state()->devices) return NOT_FOUND;
    return *out = &handles[index], SUCCESS;
}

nvmlReturn nvmlDeviceGetName(struct handle *h, char *out, unsigned size) {
    ENTER(h);
    snprintf(out, size, "%s", d->name);
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetUUID(struct handle *h, char *out, unsigned size) {
    ENTER(h);
    if (h->mig) sim_slice(d, out, size);
    else snprintf(out, size, "%s", d->uuid);
    LEAVE(SUCCESS);
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
nvmlReturn nvmlDeviceGetPciInfo_v3(struct handle *h, struct pci *out) {
    ENTER(h);
    memset(out, 0, sizeof *out);
    out->bus = h->index + 1;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", h->index + 1);
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetCudaComputeCapability(struct handle *h, int *major, int *minor) {
    ENTER(h);
    *major = 9, *minor = 0;
    LEAVE(SUCCESS);
}

struct rates { unsigned gpu, memory; };
nvmlReturn nvmlDeviceGetUtilizationRates(struct handle *h, struct rates *out) {
    int64_t forced = -1;
    ENTER_VALUE(h, &forced);
    if (d->param[P_mig]) LEAVE(NOT_SUPPORTED);
    out->gpu = forced >= 0 ? forced : d->util, out->memory = d->util_mem;
    LEAVE(SUCCESS);
}

struct memory { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };
static void memory(const struct device *d, int mig, struct memory_v2 *out) {
    out->total = mig ? sim_room(d) : d->param[P_memory_total], out->reserved = d->param[P_memory_reserved], out->used = 0;
    for (int i = 0; i < PROCS; i++)
        if (d->procs[i].pid) out->used += d->procs[i].memory + (d->procs[i].ghost ? 0 : d->param[P_context]);
    out->free = out->total - out->reserved - out->used;
}
nvmlReturn nvmlDeviceGetMemoryInfo(struct handle *h, struct memory *out) {
    int64_t forced = 0;
    ENTER_VALUE(h, &forced);
    struct memory_v2 all;
    memory(d, h->mig, &all);
    *out = (struct memory){all.total, all.free, all.used + all.reserved};
    if (forced) out->total = out->used = forced;
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetMemoryInfo_v2(struct handle *h, struct memory_v2 *out) {
    int64_t forced = 0;
    ENTER_VALUE(h, &forced);
    memory(d, h->mig, out);
    if (forced) out->total = out->used = forced;
    LEAVE(SUCCESS);
}

SCALAR(nvmlDeviceGetIndex, unsigned, h->index)
SCALAR(nvmlDeviceGetComputeMode, unsigned, p[P_compute_mode])
SCALAR(nvmlDeviceGetMinorNumber, unsigned, h->index)
SCALAR(nvmlDeviceGetPowerUsage, unsigned, d->power)
SCALAR(nvmlDeviceGetEnforcedPowerLimit, unsigned, p[P_power_limit])
SCALAR(nvmlDeviceGetPowerManagementLimit, unsigned, p[P_power_limit])
SCALAR(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, p[P_power_default])
SCALAR(nvmlDeviceGetTotalEnergyConsumption, u64, (sim_energy(d, sim_state()->at), d->energy / 1000))
SCALAR(nvmlDeviceGetCurrentClocksEventReasons, u64, p[P_throttle] | (d->util ? 0 : 1))
SCALAR(nvmlDeviceGetCurrentClocksThrottleReasons, u64, p[P_throttle] | (d->util ? 0 : 1))
SCALAR(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, p[P_gen])
SCALAR(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, p[P_gen_max])
SCALAR(nvmlDeviceGetCurrPcieLinkWidth, unsigned, p[P_width])
SCALAR(nvmlDeviceGetMaxPcieLinkWidth, unsigned, p[P_width_max])
SCALAR(nvmlDeviceGetMaxMigDeviceCount, unsigned, p[P_mig] ? 1 : 0)
SCALAR(nvmlDeviceIsMigDeviceHandle, unsigned, h->mig)

nvmlReturn nvmlDeviceGetTemperature(struct handle *h, int sensor, unsigned *out) {
    int64_t forced = INT64_MIN;
    ENTER_VALUE(h, &forced);
    (void)sensor;
    *out = forced != INT64_MIN ? forced : d->param[P_temperature] + d->util / 3;
    LEAVE(SUCCESS);
}
struct temperature { unsigned version, sensor; int temperature; };
nvmlReturn nvmlDeviceGetTemperatureV(struct handle *h, struct temperature *out) {
    unsigned value;
    nvmlReturn code = nvmlDeviceGetTemperature(h, out->sensor, &value);
    if (!code) out->temperature = value;
    return code;
}

nvmlReturn nvmlDeviceGetClockInfo(struct handle *h, int type, unsigned *out) {
    int64_t forced = INT64_MIN;
    ENTER_VALUE(h, &forced);
    *out = forced != INT64_MIN ? forced : d->param[type == 2 ? P_clock_mem : P_clock_sm];
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetMaxClockInfo(struct handle *h, int type, unsigned *out) {
    ENTER(h);
    *out = d->param[type == 2 ? P_clock_mem_max : P_clock_max];
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetPcieThroughput(struct handle *h, int counter, unsigned *out) { /* KB/s */
    pause_ns(20000000); /* as the real one does */
    ENTER(h);
    *out = (counter ? d->rate_rx : d->rate_tx) / 1000;
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetTotalEccErrors(struct handle *h, int type, int counter, u64 *out) {
    int64_t forced = INT64_MIN;
    ENTER_VALUE(h, &forced);
    (void)counter;
    *out = forced != INT64_MIN ? forced : type ? d->param[P_ecc] : 0;
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetMigMode(struct handle *h, unsigned *current, unsigned *pending) {
    ENTER(h);
    *current = *pending = d->param[P_mig];
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceGetMigDeviceHandleByIndex(struct handle *h, unsigned index, struct handle **out) {
    ENTER(h);
    if (!d->param[P_mig] || index) LEAVE(NOT_FOUND);
    *out = &instances[h->index];
    LEAVE(SUCCESS);
}

struct running { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };
static int running(const struct device *d, struct running *out, unsigned room) {
    unsigned n = 0;
    for (int i = 0; i < PROCS; i++) {
        const struct proc *p = &d->procs[i];
        if (!p->pid) continue;
        if (out && n < room)
            out[n] = (struct running){p->pid + (p->ghost ? 0 : d->param[P_pid_offset]),
                                      p->memory + (p->ghost ? 0 : d->param[P_context]), -1u, -1u};
        n++;
    }
    return n;
}
#define RUNNING(name, counted)                                                                                         \
    nvmlReturn name(struct handle *h, unsigned *count, struct running *out) {                                          \
        ENTER(h);                                                                                                      \
        unsigned room = *count, n = (counted) ? running(d, out, room) : 0;                                             \
        *count = n;                                                                                                    \
        LEAVE(n > room ? INSUFFICIENT_SIZE : SUCCESS);                                                                 \
    }
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, 1)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v2, 1)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v3, 0)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v2, 0)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v3, 0)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v2, 0)

struct running_v1 { unsigned pid; u64 memory; };
nvmlReturn nvmlDeviceGetComputeRunningProcesses(struct handle *h, unsigned *count, struct running_v1 *out) {
    struct running all[PROCS];
    unsigned room = *count, n = PROCS;
    nvmlReturn code = nvmlDeviceGetComputeRunningProcesses_v3(h, &n, all);
    if (code) return code;
    for (unsigned i = 0; i < n && i < room; i++) out[i] = (struct running_v1){all[i].pid, all[i].memory};
    *count = n;
    return n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* There are no links between the cards that NVML would know; collectives have a rate of their own. */
nvmlReturn nvmlDeviceGetNvLinkRemoteDeviceType(struct handle *h, unsigned link, int *out) {
    (void)h, (void)link, (void)out;
    return NOT_SUPPORTED;
}
nvmlReturn nvmlDeviceGetNvLinkRemotePciInfo_v2(struct handle *h, unsigned link, struct pci *out) {
    (void)h, (void)link, (void)out;
    return NOT_SUPPORTED;
}
nvmlReturn nvmlDeviceGetP2PStatus(struct handle *a, struct handle *b, int what, int *out) {
    (void)a, (void)b, (void)what;
    return *out = 0, SUCCESS;
}

struct share { unsigned pid; u64 at; unsigned sm, memory, encoder, decoder; };
nvmlReturn nvmlDeviceGetProcessUtilization(struct handle *h, struct share *out, unsigned *count, u64 since) {
    ENTER(h);
    if (d->param[P_mig]) LEAVE(NOT_SUPPORTED);
    unsigned room = out ? *count : 0, n = 0;
    for (int i = 0; i < PROCS; i++) {
        const struct proc *p = &d->procs[i];
        if (!p->pid || !p->util || (u64)(p->util_at / 1000) <= since) continue;
        if (n < room)
            out[n] = (struct share){p->pid + (p->ghost ? 0 : d->param[P_pid_offset]), p->util_at / 1000, p->util, 0, 0, 0};
        n++;
    }
    *count = n;
    LEAVE(!n ? NOT_FOUND : n > room ? INSUFFICIENT_SIZE : SUCCESS);
}

union value { double d; unsigned u; u64 ull; };
struct field { unsigned id, scope; int64_t at, latency; unsigned type; nvmlReturn code; union value value; };
nvmlReturn nvmlDeviceGetFieldValues(struct handle *h, int count, struct field *out) {
    ENTER(h);
    if (!d->param[P_fields]) LEAVE(NOT_SUPPORTED);
    for (int i = 0; i < count; i++) {
        struct field *f = &out[i];
        f->code = SUCCESS, f->type = 3, f->at = sim_now() / 1000, f->latency = 7;
        switch (f->id) {
        case 82: f->type = 1, f->value.u = d->param[P_temperature] + 8; break; /* memory temperature */
        case 83: f->value.ull = (sim_energy(d, sim_state()->at), d->energy / 1000); break;
        case 185: case 186: f->type = 1, f->value.u = d->power; break;
        case 197: case 198: /* bytes sent and received over PCIe, ever: no older driver has them */
            f->value.ull = f->id == 197 ? d->tx : d->rx;
            f->code = fault("counts of PCIe", handle->index, NULL);
            break;
        default: f->code = NOT_SUPPORTED;
        }
    }
    LEAVE(SUCCESS);
}

/* GPM: metrics out of two samples of counters. */
struct gpm { double at, busy, sm, tensor, dram, tx, rx; };
struct gpm_metric { unsigned id; nvmlReturn code; double value; const char *info[3]; };
struct gpm_get { unsigned version, count; struct gpm *a, *b; struct gpm_metric metrics[]; };
struct gpm_support { unsigned version, supported; };
nvmlReturn nvmlGpmQueryDeviceSupport(struct handle *h, struct gpm_support *out) {
    ENTER(h);
    out->supported = d->param[P_gpm];
    LEAVE(SUCCESS);
}
nvmlReturn nvmlGpmSampleAlloc(struct gpm **out) {
    nvmlReturn wrong = system_call(__func__);
    return wrong ? wrong : (*out = calloc(1, sizeof **out)) ? SUCCESS : UNKNOWN;
}
nvmlReturn nvmlGpmSampleFree(struct gpm *sample) { return free(sample), SUCCESS; }
nvmlReturn nvmlGpmSampleGet(struct handle *h, struct gpm *out) {
    ENTER(h);
    if (!d->param[P_gpm] || d->param[P_mig]) LEAVE(NOT_SUPPORTED);
    *out = (struct gpm){sim_state()->at, d->busy, d->sm, d->tensor, d->dram, d->tx, d->rx};
    LEAVE(SUCCESS);
}
nvmlReturn nvmlGpmMetricsGet(struct gpm_get *get) {
    if (!refcount) return UNINITIALIZED;
    nvmlReturn wrong = fault(__func__, -1, NULL);
    if (wrong) return wrong;
    struct gpm *a = get->a, *b = get->b;
    double ns = b->at - a->at;
    if (ns < 100e6) return INVALID_ARGUMENT; /* closer samples give nonsense on a real card */
    for (unsigned i = 0; i < get->count; i++) {
        struct gpm_metric *m = &get->metrics[i];
        m->code = SUCCESS;
        switch (m->id) {
        case 1: m->value = 100 * (b->busy - a->busy) / ns; break;
        case 2: m->value = 100 * (b->sm - a->sm) / ns; break;
        case 5: m->value = 100 * (b->tensor - a->tensor) / ns; break;
        case 10: m->value = 100 * (b->dram - a->dram) / ns; break;
        case 20: m->value = (b->tx - a->tx) / (ns / 1e9) / (1 << 20); break;
        case 21: m->value = (b->rx - a->rx) / (ns / 1e9) / (1 << 20); break;
        default: m->code = NOT_SUPPORTED;
        }
    }
    return SUCCESS;
}

/* Events: one set, Xids only, since the registration. */
struct set { uint64_t seen[DEVICES]; int registered[DEVICES]; };
struct event { struct handle *device; u64 type, data; unsigned gpu_instance, compute_instance; };
nvmlReturn nvmlEventSetCreate(struct set **out) {
    nvmlReturn wrong = system_call(__func__);
    return wrong ? wrong : (*out = calloc(1, sizeof **out)) ? SUCCESS : UNKNOWN;
}
nvmlReturn nvmlEventSetFree(struct set *set) { return free(set), SUCCESS; }
nvmlReturn nvmlDeviceGetSupportedEventTypes(struct handle *h, u64 *out) {
    ENTER(h);
    *out = 8;
    LEAVE(SUCCESS);
}
nvmlReturn nvmlDeviceRegisterEvents(struct handle *h, u64 types, struct set *set) {
    ENTER(h);
    if (types & 8) set->registered[h->index] = 1, set->seen[h->index] = d->xids;
    LEAVE(SUCCESS);
}
nvmlReturn nvmlEventSetWait_v2(struct set *set, struct event *out, unsigned timeout_ms) {
    nvmlReturn wrong = system_call(__func__);
    if (wrong) return wrong;
    int64_t deadline = sim_now() + timeout_ms * 1000000LL;
    for (;;) {
        for (int i = 0; i < sim_state()->devices; i++) {
            struct device *d = &sim_state()->device[i];
            if (!set->registered[i] || set->seen[i] >= d->xids) continue;
            *out = (struct event){&handles[i], 8, d->xid[set->seen[i]++ % XIDS], -1u, -1u};
            return SUCCESS;
        }
        if (sim_now() >= deadline) return TIMEOUT;
        pause_ns(1000000);
    }
}
