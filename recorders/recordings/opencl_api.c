/* OpenCL: its functions, those of the application's own loader, and what is remembered of the application's objects.
 *
 * Follows plan.c. Modes are list, record, and apply.
 */

typedef void *Handle;
typedef int32_t Status;
typedef uint32_t Count;

enum {
    SUCCESS = 0,
    QUEUE_CONTEXT = 0x1090, QUEUE_DEVICE = 0x1091,
    MEM_TYPE = 0x1100, MEM_FLAGS = 0x1101, MEM_SIZE = 0x1102, MEM_REFERENCES = 0x1105, MEM_PARENT = 0x1107, MEM_OFFSET = 0x1108,
    PROGRAM_CONTEXT = 0x1161, PROGRAM_DEVICES = 0x1163, PROGRAM_SOURCE = 0x1164, PROGRAM_OPTIONS = 0x1182, PROGRAM_VARIABLES = 0x1185, KERNEL_PROGRAM = 0x1194,
    KERNEL_NAME = 0x1190, KERNEL_ARGUMENTS = 0x1191, KERNEL_REFERENCES = 0x1192, KERNEL_CONTEXT = 0x1193,
    CONTEXT_DEVICES = 0x1081,
    ARGUMENT_ADDRESS = 0x1196, ADDRESS_LOCAL = 0x119C, ADDRESS_PRIVATE = 0x119E,
    TYPE_BUFFER = 0x10F0, TYPE_PIPE = 0x10F7,
    DEVICE_NAME = 0x102B, DEVICE_PLATFORM = 0x1031, DRIVER_VERSION = 0x102D, PLATFORM_NAME = 0x0902,
    MEM_READ_WRITE = 1, NO_SUCH_CALL = -59,
    NAME_BYTES = 1024 /* of a kernel: names of templates are long */
};

#define FUNCTIONS(F)                                                                                                  \
    F(Handle, clCreateProgramWithSource, (Handle a, Count b, const char **c, const size_t *d, Status *e))             \
    F(Handle, clCreateProgramWithIL, (Handle a, const void *b, size_t c, Status *d))                                  \
    F(Status, clSetProgramSpecializationConstant, (Handle a, Count b, size_t c, const void *d))                       \
    F(Handle, clCreateProgramWithBinary,                                                                              \
      (Handle a, Count b, const Handle *c, const size_t *d, const unsigned char **e, Status *f, Status *g))           \
    F(Status, clBuildProgram,                                                                                         \
      (Handle a, Count b, const Handle *c, const char *d, void (*e)(Handle, void *), void *f))                        \
    F(Status, clCompileProgram,                                                                                       \
      (Handle a, Count b, const Handle *c, const char *d, Count e, const Handle *f, const char **g,                   \
       void (*h)(Handle, void *), void *i))                                                                           \
    F(Handle, clCreateKernel, (Handle a, const char *b, Status *c))                                                   \
    F(Status, clCreateKernelsInProgram, (Handle a, Count b, Handle *c, Count *d))                                     \
    F(Handle, clCloneKernel, (Handle a, Status *b))                                                                   \
    F(Status, clReleaseKernel, (Handle a))                                                                            \
    F(Status, clSetKernelArg, (Handle a, Count b, size_t c, const void *d))                                           \
    F(Status, clSetKernelArgSVMPointer, (Handle a, Count b, const void *c))                                           \
    F(Status, clSetKernelExecInfo, (Handle a, Count b, size_t c, const void *d))                                      \
    F(Status, clEnqueueNDRangeKernel,                                                                                 \
      (Handle a, Handle b, Count c, const size_t *d, const size_t *e, const size_t *f, Count g, const Handle *h,      \
       Handle *i))                                                                                                    \
    F(Status, clEnqueueTask, (Handle a, Handle b, Count c, const Handle *d, Handle *e))                               \
    F(Handle, clCreateBuffer, (Handle a, uint64_t b, size_t c, void *d, Status *e))                                   \
    F(Handle, clCreateBufferWithProperties,                                                                           \
      (Handle a, const uint64_t *b, uint64_t c, size_t d, void *e, Status *f))                                        \
    F(Status, clReleaseMemObject, (Handle a))                                                                         \
    F(Handle, clCreateSubBuffer, (Handle a, uint64_t b, Count c, const void *d, Status *e))                           \
    F(Handle, clCreateImage, (Handle a, uint64_t b, const void *c, const void *d, void *e, Status *f))                \
    F(Handle, clCreateImageWithProperties,                                                                            \
      (Handle a, const uint64_t *b, uint64_t c, const void *d, const void *e, void *f, Status *g))                    \
    F(Handle, clCreateImage2D,                                                                                        \
      (Handle a, uint64_t b, const void *c, size_t d, size_t e, size_t f, void *g, Status *h))                        \
    F(Handle, clCreateImage3D,                                                                                        \
      (Handle a, uint64_t b, const void *c, size_t d, size_t e, size_t f, size_t g, size_t h, void *i, Status *j))    \
    F(Handle, clCreatePipe, (Handle a, uint64_t b, Count c, Count d, const void *e, Status *f))                       \
    F(Handle, clCreateSampler, (Handle a, Count b, Count c, Count d, Status *e))                                      \
    F(Handle, clCreateSamplerWithProperties, (Handle a, const uint64_t *b, Status *c))                                \
    F(Handle, clCreateCommandQueue, (Handle a, Handle b, uint64_t c, Status *d))                                      \
    F(Handle, clCreateCommandQueueWithProperties, (Handle a, Handle b, const uint64_t *c, Status *d))                 \
    F(Status, clRetainCommandQueue, (Handle a))                                                                       \
    F(Status, clReleaseCommandQueue, (Handle a))                                                                      \
    F(Handle, clCreateUserEvent, (Handle a, Status *b))                                                               \
    F(Status, clSetUserEventStatus, (Handle a, Status b))                                                             \
    F(Handle, clLinkProgram,                                                                                          \
      (Handle a, Count b, const Handle *c, const char *d, Count e, const Handle *f, void (*g)(Handle, void *),        \
       void *h, Status *i))                                                                                           \
    F(Handle, clCreateProgramWithBuiltInKernels, (Handle a, Count b, const Handle *c, const char *d, Status *e))      \
    F(void *, clGetExtensionFunctionAddress, (const char *a))                                                         \
    F(void *, clGetExtensionFunctionAddressForPlatform, (Handle a, const char *b))

