/* Stands between an unmodified application and its OpenCL loader (LD_PRELOAD): lists launches, records some of them,
 * or launches another kernel in the place of one.
 *
 * It never changes what the application computes: every call is passed on as it came, and with a kernel put in place
 * the application's own is launched wherever the other does not fit. Follows common.c, whose words it uses. Modes are
 * list, record, and apply, for which TUNER_RECORD_PLAN names the folder with what is put in place.
 */

/* ---- OpenCL ---- */

typedef void *Handle;
typedef int32_t Status;
typedef uint32_t Count;

enum {
    SUCCESS = 0,
    QUEUE_CONTEXT = 0x1090, QUEUE_DEVICE = 0x1091, QUEUE_REFERENCES = 0x1092,
    MEM_FLAGS = 0x1101, MEM_SIZE = 0x1102, MEM_PARENT = 0x1107, MEM_OFFSET = 0x1108,
    PROGRAM_CONTEXT = 0x1161, KERNEL_NAME = 0x1190, KERNEL_ARGUMENTS = 0x1191, KERNEL_REFERENCES = 0x1192,
    ARGUMENT_ADDRESS = 0x1196, ADDRESS_LOCAL = 0x119C, ADDRESS_PRIVATE = 0x119E,
    DEVICE_NAME = 0x102B, DEVICE_PLATFORM = 0x1031, DRIVER_VERSION = 0x102D, PLATFORM_NAME = 0x0902,
    MEM_READ_WRITE = 1
};

#define FUNCTIONS(F)                                                                                                  \
    F(Handle, clCreateProgramWithSource, (Handle a, Count b, const char **c, const size_t *d, Status *e))             \
    F(Handle, clCreateProgramWithIL, (Handle a, const void *b, size_t c, Status *d))                                  \
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
    F(Status, clReleaseCommandQueue, (Handle a))                                                                      \
    F(Handle, clCreateUserEvent, (Handle a, Status *b))                                                               \
    F(Status, clSetUserEventStatus, (Handle a, Status b))

