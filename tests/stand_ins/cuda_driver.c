// A stand-in for libcuda: "device memory" is memory of this process, a "cubin" is a shared object whose kernels are
// int name(void **arguments, const unsigned *grid, const unsigned *block, unsigned shared_bytes), called at once.
// A kernel that returns a number other than 0 leaves that as a sticky error, as a fault on a device does.
// A module may export `double clock_scale`: what events say is multiplied by it, as if the clock had been tampered with,
// and `const unsigned long NAME_layout[]`: the sizes of a kernel's parameters, with 0 at the end. What it exports as
// `void stand_in_synchronize(void)` is called when the whole context is waited for: what it adds to the work below is
// that of other streams;
// `double stand_in_worked` is the seconds that its kernels would have kept a device at work, and no variable of it that
// anybody is told of: they return at once and a wait for them sleeps until then, so that a busy machine is late once in
// many calls; events tell this device's clock, not this machine's;
// `int stand_in_persisting` is whether lines of the cache that were set aside are still there.
// Built with CLOCKS, the name of a folder, nobody sleeps: time here is a number in a file of that folder, named by the
// process, which launches and waits advance and whoever asks this process for something can read.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int sticky;
static double scale = 1.0;
static int capturing;
static void *captured;
#define CHECK if (sticky) return sticky

typedef struct { void *library; double *worked; } Module;
typedef struct {
    int (*call)(void **, const unsigned *, const unsigned *, unsigned);
    Module *module;
    char name[128];
} Function;
typedef struct { double at; } Event;

int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return index ? 101 : 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "stand-in"); return 0; }
int cuDeviceGetUuid_v2(char *uuid, int device) { memset(uuid, getpid() ? 7 : 0, 16); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 1ull << 30; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 8: *value = 49152; return 0;
    case 10: *value = 32; return 0;
    case 16: *value = 132; return 0;
    case 38: *value = 4 << 20; return 0;
    case 39: *value = 2048; return 0;
    case 75: *value = 9; return 0;
    case 76: *value = 0; return 0;
    case 81: *value = 233472; return 0;
    case 97: *value = 232448; return 0;
    case 106: *value = 32; return 0;
    case 111: *value = 1024; return 0;
    default: *value = 0; return 1;
    }
}
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { return 0; }
static void *current;
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
static void (*elsewhere)(void);
static int *persisting;
static int own_clock;
static double device_s, busy_until_s, *worked;
#ifdef CLOCKS
static volatile double *noted(void) {
    static volatile double *clock;
    if (clock) return clock;
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", CLOCKS, getpid());
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *clock)) abort();
    clock = mmap(NULL, sizeof *clock, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (clock == MAP_FAILED) abort();
    return clock;
}
static double now_s(void) { return *noted(); }
static void launched(void) { *noted() += 5e-6; }
static void sleep_until(double end_s) { *noted() = end_s; }
#else
static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}
static void launched(void) {}
static void sleep_until(double end_s) {
    struct timespec end = {(time_t)end_s, (long)((end_s - (time_t)end_s) * 1e9) + 1};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}
