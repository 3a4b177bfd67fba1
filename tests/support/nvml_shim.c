/* A libnvidia-ml.so.1 with GPUs that never existed (eight, or NVML_SHIM_GPUS): just what collectors ask of pynvml, with
 * nvml.h's layouts. NVML_SHIM=blackwell answers with NVLink 5's counters. Counters grow with time, so rates are known. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_GPUS = 144, LINKS = 18, SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };
enum { UINT = 1, ULONGLONG = 3, INT = 5 };

typedef struct { int index; } Device;
typedef struct { uint32_t field, scope; int64_t timestamp, latency; uint32_t type, code; union { uint32_t ui; uint64_t ull; } value; } FieldValue;
typedef struct { char legacy[16]; uint32_t domain, bus, device, id, subsystem; char bus_id[32]; } PciInfo;
typedef struct { uint32_t version, sensor; int32_t temperature; } Temperature;
typedef struct { uint32_t version; int32_t margin; } Margin;
typedef struct { uint32_t gpu, memory; } Utilization;
typedef struct { uint64_t total, free, used; } Memory;
typedef struct { uint32_t pid; uint64_t used; uint32_t gpu_instance, compute_instance; } Process;
typedef struct { uint32_t version, supported; } GpmSupport;
typedef struct { uint32_t id, code; double value; char *words[3]; } GpmMetric;
typedef struct { uint32_t version, count; void *sample1, *sample2; GpmMetric metrics[]; } GpmMetrics;
typedef struct { uint32_t version; unsigned char cluster[16]; uint32_t status, clique; uint32_t state, mask; unsigned char summary; } FabricInfo;
typedef struct { uint32_t version; uint64_t parity, secded, correctable, volatile_parity, volatile_secded, volatile_correctable, buckets[5]; uint32_t exceeded; } SramStatus;
typedef struct { uint32_t version; unsigned char guid[16]; char chassis[16]; unsigned char slot, tray, host, peer, module; } PlatformInfo;

static Device devices[MOST_GPUS];
static int gpus = 8, blackwell;

__attribute__((constructor)) static void begin(void) {
    const char *profile = getenv("NVML_SHIM"), *count = getenv("NVML_SHIM_GPUS");
    blackwell = profile && !strcmp(profile, "blackwell");
    if (count && atoi(count) > 0 && atoi(count) <= MOST_GPUS) gpus = atoi(count);
    for (int i = 0; i < MOST_GPUS; i++) devices[i].index = i;
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "error of the shim"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { snprintf(out, n, "580.95.05"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)gpus; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device **out) { if (i >= (unsigned)gpus) return INVALID_ARGUMENT; *out = &devices[i]; return SUCCESS; }
int nvmlDeviceGetUUID(Device *d, char *out, unsigned n) { snprintf(out, n, "GPU-00000000-0000-4000-8000-%012d", d->index); return SUCCESS; }
int nvmlDeviceGetName(Device *d, char *out, unsigned n) { (void)d; snprintf(out, n, "NVIDIA shim"); return SUCCESS; }
int nvmlDeviceGetSerial(Device *d, char *out, unsigned n) { snprintf(out, n, "165000000%04d", d->index); return SUCCESS; }
int nvmlDeviceGetVbiosVersion(Device *d, char *out, unsigned n) { (void)d; snprintf(out, n, "96.00.89.00.01"); return SUCCESS; }
int nvmlDeviceGetPciInfo_v3(Device *d, PciInfo *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:1B:00.0", d->index);
    return SUCCESS;
}
int nvmlDeviceGetTemperatureV(Device *d, Temperature *t) { t->temperature = 50 + d->index % 8; return SUCCESS; }
int nvmlDeviceGetMarginTemperature(Device *d, Margin *m) { (void)d; m->margin = 32; return SUCCESS; }
int nvmlDeviceGetClockInfo(Device *d, unsigned kind, unsigned *mhz) { (void)d; *mhz = kind == 1 ? 1980 : 2619; return SUCCESS; }
int nvmlDeviceGetCurrentClocksEventReasons(Device *d, uint64_t *bits) { (void)d; *bits = 4; return SUCCESS; }
int nvmlDeviceGetUtilizationRates(Device *d, Utilization *u) { (void)d; u->gpu = 97; u->memory = 41; return SUCCESS; }
int nvmlDeviceGetMemoryInfo(Device *d, Memory *m) { (void)d; m->total = 80ull << 30; m->used = 60ull << 30; m->free = 20ull << 30; return SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *count, Process *out) {
    if (!out) { *count = 1; return INSUFFICIENT_SIZE; }
    memset(out, 0, sizeof *out);
    out->pid = 1000 + (uint32_t)d->index;
    *count = 1;
    return SUCCESS;
}

static void wide(FieldValue *v, uint64_t value) { v->type = ULONGLONG; v->value.ull = value; }
static void narrow(FieldValue *v, uint32_t value) { v->type = UINT; v->value.ui = value; }

static int answer(FieldValue *v, uint64_t ns) {
    v->value.ull = 0;
    switch (v->field) {
    case 186: narrow(v, 412500); return SUCCESS;
    case 190: narrow(v, 700000); return SUCCESS;
    case 82: narrow(v, 71); return SUCCESS;
    case 83: wide(v, ns / 2500); return SUCCESS;          /* mJ: 400 W */
    case 74: wide(v, ns / 10); return SUCCESS;            /* capped a tenth of the time */
    case 269: case 270: case 271: case 3: case 4: wide(v, 0); return SUCCESS;
    case 142: case 143: case 144: case 145: case 94: case 230: narrow(v, 0); return SUCCESS;
    case 197: wide(v, ns * 3); return SUCCESS;            /* 3 GB/s */
    case 198: wide(v, ns); return SUCCESS;
    case 91: narrow(v, LINKS); return SUCCESS;
    case 76: case 5: case 6: wide(v, 0); return SUCCESS;
    case 173: case 179: case 180: case 169: case 306: narrow(v, 0); return SUCCESS;
    case 189: narrow(v, 700000); return SUCCESS;
    case 194: v->type = INT; v->value.ui = (uint32_t)-2; return SUCCESS;
    }
    if (v->scope != 0xFFFFFFFF && v->scope >= LINKS) return INVALID_ARGUMENT;
    if (v->field == 164) { narrow(v, 26562); return SUCCESS; }
    if (v->field == 165) { narrow(v, 1); return SUCCESS; }
    if (!blackwell) {
        if (v->field == 138 || v->field == 139) { wide(v, ns / 1024); return SUCCESS; }  /* KiB: 1 GB/s */
        if (v->field >= 161 && v->field <= 163) { narrow(v, 0); return SUCCESS; }
    } else {
        if (v->field == 202 || v->field == 204) { wide(v, ns); return SUCCESS; }         /* 1 GB/s a link */
        if (v->field >= 206 && v->field <= 215) { wide(v, 0); return SUCCESS; }
        if (v->field == 220 || v->field == 222) { wide(v, 15 << 8 | 255); return SUCCESS; }  /* no error seen */
        if (v->field == 219 || v->field == 221) { wide(v, 0); return SUCCESS; }
        if (v->field >= 235 && v->field <= 250) { wide(v, v->field == 235 ? ns : 0); return SUCCESS; }
        if (v->field == 294) { wide(v, ns); return SUCCESS; }
        if (v->field == 295) { wide(v, ns / 1000); return SUCCESS; }
    }
    return NOT_SUPPORTED;
}