/* Called, not stood before. */
#define NEEDED(F)                                                                                                     \
    F(Status, clFinish, (Handle a))                                                                                   \
    F(Status, clRetainCommandQueue, (Handle a))                                                                       \
    F(Status, clReleaseMemObject, (Handle a))                                                                         \
    F(Status, clGetProgramInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                    \
    F(Status, clReleaseProgram, (Handle a))                                                                           \
    F(Status, clGetCommandQueueInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                               \
    F(Status, clGetMemObjectInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                  \
    F(Status, clGetKernelInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                     \
    F(Status, clGetKernelArgInfo, (Handle a, Count b, Count c, size_t d, void *e, size_t *f))                         \
    F(Status, clGetDeviceInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                     \
    F(Status, clGetPlatformInfo, (Handle a, Count b, size_t c, void *d, size_t *e))                                   \
    F(void *, clGetExtensionFunctionAddressForPlatform, (Handle a, const char *b))                                    \
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
static const struct { const char *name; void *wrapper; void **slot; } names[] = {FUNCTIONS(WRAPPED) NEEDED(PLAIN)};
#define NAMES (sizeof names / sizeof *names)

/* ---- state ---- */

typedef struct {
    char *text;      /* source or IL */
    size_t size;
    char form[8];    /* "source", "il", "binary", "" where it was made in a way that is not followed */
    char *options;
    int parts;       /* compiled apart and linked */
    Handle other;    /* the program put in its place */
} Program;

typedef struct { int set, svm; size_t size; unsigned char *value; } Argument;

typedef struct {
    Program *program;
    Argument *arguments;
    Count count;
    int indirect;    /* clSetKernelExecInfo was called */
    Handle other;    /* the kernel put in its place, with the same arguments */
} Kernel;

enum { BUFFER = 1, IMAGE, PIPE, SAMPLER };

typedef struct { Handle key; void *value; } Entry;
typedef struct { Entry *entries; size_t room, used; } Table;

static Table programs, kernels, objects, queues, pending;
static int lock, mode_apply;
static uint64_t *counters; /* replaced, left as they were */

static Entry *find(Table *table, Handle key)
{
    if (!table->room) return NULL;
    size_t at = ((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < table->room; i++) {
        Entry *entry = &table->entries[(at + i) & (table->room - 1)];
        if (entry->key == key || !entry->key) return entry;
    }
    return NULL;
}

static void *get(Table *table, Handle key)
{
    acquire(&lock);
    Entry *entry = key ? find(table, key) : NULL;
    void *value = entry && entry->key ? entry->value : NULL;
    release(&lock);
    return value;
}

/* A value of NULL forgets the key, which keeps its place. */
static void put(Table *table, Handle key, void *value)
{
    if (!key) return;
    acquire(&lock);
    if (2 * (table->used + 1) > table->room) {
        Table bigger = {calloc(table->room ? 2 * table->room : 64, sizeof(Entry)), table->room ? 2 * table->room : 64, 0};
        for (size_t i = 0; bigger.entries && i < table->room; i++)
            if (table->entries[i].key && table->entries[i].value) {
                *find(&bigger, table->entries[i].key) = table->entries[i];
                bigger.used++;
            }
        if (bigger.entries) { free(table->entries); *table = bigger; }
    }
    Entry *entry = find(table, key);
    if (entry) {
        if (!entry->key) table->used++;
        entry->key = key;
        entry->value = value;
    }
    release(&lock);
}

static char *copy_of(const void *data, size_t size)
{
    char *copy = malloc(size + 1);
    if (copy) { memcpy(copy, data, size); copy[size] = 0; }
    return copy;
}

static char *read_file(const char *folder, const char *name, size_t *size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, READ_ONLY | CLOEXEC);
    size_t room = 1 << 16, used = 0;
    char *data = file < 0 ? NULL : malloc(room);
    while (data) {
        ssize_t got = read(file, data + used, room - used - 1);
        if (got <= 0) break;
        used += (size_t)got;
        if (used + 1 == room) {
            char *bigger = malloc(2 * room);
            if (bigger) memcpy(bigger, data, used);
            free(data);
            data = bigger;
            room *= 2;
        }
    }
    if (file >= 0) close(file);
    if (data) data[used] = 0;
    if (size) *size = used;
    return data;
}

static struct { char *kernel, *old_text, *old_options, *new_text, *new_options; size_t old_size, new_size, local[3]; } plan;

static void read_plan(const char *folder)
{
    plan.kernel = read_file(folder, "kernel", NULL);
    plan.old_text = read_file(folder, "original.cl", &plan.old_size);
    plan.old_options = read_file(folder, "original.options", NULL);
    plan.new_text = read_file(folder, "winner.cl", &plan.new_size);
    plan.new_options = read_file(folder, "winner.options", NULL);
    char *local = read_file(folder, "winner.local", NULL), *end = local;
    for (int i = 0; end && i < 3; i++) plan.local[i] = strtoul(end, &end, 10);
    free(local);
    mode_apply = plan.kernel && plan.old_text && plan.old_options && plan.new_text && plan.new_options && local;
}

static void begin_more(const char *mode)
{
    char path[4096];
    if (strcmp(mode, "apply") || !getenv("TUNER_RECORD_PLAN")) return;
    read_plan(getenv("TUNER_RECORD_PLAN"));
    snprintf(path, sizeof path, "%s/counters-%d", out_folder, getpid());
    int file = open(path, READ_WRITE | CREATE | CLOEXEC, 0600);
    if (file >= 0 && !ftruncate(file, 4096)) counters = mmap(NULL, 4096, 3, 1, file, 0);
    if (file >= 0) close(file);
    if (counters == (void *)-1L) counters = NULL;
}

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
        if (!found || found == names[i].wrapper) found = real_dlsym(NEXT, names[i].name);
        if (found && found != names[i].wrapper && !*names[i].slot) *names[i].slot = found;
    }
    __atomic_store_n(&done, loader || real.clFinish, __ATOMIC_RELEASE);
}

/* A name asked for by itself is answered with what stands before it. */
EXPORT void *dlsym(void *handle, const char *name)
{
    begin();
    if (name[0] == 'c' && name[1] == 'l' && !inside)
        for (size_t i = 0; i < NAMES; i++)
            if (names[i].wrapper && !strcmp(names[i].name, name)) {
                void *found = real_dlsym(handle, name);
                if (found && found != names[i].wrapper && !*names[i].slot) *names[i].slot = found;
                return found ? names[i].wrapper : NULL;
            }
    __attribute__((musttail)) return real_dlsym(handle, name);
}

/* ---- what the application makes ---- */

#define PASS(NAME, ...) (resolve(), real.NAME(__VA_ARGS__))

static Handle made(Handle object, int kind)
{
    if (object && !inside) put(&objects, object, (void *)(uintptr_t)kind);
    return object;
}

EXPORT Handle clCreateBuffer(Handle a, uint64_t b, size_t c, void *d, Status *e)
{ return made(PASS(clCreateBuffer, a, b, c, d, e), BUFFER); }
EXPORT Handle clCreateBufferWithProperties(Handle a, const uint64_t *b, uint64_t c, size_t d, void *e, Status *f)
{ return made(PASS(clCreateBufferWithProperties, a, b, c, d, e, f), BUFFER); }
EXPORT Handle clCreateSubBuffer(Handle a, uint64_t b, Count c, const void *d, Status *e)
{ return made(PASS(clCreateSubBuffer, a, b, c, d, e), BUFFER); }
EXPORT Handle clCreateImage(Handle a, uint64_t b, const void *c, const void *d, void *e, Status *f)
{ return made(PASS(clCreateImage, a, b, c, d, e, f), IMAGE); }
EXPORT Handle clCreateImageWithProperties(
    Handle a, const uint64_t *b, uint64_t c, const void *d, const void *e, void *f, Status *g)
{ return made(PASS(clCreateImageWithProperties, a, b, c, d, e, f, g), IMAGE); }
EXPORT Handle clCreateImage2D(Handle a, uint64_t b, const void *c, size_t d, size_t e, size_t f, void *g, Status *h)
{ return made(PASS(clCreateImage2D, a, b, c, d, e, f, g, h), IMAGE); }
EXPORT Handle clCreateImage3D(
    Handle a, uint64_t b, const void *c, size_t d, size_t e, size_t f, size_t g, size_t h, void *i, Status *j)
{ return made(PASS(clCreateImage3D, a, b, c, d, e, f, g, h, i, j), IMAGE); }
EXPORT Handle clCreatePipe(Handle a, uint64_t b, Count c, Count d, const void *e, Status *f)
{ return made(PASS(clCreatePipe, a, b, c, d, e, f), PIPE); }
EXPORT Handle clCreateSampler(Handle a, Count b, Count c, Count d, Status *e)
{ return made(PASS(clCreateSampler, a, b, c, d, e), SAMPLER); }
EXPORT Handle clCreateSamplerWithProperties(Handle a, const uint64_t *b, Status *c)
{ return made(PASS(clCreateSamplerWithProperties, a, b, c), SAMPLER); }

static Handle queue_made(Handle queue)
{
    if (queue && !inside) put(&queues, queue, queue);
    return queue;
}

EXPORT Handle clCreateCommandQueue(Handle a, Handle b, uint64_t c, Status *d)
{ return queue_made(PASS(clCreateCommandQueue, a, b, c, d)); }
EXPORT Handle clCreateCommandQueueWithProperties(Handle a, Handle b, const uint64_t *c, Status *d)
{ return queue_made(PASS(clCreateCommandQueueWithProperties, a, b, c, d)); }

EXPORT Status clReleaseCommandQueue(Handle a)
{
    Count references = 0;
    resolve();
    if (!inside && get(&queues, a) &&
        real.clGetCommandQueueInfo(a, QUEUE_REFERENCES, sizeof references, &references, NULL) == SUCCESS && references == 1)
        put(&queues, a, NULL);
    return real.clReleaseCommandQueue(a);
}

EXPORT Handle clCreateUserEvent(Handle a, Status *b)
{
    Handle event = PASS(clCreateUserEvent, a, b);
    if (!inside) put(&pending, event, event);
    return event;
}

EXPORT Status clSetUserEventStatus(Handle a, Status b)
{
    if (!inside) put(&pending, a, NULL);
    return PASS(clSetUserEventStatus, a, b);
}

static Program *program_made(Handle handle, const char *form, char *text, size_t size)
{
    Program *program = handle && !inside ? calloc(1, sizeof *program) : NULL;
    if (program) {
        snprintf(program->form, sizeof program->form, "%s", form);
        program->text = text;
        program->size = size;
        put(&programs, handle, program);
    }
    return program;
}

EXPORT Handle clCreateProgramWithSource(Handle a, Count b, const char **c, const size_t *d, Status *e)
{
    Handle handle = PASS(clCreateProgramWithSource, a, b, c, d, e);
    if (!handle || inside) return handle;
    size_t size = 0;
    for (Count i = 0; i < b; i++) size += d && d[i] ? d[i] : strlen(c[i]);
    char *text = malloc(size + 1);
    if (!text) return handle;
    size = 0;
    for (Count i = 0; i < b; i++) {
        size_t part = d && d[i] ? d[i] : strlen(c[i]);
        memcpy(text + size, c[i], part);
        size += part;
    }
    /* Some applications count the zero at the end. */
    while (size && !text[size - 1]) size--;
    text[size] = 0;
    program_made(handle, "source", text, size);
    return handle;
}

EXPORT Handle clCreateProgramWithIL(Handle a, const void *b, size_t c, Status *d)
{
    Handle handle = PASS(clCreateProgramWithIL, a, b, c, d);
    if (handle && !inside) program_made(handle, "il", copy_of(b, c), c);
    return handle;
}

EXPORT Handle clCreateProgramWithBinary(
    Handle a, Count b, const Handle *c, const size_t *d, const unsigned char **e, Status *f, Status *g)
{
    Handle handle = PASS(clCreateProgramWithBinary, a, b, c, d, e, f, g);
    program_made(handle, "binary", NULL, 0);
    return handle;
}

static int is_replaced(const Program *program)
{
    return mode_apply && !strcmp(program->form, "source") && !program->parts && program->size == plan.old_size &&
           !memcmp(program->text, plan.old_text, plan.old_size) &&
           !strcmp(program->options ? program->options : "", plan.old_options);
}

/* The winner's program in the context of the one that the application has built, for the same devices. */
static void build_other(Handle handle, Program *program, Count count, const Handle *devices)
{
    Handle context = NULL;
    Status status = -1;
    if (!is_replaced(program) || program->other) return;
    inside++;
    if (real.clGetProgramInfo(handle, PROGRAM_CONTEXT, sizeof context, &context, NULL) == SUCCESS) {
        const char *text = plan.new_text;
        Handle other = real.clCreateProgramWithSource(context, 1, &text, &plan.new_size, &status);
        if (other) {
            status = real.clBuildProgram(other, count, devices, plan.new_options, NULL, NULL);
            if (status == SUCCESS) program->other = other;
            else real.clReleaseProgram(other);
        }
    }
    inside--;
    if (!program->other) say("problem\tthe winner does not build here (OpenCL error %d)", status);
    else say("built");
}

EXPORT Status clBuildProgram(Handle a, Count b, const Handle *c, const char *d, void (*e)(Handle, void *), void *f)
{
    resolve();
    Program *program = inside ? NULL : get(&programs, a);
    if (program) program->options = copy_of(d ? d : "", strlen(d ? d : ""));
    Status status = real.clBuildProgram(a, b, c, d, e, f);
    if (program && mode_apply && (status == SUCCESS || e)) build_other(a, program, b, c);
    return status;
}

EXPORT Status clCompileProgram(
    Handle a, Count b, const Handle *c, const char *d, Count e, const Handle *f, const char **g,
    void (*h)(Handle, void *), void *i)
{
    resolve();
    Program *program = inside ? NULL : get(&programs, a);
    if (program) program->parts = 1;
    return real.clCompileProgram(a, b, c, d, e, f, g, h, i);
}

static void kernel_made(Handle handle, Program *program)
{
    Kernel *kernel = handle && !inside ? calloc(1, sizeof *kernel) : NULL;
    if (!kernel) return;
    kernel->program = program;
    if (real.clGetKernelInfo(handle, KERNEL_ARGUMENTS, sizeof kernel->count, &kernel->count, NULL) != SUCCESS)
        kernel->count = 0;
    kernel->arguments = calloc(kernel->count + 1, sizeof(Argument));
    if (!kernel->arguments) kernel->count = 0;
    char name[512] = "";
    if (program && program->other && real.clGetKernelInfo(handle, KERNEL_NAME, sizeof name, name, NULL) == SUCCESS &&
        !strcmp(name, plan.kernel)) {
        Status status;
        kernel->other = real.clCreateKernel(program->other, name, &status);
        if (!kernel->other) say("problem\tthe winner has no kernel %s (OpenCL error %d)", name, status);
    }
    put(&kernels, handle, kernel);
}

EXPORT Handle clCreateKernel(Handle a, const char *b, Status *c)
{
    Handle handle = PASS(clCreateKernel, a, b, c);
    if (!inside) kernel_made(handle, get(&programs, a));
    return handle;
}

EXPORT Status clCreateKernelsInProgram(Handle a, Count b, Handle *c, Count *d)
{
    Count count = 0;
    Status status = PASS(clCreateKernelsInProgram, a, b, c, &count);
    if (d) *d = count;
    if (status == SUCCESS && c && !inside)
        for (Count i = 0; i < count; i++) kernel_made(c[i], get(&programs, a));
    return status;
}

static void set_argument(Kernel *kernel, Count at, size_t size, const void *value, int svm)
{
    if (at >= kernel->count) return;
    acquire(&lock);
    Argument *argument = &kernel->arguments[at];
    free(argument->value);
    *argument = (Argument){1, svm, size, value && !svm ? (unsigned char *)copy_of(value, size) : NULL};
    release(&lock);
}

EXPORT Handle clCloneKernel(Handle a, Status *b)
{
    Handle handle = PASS(clCloneKernel, a, b);
    Kernel *from = inside ? NULL : get(&kernels, a);
    if (!handle || !from) return handle;
    kernel_made(handle, from->program);
    Kernel *to = get(&kernels, handle);
    for (Count i = 0; to && i < from->count && i < to->count; i++)
        if (from->arguments[i].set) {
            Argument *given = &from->arguments[i];
            set_argument(to, i, given->size, given->value, given->svm);
            if (to->other && !given->svm) real.clSetKernelArg(to->other, i, given->size, given->value);
        }
    if (to) to->indirect = from->indirect;
    return handle;
}

EXPORT Status clReleaseKernel(Handle a)
{
    Count references = 0;
    resolve();
    Kernel *kernel = inside ? NULL : get(&kernels, a);
    if (kernel && real.clGetKernelInfo(a, KERNEL_REFERENCES, sizeof references, &references, NULL) == SUCCESS &&
        references == 1) {
        put(&kernels, a, NULL);
        if (kernel->other) real.clReleaseKernel(kernel->other);
        for (Count i = 0; i < kernel->count; i++) free(kernel->arguments[i].value);
        free(kernel->arguments);
        free(kernel);
    }
    return real.clReleaseKernel(a);
}

EXPORT Status clSetKernelArg(Handle a, Count b, size_t c, const void *d)
{
    Status status = PASS(clSetKernelArg, a, b, c, d);
    Kernel *kernel = inside || status != SUCCESS ? NULL : get(&kernels, a);
    if (!kernel) return status;
    set_argument(kernel, b, c, d, 0);
    if (kernel->other) {
        Status other = real.clSetKernelArg(kernel->other, b, c, d);
        if (other != SUCCESS) {
            say("problem\tthe winner does not take argument %u (OpenCL error %d)", b, other);
            kernel->other = NULL;
        }
    }
    return status;
}

EXPORT Status clSetKernelArgSVMPointer(Handle a, Count b, const void *c)
{
    Status status = PASS(clSetKernelArgSVMPointer, a, b, c);
    Kernel *kernel = inside || status != SUCCESS ? NULL : get(&kernels, a);
    if (!kernel) return status;
    set_argument(kernel, b, sizeof c, &c, 1);
    if (kernel->other && real.clSetKernelArgSVMPointer(kernel->other, b, c) != SUCCESS) kernel->other = NULL;
    return status;
}

EXPORT Status clSetKernelExecInfo(Handle a, Count b, size_t c, const void *d)
{
    Status status = PASS(clSetKernelExecInfo, a, b, c, d);
    Kernel *kernel = inside || status != SUCCESS ? NULL : get(&kernels, a);
    if (!kernel) return status;
    kernel->indirect = 1;
    if (kernel->other && real.clSetKernelExecInfo(kernel->other, b, c, d) != SUCCESS) kernel->other = NULL;
    return status;
}

/* ---- launches ---- */

typedef struct {
    Handle queue, kernel;
    Count axes;
    const size_t *offset, *global, *local;
} Launch;

static uint64_t program_hash(const Program *program)
{
    uint64_t hash = 0xCBF29CE484222325u;
    if (program && program->text) hash = mix(hash, program->text, program->size);
    if (program && program->options) hash = mix(hash, program->options, strlen(program->options));
    return hash;
}

static Handle context_of(Handle queue)
{
    Handle context = NULL;
    real.clGetCommandQueueInfo(queue, QUEUE_CONTEXT, sizeof context, &context, NULL);
    return context;
}

/* Everything that was enqueued in this context is done afterwards. */
static void settle(Handle queue)
{
    Handle context = context_of(queue), known[256];
    size_t count = 0;
    acquire(&lock);
    for (size_t i = 0; i < queues.room && count < 256; i++)
        if (queues.entries[i].key && queues.entries[i].value && queues.entries[i].key != queue) {
            real.clRetainCommandQueue(queues.entries[i].key);
            known[count++] = queues.entries[i].key;
        }
    release(&lock);
    for (size_t i = 0; i < count; i++) {
        if (context_of(known[i]) == context) real.clFinish(known[i]);
        real.clReleaseCommandQueue(known[i]);
    }
    real.clFinish(queue);
}

static int any_pending(void)
{
    int found = 0;
    acquire(&lock);
    for (size_t i = 0; i < pending.room; i++) found |= pending.entries[i].key && pending.entries[i].value;
    release(&lock);
    return found;
}

static int kind_of(const Argument *argument)
{
    Handle handle;
    if (argument->size != sizeof handle || !argument->value) return 0;
    memcpy(&handle, argument->value, sizeof handle);
    return (int)(uintptr_t)get(&objects, handle);
}

/* The application says that there is no buffer. */
static int is_null(const Argument *argument)
{
    const Handle none = NULL;
    return argument->size == sizeof none && (!argument->value || !memcmp(argument->value, &none, sizeof none));
}

static Count address_of(Handle kernel, Count at)
{
    Count address = 0;
    if (!real.clGetKernelArgInfo ||
        real.clGetKernelArgInfo(kernel, at, ARGUMENT_ADDRESS, sizeof address, &address, NULL) != SUCCESS) return 0;
    return address;
}

/* Why a launch cannot be captured as it is; NULL when it can. */
static const char *refusal(const Launch *launch, const Kernel *kernel, int waiting)
{
    if (!kernel) return "its kernel was made in a way that is not followed";
    if (!kernel->program || !kernel->program->form[0]) return "its program was made in a way that is not followed";
    if (kernel->program->parts) return "its program is compiled in parts and linked";
    if (!strcmp(kernel->program->form, "binary")) return "its program is a binary";
    if (kernel->indirect) return "memory that it reaches through pointers (clSetKernelExecInfo)";
    if (waiting || any_pending()) return "it may wait for a user event";
    for (Count i = 0; i < kernel->count; i++) {
        const Argument *argument = &kernel->arguments[i];
        if (!argument->set) return "an argument was never set";
        if (argument->svm) return "shared virtual memory";
        int kind = kind_of(argument);
        if (kind == IMAGE) return "an image";
        if (kind == PIPE) return "a pipe";
        if (kind == SAMPLER) return "a sampler";
        Count address = address_of(launch->kernel, i);
        if (kind != BUFFER && !is_null(argument) && address && address != ADDRESS_PRIVATE && address != ADDRESS_LOCAL)
            return "a null buffer, or one made in a way that is not followed";
    }
    return NULL;
}

static uint64_t signature(const Launch *launch, const Kernel *kernel)
{
    uint64_t hash = program_hash(kernel ? kernel->program : NULL);
    hash = mix(hash, launch->global, launch->axes * sizeof(size_t));
    if (launch->local) hash = mix(hash, launch->local, launch->axes * sizeof(size_t));
    if (launch->offset) hash = mix(hash, launch->offset, launch->axes * sizeof(size_t));
    for (Count i = 0; kernel && i < kernel->count; i++) {
        const Argument *argument = &kernel->arguments[i];
        size_t size = argument->size;
        if (kind_of(argument) == BUFFER) {
            Handle memory;
            memcpy(&memory, argument->value, sizeof memory);
            real.clGetMemObjectInfo(memory, MEM_SIZE, sizeof size, &size, NULL);
        } else if (argument->value) {
            hash = mix(hash, argument->value, argument->size);
        }
        hash = mix(hash, &size, sizeof size);
    }
    return hash;
}

static Status read_memory(const Launch *launch, Handle memory, size_t at, size_t size, void *to)
{
    Status status = real.clEnqueueReadBuffer(launch->queue, memory, 1, at, size, to, 0, NULL, NULL);
    if (status == SUCCESS) return status;
    /* Buffers that the host may not read can be copied to one that it may. */
    Handle copy = real.clCreateBuffer(context_of(launch->queue), MEM_READ_WRITE, size, NULL, &status);
    if (!copy) return status;
    status = real.clEnqueueCopyBuffer(launch->queue, memory, copy, at, 0, size, 0, NULL, NULL);
    if (status == SUCCESS) status = real.clFinish(launch->queue);
    if (status == SUCCESS) status = real.clEnqueueReadBuffer(launch->queue, copy, 1, 0, size, to, 0, NULL, NULL);
    real.clReleaseMemObject(copy);
    return status;
}

static void contents(Capture *capture, const Launch *launch, const Kernel *kernel, const char *when)
{
    size_t room = 64u << 20;
    char name[64], *part = malloc(room);
    if (!part) { capture->failed = 1; return; }
    for (Count i = 0; i < kernel->count && !capture->failed; i++) {
        if (kind_of(&kernel->arguments[i]) != BUFFER) continue;
        Handle memory;
        size_t size = 0;
        memcpy(&memory, kernel->arguments[i].value, sizeof memory);
        real.clGetMemObjectInfo(memory, MEM_SIZE, sizeof size, &size, NULL);
        snprintf(name, sizeof name, "%u/%s", i, when);
        field_head(capture, name, size);
        for (size_t at = 0; at < size && !capture->failed; at += room) {
            size_t length = size - at < room ? size - at : room;
            if (read_memory(launch, memory, at, length, part) != SUCCESS) capture->failed = 2;
            else bytes_out(capture, part, length);
        }
    }
    free(part);
}

static void argument_fields(Capture *capture, const Launch *launch, const Kernel *kernel)
{
    number_field(capture, "arguments", kernel->count);
    for (Count i = 0; i < kernel->count; i++) {
        const Argument *argument = &kernel->arguments[i];
        char name[64];
        snprintf(name, sizeof name, "%u/address", i);
        number_field(capture, name, address_of(launch->kernel, i));
        if (kind_of(argument) == BUFFER) {
            Handle memory, parent = NULL;
            size_t size = 0, offset = 0;
            uint64_t flags = 0;
            memcpy(&memory, argument->value, sizeof memory);
            real.clGetMemObjectInfo(memory, MEM_SIZE, sizeof size, &size, NULL);
            real.clGetMemObjectInfo(memory, MEM_PARENT, sizeof parent, &parent, NULL);
            if (parent) real.clGetMemObjectInfo(memory, MEM_OFFSET, sizeof offset, &offset, NULL);
            real.clGetMemObjectInfo(memory, MEM_FLAGS, sizeof flags, &flags, NULL);
            uint64_t words[4] = {(uint64_t)(uintptr_t)(parent ? parent : memory), offset, size, flags};
            snprintf(name, sizeof name, "%u/buffer", i);
            field(capture, name, words, sizeof words);
        } else if (argument->value) {
            snprintf(name, sizeof name, "%u/value", i);
            field(capture, name, argument->value, argument->size);
        } else {
            snprintf(name, sizeof name, "%u/local", i);
            number_field(capture, name, argument->size);
        }
    }
}

static void device_fields(Capture *capture, const Launch *launch)
{
    Handle device = NULL, platform = NULL;
    char text[512] = "";
    real.clGetCommandQueueInfo(launch->queue, QUEUE_DEVICE, sizeof device, &device, NULL);
    real.clGetDeviceInfo(device, DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    real.clGetDeviceInfo(device, DEVICE_NAME, sizeof text, text, NULL);
    text_field(capture, "device", text);
    text[0] = 0;
    real.clGetDeviceInfo(device, DRIVER_VERSION, sizeof text, text, NULL);
    text_field(capture, "driver", text);
    text[0] = 0;
    real.clGetPlatformInfo(platform, PLATFORM_NAME, sizeof text, text, NULL);
    text_field(capture, "platform", text);
    size_t suggested[3] = {0, 0, 0};
    Status (*suggest)(Handle, Handle, Count, const size_t *, const size_t *, size_t *) = NULL;
    if (!launch->local && real.clGetExtensionFunctionAddressForPlatform)
        *(void **)&suggest =
            real.clGetExtensionFunctionAddressForPlatform(platform, "clGetKernelSuggestedLocalWorkSizeKHR");
    if (suggest && suggest(launch->queue, launch->kernel, launch->axes, launch->offset, launch->global, suggested) == SUCCESS)
        field(capture, "suggested", suggested, launch->axes * sizeof(size_t));
}

static void launch_fields(Capture *capture, const Launch *launch, const Kernel *kernel, const char *name, uint64_t sign)
{
    text_field(capture, "kernel", name);
    text_field(capture, "form", kernel->program->form);
    field(capture, "text", kernel->program->text, kernel->program->size);
    text_field(capture, "options", kernel->program->options ? kernel->program->options : "");
    number_field(capture, "signature", sign);
    field(capture, "global", launch->global, launch->axes * sizeof(size_t));
    if (launch->local) field(capture, "local", launch->local, launch->axes * sizeof(size_t));
    if (launch->offset) field(capture, "offset", launch->offset, launch->axes * sizeof(size_t));
    device_fields(capture, launch);
    argument_fields(capture, launch, kernel);
}

static int start_capture(Capture *capture, const Launch *launch, const Kernel *kernel, const char *name, uint64_t sign)
{
    if (!open_capture(capture)) return 0;
    launch_fields(capture, launch, kernel, name, sign);
    contents(capture, launch, kernel, "before");
    return 1;
}

static void end_capture(Capture *capture, const Launch *launch, const Kernel *kernel, double seconds, int good, uint64_t sign)
{
    if (good) contents(capture, launch, kernel, "after");
    close_capture(capture, seconds, good, sign);
}

static int on_user_event(Count count, const Handle *events)
{
    int found = 0;
    for (Count i = 0; i < count; i++) found |= get(&pending, events[i]) != NULL;
    return found;
}

static Status watched(const Launch *launch, Count waits, const Handle *events, Handle *event)
{
    Kernel *kernel = get(&kernels, launch->kernel);
    char name[512] = "?";
    Capture capture;
    real.clGetKernelInfo(launch->kernel, KERNEL_NAME, sizeof name, name, NULL);
    int named = mode_record && names_wanted(name), capturing = 0;
    if (mode_record && !named)
        return real.clEnqueueNDRangeKernel(
            launch->queue, launch->kernel, launch->axes, launch->offset, launch->global, launch->local, waits, events, event);
    acquire(&launch_lock);
    inside++;
    const char *why = refusal(launch, kernel, on_user_event(waits, events));
    /* What waits for a user event would never end here. */
    int still = !any_pending();
    uint64_t sign = mix(signature(launch, kernel), name, strlen(name));
    if (still) settle(launch->queue);
    if (named && !why && is_wanted(sign)) capturing = start_capture(&capture, launch, kernel, name, sign);
    double start = now();
    Status status = real.clEnqueueNDRangeKernel(
        launch->queue, launch->kernel, launch->axes, launch->offset, launch->global, launch->local, waits, events, event);
    if (still && status == SUCCESS) real.clFinish(launch->queue);
    double seconds = now() - start;
    if (capturing) end_capture(&capture, launch, kernel, seconds, status == SUCCESS, sign);
    else if (named && !why && has_room()) say("lost\tthe recording cannot be written");
    if (status == SUCCESS)
        say("launch\t%s\t%016lx\t%016lx\t%.9f\t%s", name, (unsigned long)program_hash(kernel ? kernel->program : NULL),
            (unsigned long)sign, still ? seconds : 0.0, why ? why : "");
    inside--;
    release(&launch_lock);
    return status;
}

/* The winner where its work-groups divide the grid; else the application's own kernel. */
static Status replaced(const Launch *launch, Count waits, const Handle *events, Handle *event)
{
    Kernel *kernel = get(&kernels, launch->kernel);
    const size_t *local = plan.local[0] ? plan.local : launch->local;
    int fits = kernel && kernel->other;
    for (Count i = 0; fits && plan.local[0] && i < 3; i++)
        fits = i < launch->axes ? launch->global[i] % plan.local[i] == 0 : plan.local[i] == 1;
    if (fits) {
        Status status = real.clEnqueueNDRangeKernel(
            launch->queue, kernel->other, launch->axes, launch->offset, launch->global, local, waits, events, event);
        if (status == SUCCESS) {
            if (counters) __atomic_add_fetch(&counters[0], 1, __ATOMIC_RELAXED);
            return status;
        }
        say("problem\tthe winner cannot be launched (OpenCL error %d)", status);
    }
    if (counters && kernel && kernel->program && is_replaced(kernel->program)) {
        char name[512] = "";
        real.clGetKernelInfo(launch->kernel, KERNEL_NAME, sizeof name, name, NULL);
        if (!strcmp(name, plan.kernel)) __atomic_add_fetch(&counters[1], 1, __ATOMIC_RELAXED);
    }
    return real.clEnqueueNDRangeKernel(
        launch->queue, launch->kernel, launch->axes, launch->offset, launch->global, launch->local, waits, events, event);
}

EXPORT Status clEnqueueNDRangeKernel(
    Handle a, Handle b, Count c, const size_t *d, const size_t *e, const size_t *f, Count g, const Handle *h, Handle *i)
{
    Launch launch = {a, b, c, d, e, f};
    resolve();
    if (inside || !e || c < 1 || c > 3 || !(mode_list || mode_record || mode_apply))
        return real.clEnqueueNDRangeKernel(a, b, c, d, e, f, g, h, i);
    return mode_apply ? replaced(&launch, g, h, i) : watched(&launch, g, h, i);
}

EXPORT Status clEnqueueTask(Handle a, Handle b, Count c, const Handle *d, Handle *e)
{
    const size_t one = 1;
    return clEnqueueNDRangeKernel(a, b, 1, NULL, &one, &one, c, d, e);
}