#endif
static void at_work(double seconds) {
    double now = now_s();
    device_s += seconds;
    busy_until_s = (busy_until_s > now ? busy_until_s : now) + seconds;
}
static void until_done(void) {
    while (now_s() < busy_until_s) sleep_until(busy_until_s);
}
int cuCtxSynchronize(void) {
    double before = worked ? *worked : 0;
    if (elsewhere) elsewhere();
    if (worked) at_work(*worked - before);
    until_done();
    // To wait for everything spoils the graph that a stream is captured into.
    return capturing ? 900 : sticky;
}
int cuCtxResetPersistingL2Cache(void) {
    if (persisting) *persisting = 0;
    return sticky ? sticky : 801;
}
int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)1; return 0; }
int cuStreamSynchronize(void *stream) { until_done(); return sticky; }
int cuGetErrorName(int code, const char **name) {
    *name = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR";
    return 0;
}
int cuModuleLoadData(void **module, const void *image) {
    CHECK;
    const unsigned char *bytes = image;
    if (*(const unsigned *)bytes == 0x466243b1) bytes = *(const unsigned char *const *)(bytes + 8);
    if (*(const unsigned *)bytes == 0xba55ed50) bytes += *(const unsigned short *)(bytes + 6);
    image = bytes;
    if (memcmp(bytes, "\177ELF", 4)) return 209;
    uint64_t sections = *(const uint64_t *)(bytes + 40);
    size_t size = sections + *(const uint16_t *)(bytes + 58) * (size_t)*(const uint16_t *)(bytes + 60);
    int file = memfd_create("module", 0);
    if (write(file, image, size) != (ssize_t)size) return 2;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return 209;
    double *given = dlsym(library, "clock_scale");
    scale = given ? *given : 1.0;
    *(void **)&elsewhere = dlsym(library, "stand_in_synchronize");
    persisting = dlsym(library, "stand_in_persisting");
    Module *made = malloc(sizeof *made);
    made->library = library;
    made->worked = worked = dlsym(library, "stand_in_worked");
    own_clock = worked != NULL;
    *module = made;
    return 0;
}
int cuModuleUnload(Module *module) {
    CHECK;
    elsewhere = NULL, persisting = NULL, worked = NULL, own_clock = 0;
    dlclose(module->library);
    free(module);
    return 0;
}
int cuModuleGetFunction(void **function, Module *module, const char *name) {
    CHECK;
    void *found = dlsym(module->library, name);
    if (!found) return 500;
    Function *made = calloc(1, sizeof *made);
    *(void **)&made->call = found;
    made->module = module;
    snprintf(made->name, sizeof made->name, "%s", name);
    *function = made;
    return 0;
}
int cuModuleGetGlobal_v2(uint64_t *at, size_t *size, Module *module, const char *name) {
    CHECK;
    Dl_info info;
    ElfW(Sym) *symbol;
    int own = strstr(name, "_layout") || !strcmp(name, "stand_in_worked");
    void *found = own ? NULL : dlsym(module->library, name);
    if (!found || !dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return 500;
    if (at) *at = (uint64_t)found;
    if (size) *size = symbol->st_size;
    return 0;
}
int cuFuncSetAttribute(Function *function, int attribute, int value) { CHECK; return value > 232448 ? 1 : 0; }
static char *next;
static char *device_memory(void) {
    // A part of the address space of its own for each process, as a driver's memory is nobody else's.
    if (!next) next = (char *)0x300000000000 + ((uint64_t)(getpid() % 4096) << 32);
    return next += 4 << 20;
}
int cuMemAlloc_v2(uint64_t *at, size_t size) {
    CHECK;
    if (size > 1ull << 30) return 2;
    char *wanted = device_memory();
    for (size_t more = 0; more < size; more += 4 << 20) device_memory();
    void *memory = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    *at = (uint64_t)memory;
    return 0;
}
int cuMemFree_v2(uint64_t at) { return sticky; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    CHECK;
    until_done();
    memcpy((void *)to, from, size);
    return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    CHECK;
    until_done();
    memcpy(to, (void *)from, size);
    return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) {
    CHECK;
    memmove((void *)to, (void *)from, size);
    return 0;
}
int cuMemsetD8Async(uint64_t at, unsigned char byte, size_t size, void *stream) {
    CHECK;
    if (size < 32 << 20) memset((void *)at, byte, size);  // more is a flush of a cache that is not there
    return 0;
}
static int layout_of(Function *function, size_t number, size_t *offset, size_t *size) {
    char name[160];
    snprintf(name, sizeof name, "%s_layout", function->name);
    const unsigned long *sizes = dlsym(function->module->library, name);
    size_t at = 0;
    for (size_t i = 0; sizes && sizes[i]; i++) {
        size_t align = sizes[i] & -sizes[i];
        align = align > 8 ? 8 : align;
        at = (at + align - 1) / align * align;
        if (i == number) {
            *offset = at, *size = sizes[i];
            return 0;
        }
        at += sizes[i];
    }
    return 1;
}
int cuFuncGetParamInfo(Function *function, size_t number, size_t *offset, size_t *size) {
    return getenv("STAND_IN_OLD") ? 801 : layout_of(function, number, offset, size);
}
int cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    CHECK;
    if ((uint64_t)bx * by * bz > 1024) return 1;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    if (capturing && stream == captured) return 0;
    void *packed[64];
    if (!arguments && extra) {
        size_t offset, size;
        for (int i = 0; i < 64 && !layout_of(function, i, &offset, &size); i++) packed[i] = (char *)extra[1] + offset;
        arguments = packed;
    }
    double *own = function->module->worked, before = own ? *own : 0;
    launched();
    sticky = function->call(arguments, grid, block, shared);
    if (own) at_work(*own - before);
    return 0;
}
int cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(Event)); return 0; }
int cuEventRecord(Event *event, void *stream) {
    CHECK;
    event->at = own_clock ? device_s : now_s();
    return 0;
}
int cuEventElapsedTime(float *ms, Event *start, Event *end) {
    CHECK;
    *ms = (float)((end->at - start->at) * 1e3 * scale + 1e-4);
    return 0;
}
