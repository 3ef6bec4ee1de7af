/* CUDA: the driver's functions and NVRTC's, wherever the application gets them from: linked, by dlsym, or through
 * cuGetProcAddress, which is how runtimes that are linked in statically reach the driver.
 *
 * Follows common.c. Names with _v2 are those that cuda.h maps to, those with _ptsz take the thread's own stream for 0.
 */

typedef int CuStatus;
typedef uint64_t CuPointer;
typedef struct { char bytes[64]; } CuIpcHandle;

enum { CU_SUCCESS = 0, CU_INVALID_VALUE = 1, CU_NOT_FOUND = 500, CU_PER_THREAD_STREAM = 2, CU_NEWEST_OLD_VERSION = 12000, NVRTC_MISSING = 11 };

#define CU_LOAD_OPTIONS int *c, void **d, unsigned e, int *f, void **g, unsigned h
#define CU_GRID void *a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g, unsigned h, void *i

#define CU_FUNCTIONS(F)                                                                                               \
    F(CuStatus, cuGetProcAddress, (const char *a, void **b, int c, uint64_t d))                                       \
    F(CuStatus, cuGetProcAddress_v2, (const char *a, void **b, int c, uint64_t d, int *e))                            \
    F(CuStatus, cuModuleLoad, (void **a, const char *b))                                                              \
    F(CuStatus, cuModuleLoadData, (void **a, const void *b))                                                          \
    F(CuStatus, cuModuleLoadDataEx, (void **a, const void *b, unsigned c, int *d, void **e))                          \
    F(CuStatus, cuModuleLoadFatBinary, (void **a, const void *b))                                                     \
    F(CuStatus, cuModuleUnload, (void *a))                                                                            \
    F(CuStatus, cuModuleGetFunction, (void **a, void *b, const char *c))                                              \
    F(CuStatus, cuModuleGetGlobal_v2, (CuPointer *a, size_t *b, void *c, const char *d))                              \
    F(CuStatus, cuModuleGetTexRef, (void **a, void *b, const char *c))                                                \
    F(CuStatus, cuModuleGetSurfRef, (void **a, void *b, const char *c))                                               \
    F(CuStatus, cuLibraryLoadData, (void **a, const void *b, CU_LOAD_OPTIONS))                                        \
    F(CuStatus, cuLibraryLoadFromFile, (void **a, const char *b, CU_LOAD_OPTIONS))                                    \
    F(CuStatus, cuLibraryUnload, (void *a))                                                                           \
    F(CuStatus, cuLibraryGetKernel, (void **a, void *b, const char *c))                                               \
    F(CuStatus, cuLibraryGetModule, (void **a, void *b))                                                              \
    F(CuStatus, cuLibraryGetGlobal, (CuPointer *a, size_t *b, void *c, const char *d))                                \
    F(CuStatus, cuLibraryGetManaged, (CuPointer *a, size_t *b, void *c, const char *d))                               \
    F(CuStatus, cuKernelGetFunction, (void **a, void *b))                                                             \
    F(CuStatus, cuMemAlloc_v2, (CuPointer *a, size_t b))                                                              \
    F(CuStatus, cuMemAllocPitch_v2, (CuPointer *a, size_t *b, size_t c, size_t d, unsigned e))                        \
    F(CuStatus, cuMemAllocManaged, (CuPointer *a, size_t b, unsigned c))                                              \
    F(CuStatus, cuMemAllocAsync, (CuPointer *a, size_t b, void *c))                                                   \
    F(CuStatus, cuMemAllocAsync_ptsz, (CuPointer *a, size_t b, void *c))                                              \
    F(CuStatus, cuMemAllocFromPoolAsync, (CuPointer *a, size_t b, void *c, void *d))                                  \
    F(CuStatus, cuMemAllocFromPoolAsync_ptsz, (CuPointer *a, size_t b, void *c, void *d))                             \
    F(CuStatus, cuMemFree_v2, (CuPointer a))                                                                          \
    F(CuStatus, cuMemFreeAsync, (CuPointer a, void *b))                                                               \
    F(CuStatus, cuMemFreeAsync_ptsz, (CuPointer a, void *b))                                                          \
    F(CuStatus, cuMemAllocHost_v2, (void **a, size_t b))                                                              \
    F(CuStatus, cuMemHostAlloc, (void **a, size_t b, unsigned c))                                                     \
    F(CuStatus, cuMemHostRegister_v2, (void *a, size_t b, unsigned c))                                                \
    F(CuStatus, cuMemHostUnregister, (void *a))                                                                       \
    F(CuStatus, cuMemFreeHost, (void *a))                                                                             \
    F(CuStatus, cuMemMap, (CuPointer a, size_t b, size_t c, uint64_t d, uint64_t e))                                  \
    F(CuStatus, cuMemUnmap, (CuPointer a, size_t b))                                                                  \
    F(CuStatus, cuIpcOpenMemHandle_v2, (CuPointer *a, CuIpcHandle b, unsigned c))                                     \
    F(CuStatus, cuIpcCloseMemHandle, (CuPointer a))                                                                   \
    F(CuStatus, cuTexObjectCreate, (uint64_t *a, const void *b, const void *c, const void *d))                        \
    F(CuStatus, cuTexObjectDestroy, (uint64_t a))                                                                     \
    F(CuStatus, cuSurfObjectCreate, (uint64_t *a, const void *b))                                                     \
    F(CuStatus, cuSurfObjectDestroy, (uint64_t a))                                                                    \
    F(CuStatus, cuStreamBeginCapture_v2, (void *a, int b))                                                            \
    F(CuStatus, cuStreamBeginCapture_v2_ptsz, (void *a, int b))                                                       \
    F(CuStatus, cuStreamBeginCaptureToGraph, (void *a, void *b, void *const *c, const void *d, size_t e, int f))      \
    F(CuStatus, cuStreamBeginCaptureToGraph_ptsz, (void *a, void *b, void *const *c, const void *d, size_t e, int f)) \
    F(CuStatus, cuStreamEndCapture, (void *a, void **b))                                                              \
    F(CuStatus, cuStreamEndCapture_ptsz, (void *a, void **b))                                                         \
    F(CuStatus, cuGraphAddKernelNode_v2, (void **a, void *b, const void **c, size_t d, const void *e))                \
    F(CuStatus, cuLaunchKernel, (CU_GRID, void **j, void **k))                                                        \
    F(CuStatus, cuLaunchKernel_ptsz, (CU_GRID, void **j, void **k))                                                   \
    F(CuStatus, cuLaunchKernelEx, (const void *a, void *b, void **c, void **d))                                       \
    F(CuStatus, cuLaunchKernelEx_ptsz, (const void *a, void *b, void **c, void **d))                                  \
    F(CuStatus, cuLaunchCooperativeKernel, (CU_GRID, void **j))                                                       \
    F(CuStatus, cuLaunchCooperativeKernel_ptsz, (CU_GRID, void **j))                                                  \
    F(int, nvrtcCreateProgram,                                                                                        \
      (void **a, const char *b, const char *c, int d, const char *const *e, const char *const *f))                    \
    F(int, nvrtcCompileProgram, (void *a, int b, const char *const *c))                                               \
    F(int, nvrtcAddNameExpression, (void *a, const char *b))                                                          \
    F(int, nvrtcGetPTX, (void *a, char *b))                                                                           \
    F(int, nvrtcGetCUBIN, (void *a, char *b))                                                                         \
    F(int, nvrtcDestroyProgram, (void **a))

