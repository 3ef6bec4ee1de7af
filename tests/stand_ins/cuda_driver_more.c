// The rest of the stand-in driver, which applications and replays at recorded addresses call: libraries, names by version,
// kinds of memory, addresses that are reserved, graphs that are captured. Included after cuda_driver.c.

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
    return cuModuleLoadData(module, image);
}
int cuModuleLoad(void **module, const char *path) {
    static char image[1 << 20] __attribute__((aligned(8)));
    FILE *file = fopen(path, "rb");
    if (!file) return 301;
    size_t size = fread(image, 1, sizeof image, file);
    fclose(file);
    return size ? cuModuleLoadData(module, image) : 301;
}
int cuModuleLoadFatBinary(void **module, const void *image) { return cuModuleLoadData(module, image); }
int cuModuleGetTexRef(void **reference, Module *module, const char *name) { *reference = module; return 0; }
int cuLibraryLoadData(void **library, const void *image, int *a, void **b, unsigned c, int *d, void **e, unsigned f) {
    return cuModuleLoadData(library, image);
}
int cuLibraryUnload(Module *library) { return 0; }
int cuLibraryGetModule(void **module, Module *library) { *module = library; return 0; }
int cuLibraryGetKernel(void **kernel, Module *library, const char *name) {
    return cuModuleGetFunction(kernel, library, name);
}
int cuLibraryGetGlobal(uint64_t *at, size_t *size, Module *library, const char *name) {
    return cuModuleGetGlobal_v2(at, size, library, name);
}
int cuLibraryGetManaged(uint64_t *at, size_t *size, Module *library, const char *name) {
    return cuModuleGetGlobal_v2(at, size, library, name);
}
int cuKernelGetFunction(void **function, Function *kernel) { *function = kernel; return 0; }
int cuKernelGetParamInfo(Function *kernel, size_t number, size_t *offset, size_t *size) {
    return layout_of(kernel, number, offset, size);
}
int cuFuncGetName(const char **name, Function *function) { *name = function->name; return 0; }
int cuFuncGetModule(void **module, Function *function) { *module = function->module; return 0; }

static int device_now;
int cuCtxGetDevice(int *device) { *device = device_now; return 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    device_now = device;
    *context = current = (void *)(2l + device);
    return 0;
}
int cuPointerGetAttribute(void *value, int attribute, uint64_t at) {
    // Memory of this driver lies in a part of the address space of its own.
    if (attribute != 2 || at >> 44 != 3) return 1;
    *(unsigned *)value = 2;
    return 0;
}

int cuMemAllocManaged(uint64_t *at, size_t size, unsigned flags) { return cuMemAlloc_v2(at, size); }
int cuMemAllocAsync(uint64_t *at, size_t size, void *stream) { return cuMemAlloc_v2(at, size); }
int cuMemAllocAsync_ptsz(uint64_t *at, size_t size, void *stream) { return cuMemAlloc_v2(at, size); }
int cuMemAllocFromPoolAsync(uint64_t *at, size_t size, void *pool, void *stream) { return cuMemAlloc_v2(at, size); }
int cuMemFreeAsync(uint64_t at, void *stream) { return 0; }
int cuMemHostAlloc(void **memory, size_t size, unsigned flags) { return cuMemAlloc_v2((uint64_t *)memory, size); }
int cuMemFreeEverythingNobodyKnows(void) {
    // As a context does that is destroyed; what is allocated next lies where the first did.
    char *first = (char *)0x300000000000 + ((uint64_t)(getpid() % 4096) << 32);
    if (next) munmap(first, next - first + (4 << 20));
    next = NULL;
    return 0;
}
int cuMemAllocNobodyKnows(uint64_t *at, size_t size) { return cuMemAlloc_v2(at, size); }

int cuMemGetAllocationGranularity(size_t *size, const void *properties, int option) { *size = 2 << 20; return 0; }
int cuMemAddressReserve(uint64_t *at, size_t size, size_t alignment, uint64_t wanted, uint64_t flags) {
    void *hint = wanted && !getenv("STAND_IN_TAKEN") ? (void *)wanted : device_memory();
    void *memory = mmap(hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *at = (uint64_t)memory;
    return memory == MAP_FAILED ? 2 : 0;
}
int cuMemAddressFree(uint64_t at, size_t size) { return munmap((void *)at, size) ? 1 : 0; }
int cuMemCreate(uint64_t *handle, size_t size, const void *properties, uint64_t flags) {
    int file = memfd_create("memory", 0);
    *handle = file;
    return ftruncate(file, size) ? 2 : 0;
}
int cuMemRelease(uint64_t handle) { return close(handle) ? 1 : 0; }
int cuMemMap(uint64_t at, size_t size, size_t offset, uint64_t handle, uint64_t flags) {
    return mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, handle, offset) == MAP_FAILED ? 1 : 0;
}
int cuMemSetAccess(uint64_t at, size_t size, const void *description, size_t count) { return 0; }
int cuMemUnmap(uint64_t at, size_t size) {
    mmap((void *)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return 0;
}

int cuTexObjectCreate(uint64_t *texture, const void *a, const void *b, const void *c) { *texture = 7; return 0; }
int cuSurfObjectCreate(uint64_t *surface, const void *a) { *surface = 9; return 0; }

int cuStreamBeginCapture_v2(void *stream, int mode) { capturing = 1; captured = stream; return 0; }
int cuStreamBeginCaptureToGraph(void *stream, void *graph, void **needs, void *data, size_t count, int mode) {
    return cuStreamBeginCapture_v2(stream, mode);
}
int cuStreamEndCapture(void *stream, void **graph) { capturing = 0; *graph = stream; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { *status = capturing && stream == captured; return 0; }
int cuGraphAddKernelNode_v2(void **node, void *graph, const void **needs, size_t count, const void *parameters) { return 0; }

typedef struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; } Config;
int cuLaunchKernelEx(const Config *c, Function *function, void **arguments, void **extra) {
    return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared,
                          c->stream, arguments, extra);
}
int cuLaunchKernel_ptsz(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **arguments, void **extra) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}
int cuLaunchCooperativeKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void *stream, void **arguments) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, NULL);
}
int cuEventSynchronize(void *event) { until_done(); return 0; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }

int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    char full[128];
    const char *forms[] = {"%s_v2_ptsz", "%s_ptsz", "%s_v2", "%s"};
    Dl_info own;
    dladdr((void *)cuInit, &own);
    void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *found = NULL;
    for (int i = flags & 2 ? 0 : 2; i < 4 && !*found; i++) {
        snprintf(full, sizeof full, forms[i], name);
        *found = dlsym(library, full);
    }
    return *found ? 0 : 500;
}