/* Called, not stood before. */
#define NEEDED(F)                                                                                                     \
    F(Status, clFinish, (Handle a))                                                                                   \
    F(Status, clRetainMemObject, (Handle a))                                                                          \
    F(Status, clGetProgramInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                    \
    F(Status, clGetProgramBuildInfo, (Handle a, Handle b, Count c, size_t d, void *e, size_t *f))                     \
    F(Status, clReleaseProgram, (Handle a))                                                                           \
    F(Status, clGetCommandQueueInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                               \
    F(Status, clGetMemObjectInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                  \
    F(Status, clGetKernelInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                     \
    F(Status, clGetKernelArgInfo, (Handle a, Count b, Count c, size_t d, void *e, size_t *f))                         \
    F(Status, clGetDeviceInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                     \
    F(Status, clGetPlatformInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                   \
    F(Status, clGetContextInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                    \
    F(Status, clEnqueueReadBuffer,                                                                                    \
      (Handle a, Handle b, Count c, size_t d, size_t e, void *f, Count g, const Handle *h, Handle *i))                \
    F(Status, clEnqueueCopyBuffer,                                                                                    \
      (Handle a, Handle b, Handle c, size_t d, size_t e, size_t f, Count g, const Handle *h, Handle *i))

#define DECLARE(R, NAME, P) EXPORT R NAME P;
FUNCTIONS(DECLARE)
#define SLOT(R, NAME, P) R (*NAME) P;
static struct { FUNCTIONS(SLOT) NEEDED(SLOT) } real;
#define WRAPPED(R, NAME, P) {#NAME, (void *)NAME, (void **)&real.NAME},
#define PLAIN(R, NAME, P) {#NAME, NULL, (void **)&real.NAME},
static const Name names[] = {FUNCTIONS(WRAPPED) NEEDED(PLAIN)};
#define NAMES (sizeof names / sizeof *names)

/* ---- state ---- */

typedef struct {
    char *text;      /* source or IL */
    size_t size;
    char form[8];    /* "source", "il", "binary", "" where it was made in a way that is not followed */
    char *options;
    int parts;       /* compiled apart and linked */
    int special;     /* constants of the IL were given values */
    int variables;   /* its source has some in global memory */
    int several;     /* built more than once, with other options */
    Handle *others;  /* by winner: the program that holds it, where this one is the recorded */
} Program;

/* svm: 1 for shared virtual memory, 2 for what an extension calls by another name.
 * held: the memory object, which the application may give back while the kernel still has it */
typedef struct { int set, svm; size_t size; unsigned char *value; Handle held; } Argument;

/* A kernel that stands beside the application's own, with the same arguments; NULL where it cannot. */
typedef struct { Winner *winner; Handle kernel; } Beside;

typedef struct {
    Program *program;
    Argument *arguments;
    Count count;
    int followed;    /* whether its launches may be looked at, so that memory is held for it */
    int indirect;    /* clSetKernelExecInfo was called */
    Beside *beside;  /* one for each winner that may take its place */
    int beside_count;
} Kernel;

enum { BUFFER = 1, IMAGE, PIPE, SAMPLER, QUEUE };

static Table programs, kernels, objects, queues, pending, counting;

static int is_loader(struct loaded *object, size_t size, void *found)
{
    (void)size;
    if (!object->name || !strstr(object->name, "libOpenCL")) return 0;
    *(void **)found = dlopen(object->name, 0x1 | 0x4);
    return *(void **)found != NULL;
}

static void resolve(void)
{
    static int done;
    begin();
    if (__atomic_load_n(&done, __ATOMIC_ACQUIRE)) return;
    void *loader = NULL;
    /* An application that loads OpenCL for itself keeps it out of the global scope. */
    dl_iterate_phdr(is_loader, &loader);
    for (size_t i = 0; i < NAMES; i++) {
        void *found = loader ? real_dlsym(loader, names[i].name) : NULL;
        if (!embedded && (!found || found == names[i].wrapper)) found = real_dlsym(NEXT, names[i].name);
        if (found && found != names[i].wrapper && !*names[i].slot) *names[i].slot = found;
    }
    __atomic_store_n(&done, loader || real.clFinish, __ATOMIC_RELEASE);
}