int nvmlDeviceGetFieldValues(Device *d, int count, FieldValue *values) {
    uint64_t ns = nanoseconds();
    (void)d;
    for (int i = 0; i < count; i++) values[i].code = (uint32_t)answer(&values[i], ns);
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(Device *d, unsigned *out) { (void)d; *out = 5; return SUCCESS; }
int nvmlDeviceGetCurrPcieLinkWidth(Device *d, unsigned *out) { (void)d; *out = 16; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkWidth(Device *d, unsigned *out) { (void)d; *out = 16; return SUCCESS; }
int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *pending) { (void)d; *now = *pending = 0; return SUCCESS; }
int nvmlDeviceGetGpuFabricInfoV(Device *d, FabricInfo *f) {
    (void)d;
    f->status = 0; f->clique = 0; f->state = 3; f->mask = 0x1aa; f->summary = 1;
    return SUCCESS;
}
int nvmlDeviceGetSramEccErrorStatus(Device *d, SramStatus *s) { (void)d; s->volatile_correctable = 2; s->exceeded = 0; return SUCCESS; }
int nvmlDeviceGetPlatformInfo(Device *d, PlatformInfo *p) {
    memset(p->guid, 0, sizeof p->guid);
    snprintf(p->chassis, sizeof p->chassis, "1820325190006");
    p->slot = 18; p->tray = 7; p->host = 1; p->peer = 0; p->module = (unsigned char)(d->index % 8 + 1);
    return SUCCESS;
}

int nvmlGpmQueryDeviceSupport(Device *d, GpmSupport *s) { (void)d; s->supported = 1; return SUCCESS; }
int nvmlGpmSampleAlloc(void **sample) { *sample = malloc(16); return SUCCESS; }
int nvmlGpmSampleFree(void *sample) { free(sample); return SUCCESS; }
int nvmlGpmSampleGet(Device *d, void *sample) { (void)d; (void)sample; return SUCCESS; }
int nvmlGpmMetricsGet(GpmMetrics *m) {
    for (uint32_t i = 0; i < m->count; i++) {
        m->metrics[i].code = SUCCESS;
        m->metrics[i].value = 10.0 * m->metrics[i].id;
    }
    return SUCCESS;
}

/* Events can be asked for, and there never is one. */
int nvmlEventSetCreate(void **set) { *set = malloc(1); return SUCCESS; }
int nvmlEventSetFree(void *set) { free(set); return SUCCESS; }
int nvmlDeviceGetSupportedEventTypes(Device *d, uint64_t *types) { (void)d; *types = 8; return SUCCESS; }
int nvmlDeviceRegisterEvents(Device *d, uint64_t types, void *set) { (void)d; (void)types; (void)set; return SUCCESS; }
int nvmlEventSetWait_v2(void *set, void *data, unsigned timeout_ms) { (void)set; (void)data; (void)timeout_ms; return TIMEOUT; }