/* Called, not stood before. */
#define CU_NEEDED(F)                                                                                                  \
    F(CuStatus, cuCtxSynchronize, (void))                                                                             \
    F(CuStatus, cuCtxGetDevice, (int *a))                                                                             \
    F(CuStatus, cuCtxGetCurrent, (void **a))                                                                          \
    F(CuStatus, cuFuncSetAttribute, (void *a, int b, int c))                                                          \
    F(CuStatus, cuMemcpyDtoDAsync_v2, (CuPointer a, CuPointer b, size_t c, void *d))                                  \
    F(CuStatus, cuMemcpyDtoDAsync_v2_ptsz, (CuPointer a, CuPointer b, size_t c, void *d))                             \
    F(CuStatus, cuDeviceGetName, (char *a, int b, int c))                                                             \
    F(CuStatus, cuDriverGetVersion, (int *a))                                                                         \
    F(CuStatus, cuFuncGetParamInfo, (void *a, size_t b, size_t *c, size_t *d))                                        \
    F(CuStatus, cuKernelGetParamInfo, (void *a, size_t b, size_t *c, size_t *d))                                      \
    F(CuStatus, cuFuncGetName, (const char **a, void *b))                                                             \
    F(CuStatus, cuFuncGetModule, (void **a, void *b))                                                                 \
    F(CuStatus, cuMemcpyDtoH_v2, (void *a, CuPointer b, size_t c))                                                    \
    F(CuStatus, cuPointerGetAttribute, (void *a, int b, CuPointer c))                                                 \
    F(CuStatus, cuMemHostGetDevicePointer_v2, (CuPointer *a, void *b, unsigned c))                                    \
    F(CuStatus, cuEventCreate, (void **a, unsigned b))                                                                \
    F(CuStatus, cuEventRecord, (void *a, void *b))                                                                    \
    F(CuStatus, cuEventRecord_ptsz, (void *a, void *b))                                                               \
    F(CuStatus, cuEventSynchronize, (void *a))                                                                        \
    F(CuStatus, cuEventElapsedTime, (float *a, void *b, void *c))                                                     \
    F(CuStatus, cuEventDestroy_v2, (void *a))                                                                         \
    F(CuStatus, cuStreamIsCapturing, (void *a, int *b))                                                               \
    F(int, nvrtcGetPTXSize, (void *a, size_t *b))                                                                     \
    F(int, nvrtcGetCUBINSize, (void *a, size_t *b))                                                                   \
    F(int, nvrtcGetLoweredName, (void *a, const char *b, const char **c))

#define CU_DECLARE(R, NAME, P) EXPORT R NAME P;
CU_FUNCTIONS(CU_DECLARE)
#define CU_SLOT(R, NAME, P) R (*NAME) P;
static struct { CU_FUNCTIONS(CU_SLOT) CU_NEEDED(CU_SLOT) } cu;
#define CU_WRAPPED(R, NAME, P) {#NAME, (void *)NAME, (void **)&cu.NAME},
#define CU_PLAIN(R, NAME, P) {#NAME, NULL, (void **)&cu.NAME},
static const Name cu_names[] = {CU_FUNCTIONS(CU_WRAPPED) CU_NEEDED(CU_PLAIN)};
#define CU_NAMES (sizeof cu_names / sizeof *cu_names)

static int is_cuda(struct loaded *object, size_t size, void *wanted)
{
    void **found = wanted;
    (void)size;
    if (!object->name) return 0;
    if (!found[0] && strstr(object->name, "libcuda.so")) found[0] = dlopen(object->name, 0x1 | 0x4);
    if (!found[1] && strstr(object->name, "libnvrtc.so")) found[1] = dlopen(object->name, 0x1 | 0x4);
    return 0;
}

static void cu_find(int nvrtc, int *done)
{
    begin();
    if (__atomic_load_n(done, __ATOMIC_ACQUIRE)) return;
    void *libraries[2] = {NULL, NULL};
    dl_iterate_phdr(is_cuda, libraries);
    for (size_t i = 0; libraries[nvrtc] && i < CU_NAMES; i++) {
        if ((cu_names[i].name[0] == 'n') != nvrtc || *cu_names[i].slot) continue;
        void *found = real_dlsym(libraries[nvrtc], cu_names[i].name);
        if (found != cu_names[i].wrapper) *cu_names[i].slot = found;
    }
    __atomic_store_n(done, libraries[nvrtc] != NULL, __ATOMIC_RELEASE);
}

static void cu_resolve(void) { static int done; cu_find(0, &done); }
static void nvrtc_resolve(void) { static int done; cu_find(1, &done); }

#define CU_PASS(NAME, ...) (cu_resolve(), cu.NAME ? cu.NAME(__VA_ARGS__) : CU_NOT_FOUND)
#define CU_THEN(DO) if (status == CU_SUCCESS) { DO; } return status
#define NVRTC_PASS(NAME, ...) (nvrtc_resolve(), cu.NAME ? cu.NAME(__VA_ARGS__) : NVRTC_MISSING)

/* ---- names that are asked for without the version that the driver decides on ---- */

static const Name *cu_name(const char *name)
{
    for (size_t i = 0; i < CU_NAMES; i++)
        if (!strcmp(cu_names[i].name, name)) return &cu_names[i];
    return NULL;
}

static void answer_with_wrapper(const char *asked, void **answer, int version, uint64_t flags)
{
    static const char *per_thread[] = {"%s_v2_ptsz", "%s_ptsz", "%s_v2", "%s"};
    char name[128];
    if (inside || !answer || !*answer) return;
    for (int i = flags & CU_PER_THREAD_STREAM ? 0 : 2; i < 4; i++) {
        snprintf(name, sizeof name, per_thread[i], asked);
        if (!strcmp(name, "cuGetProcAddress_v2") && version < CU_NEWEST_OLD_VERSION) continue;
        if (!strcmp(name, "cuGraphAddKernelNode_v2") && version < CU_NEWEST_OLD_VERSION) continue;
        const Name *found = cu_name(name);
        if (!found || !found->wrapper) continue;
        if (*answer == found->wrapper) return;
        if (!*found->slot) *found->slot = *answer;
        *answer = found->wrapper;
        return;
    }
}

EXPORT CuStatus cuGetProcAddress(const char *a, void **b, int c, uint64_t d)
{ CuStatus status = CU_PASS(cuGetProcAddress, a, b, c, d); CU_THEN(answer_with_wrapper(a, b, c, d)); }
EXPORT CuStatus cuGetProcAddress_v2(const char *a, void **b, int c, uint64_t d, int *e)
{ CuStatus status = CU_PASS(cuGetProcAddress_v2, a, b, c, d, e); CU_THEN(answer_with_wrapper(a, b, c, d)); }
