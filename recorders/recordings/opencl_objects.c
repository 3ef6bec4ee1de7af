/* OpenCL: programs, kernels, arguments and memory objects as the application makes them. Every call is passed on as it
 * came; a kernel put in place gets the same arguments. Follows opencl_apply.c.
 */

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

/* Every queue that launches are watched beside is held here, for it may have work under way when the application gives
 * it back. The value is one more than the application's own references, so that none left is not nothing known.
 */
static Handle queue_made(Handle queue)
{
    if (queue && !inside && (mode_list || mode_record) && real.clRetainCommandQueue(queue) == SUCCESS)
        put(&queues, queue, (void *)(uintptr_t)2);
    return queue;
}

EXPORT Handle clCreateCommandQueue(Handle a, Handle b, uint64_t c, Status *d)
{ return queue_made(PASS(clCreateCommandQueue, a, b, c, d)); }
EXPORT Handle clCreateCommandQueueWithProperties(Handle a, Handle b, const uint64_t *c, Status *d)
{ return queue_made(PASS(clCreateCommandQueueWithProperties, a, b, c, d)); }

static void count_references(Handle queue, int more)
{
    acquire(&lock);
    Entry *entry = find(&queues, queue);
    uintptr_t references = entry && entry->key ? (uintptr_t)entry->value : 0;
    if (references > 1) entry->value = (void *)(references + (uintptr_t)(intptr_t)more);
    release(&lock);
}

EXPORT Status clRetainCommandQueue(Handle a)
{
    Status status = PASS(clRetainCommandQueue, a);
    if (!inside && status == SUCCESS) count_references(a, 1);
    return status;
}

EXPORT Status clReleaseCommandQueue(Handle a)
{
    resolve();
    if (!inside) count_references(a, -1);
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
    /* Without room for it, nothing older of that handle is taken for it. */
    if (handle && !inside && !program) put(&programs, handle, NULL);
    if (program) {
        snprintf(program->form, sizeof program->form, "%s", form);
        program->text = text;
        program->size = size;
        program->variables = text && (!strcmp(form, "source") ? has_variables(text) : module_has_variables(text, size));
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
    if (!text) { put(&programs, handle, NULL); return handle; }
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

EXPORT Status clSetProgramSpecializationConstant(Handle a, Count b, size_t c, const void *d)
{
    resolve();
    Program *program = inside ? NULL : get(&programs, a);
    if (program) program->special = 1;
    return real.clSetProgramSpecializationConstant(a, b, c, d);
}

EXPORT Handle clCreateProgramWithBinary(
    Handle a, Count b, const Handle *c, const size_t *d, const unsigned char **e, Status *f, Status *g)
{
    Handle handle = PASS(clCreateProgramWithBinary, a, b, c, d, e, f, g);
    program_made(handle, "binary", NULL, 0);
    return handle;
}

EXPORT Handle clCreateProgramWithBuiltInKernels(Handle a, Count b, const Handle *c, const char *d, Status *e)
{
    Handle handle = PASS(clCreateProgramWithBuiltInKernels, a, b, c, d, e);
    program_made(handle, "binary", NULL, 0);
    return handle;
}

EXPORT Handle clLinkProgram(
    Handle a, Count b, const Handle *c, const char *d, Count e, const Handle *f, void (*g)(Handle, void *), void *h, Status *i)
{
    Handle handle = PASS(clLinkProgram, a, b, c, d, e, f, g, h, i);
    Program *program = program_made(handle, "source", NULL, 0);
    if (program) program->parts = 1;
    return handle;
}

EXPORT Status clBuildProgram(Handle a, Count b, const Handle *c, const char *d, void (*e)(Handle, void *), void *f)
{
    resolve();
    Program *program = inside ? NULL : get(&programs, a);
    char *before = program ? program->options : NULL;
    if (program) program->options = copy_of(d ? d : "", strlen(d ? d : ""));
    Status status = real.clBuildProgram(a, b, c, d, e, f);
    /* A program whose kernels are in use keeps what it was built with. */
    if (program && before && status != SUCCESS) program->options = before;
    else if (program && before && b && strcmp(before, program->options ? program->options : "")) program->several = 1;
    if (program && mode_apply && (status == SUCCESS || e)) build_others(a, program, b, c);
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

static Program *adopted_program(Handle handle);

static Program *known_program(Handle handle) { return embedded ? adopted_program(handle) : get(&programs, handle); }

static void kernel_made(Handle handle, Program *program)
{
    char name[NAME_BYTES] = "";
    Kernel *kernel = handle && !inside ? calloc(1, sizeof *kernel) : NULL;
    if (handle && !inside) put(&kernels, handle, NULL);
    if (!kernel) return;
    kernel->program = program;
    int known = real.clGetKernelInfo(handle, KERNEL_ARGUMENTS, sizeof kernel->count, &kernel->count, NULL) == SUCCESS &&
                real.clGetKernelInfo(handle, KERNEL_NAME, sizeof name, name, NULL) == SUCCESS;
    if (known) kernel->arguments = calloc(kernel->count + 1, sizeof(Argument));
    if (!kernel->arguments) { free(kernel); return; }
    kernel->followed = mode_list || embedded || (mode_record && names_wanted(name));
    if (mode_apply) put_beside(kernel, program, name);
    put(&kernels, handle, kernel);
}

EXPORT Handle clCreateKernel(Handle a, const char *b, Status *c)
{
    Handle handle = PASS(clCreateKernel, a, b, c);
    if (!inside) kernel_made(handle, known_program(a));
    return handle;
}

EXPORT Status clCreateKernelsInProgram(Handle a, Count b, Handle *c, Count *d)
{
    Count count = 0;
    Status status = PASS(clCreateKernelsInProgram, a, b, c, &count);
    if (d) *d = count;
    if (status == SUCCESS && c && !inside)
        for (Count i = 0; i < count; i++) kernel_made(c[i], known_program(a));
    return status;
}

/* Forgets an object with its last reference: another one may get the same handle. */
static Status let_go(Handle memory)
{
    Count references = 0;
    if (get(&objects, memory) &&
        real.clGetMemObjectInfo(memory, MEM_REFERENCES, sizeof references, &references, NULL) == SUCCESS &&
        references == 1)
        put(&objects, memory, NULL);
    return real.clReleaseMemObject(memory);
}

EXPORT Status clReleaseMemObject(Handle a)
{
    resolve();
    return inside ? real.clReleaseMemObject(a) : let_go(a);
}

static int kind_of(const Argument *argument);

static void set_argument(Kernel *kernel, Count at, size_t size, const void *value, int svm)
{
    if (at >= kernel->count) return;
    Argument made = {1, svm, size, value && !svm ? (unsigned char *)copy_of(value, size) : NULL, NULL};
    int kind = kind_of(&made);
    if (value && !svm && !made.value) made.set = 0;
    if ((mode_list || mode_record) && kernel->followed && (kind == BUFFER || kind == IMAGE || kind == PIPE)) {
        memcpy(&made.held, value, sizeof made.held);
        if (real.clRetainMemObject(made.held) != SUCCESS) made.held = NULL;
    }
    acquire(&lock);
    Argument old = kernel->arguments[at];
    kernel->arguments[at] = made;
    release(&lock);
    free(old.value);
    if (old.held) let_go(old.held);
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
            FOR_BESIDE(to, place)
                if (place->kernel && !given->svm) real.clSetKernelArg(place->kernel, i, given->size, given->value);
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
        FOR_BESIDE(kernel, place) if (place->kernel) real.clReleaseKernel(place->kernel);
        free(kernel->beside);
        for (Count i = 0; i < kernel->count; i++) {
            free(kernel->arguments[i].value);
            if (kernel->arguments[i].held) let_go(kernel->arguments[i].held);
        }
        free(kernel->arguments);
        free(kernel);
    }
    return real.clReleaseKernel(a);
}

/* What was made before this library was loaded, by what the driver says of it. */
static Program *adopted_program(Handle handle)
{
    Program *program = get(&programs, handle);
    Handle devices[64] = {NULL};
    size_t size = 0;
    if (program) return program;
    if (real.clGetProgramInfo(handle, PROGRAM_SOURCE, 0, NULL, &size) != SUCCESS) return NULL;
    char *text = malloc(size + 1);
    if (!text || (size && real.clGetProgramInfo(handle, PROGRAM_SOURCE, size, text, NULL) != SUCCESS)) return NULL;
    text[size] = 0;
    size = strlen(text);
    program = program_made(handle, size ? "source" : "binary", text, size);
    if (!program || real.clGetProgramInfo(handle, PROGRAM_DEVICES, sizeof devices, devices, NULL) != SUCCESS) return program;
    size = 0;
    if (real.clGetProgramBuildInfo(handle, devices[0], PROGRAM_OPTIONS, 0, NULL, &size) != SUCCESS) return program;
    char *options = calloc(1, size + 1);
    if (options && size) real.clGetProgramBuildInfo(handle, devices[0], PROGRAM_OPTIONS, size, options, NULL);
    program->options = options;
    return program;
}

static Kernel *adopted_kernel(Handle handle)
{
    Handle program = NULL;
    Kernel *kernel = get(&kernels, handle);
    if (kernel || !embedded) return kernel;
    if (real.clGetKernelInfo(handle, KERNEL_PROGRAM, sizeof program, &program, NULL) == SUCCESS)
        kernel_made(handle, adopted_program(program));
    return get(&kernels, handle);
}

/* What an address holds, asked of the system: it may be a number. */
static void *first_word(const void *at)
{
    static int memory = -1;
    void *word = NULL;
    if (memory < 0) memory = open("/proc/self/mem", READ_ONLY | CLOEXEC);
    if (memory < 0 || pread(memory, &word, sizeof word, (long)(uintptr_t)at) != sizeof word) return NULL;
    return word;
}

/* An object that was made where nobody looked: every object of a platform begins with its table of functions (cl_khr_icd). */
static void adopt_object(Handle kernel, size_t size, const void *value)
{
    Handle object;
    Count type = 0;
    if (size != sizeof object || !value) return;
    memcpy(&object, value, sizeof object);
    if ((uintptr_t)object < 4096 || get(&objects, object)) return;
    void *table = first_word(object);
    if (!table || table != *(void **)kernel) return;
    /* Drivers need not see that it is no memory object. */
    if (get(&queues, object)) { made(object, QUEUE); return; }
    if (real.clGetMemObjectInfo(object, MEM_TYPE, sizeof type, &type, NULL) != SUCCESS) type = 0;
    made(object, type == TYPE_BUFFER ? BUFFER : type == TYPE_PIPE ? PIPE : type ? IMAGE : SAMPLER);
}

EXPORT Status clSetKernelArg(Handle a, Count b, size_t c, const void *d)
{
    Status status = PASS(clSetKernelArg, a, b, c, d);
    Kernel *kernel = inside || status != SUCCESS ? NULL : adopted_kernel(a);
    if (!kernel) return status;
    adopt_object(a, c, d);
    set_argument(kernel, b, c, d, 0);
    FOR_BESIDE(kernel, place) {
        Status other = place->kernel ? real.clSetKernelArg(place->kernel, b, c, d) : SUCCESS;
        if (other != SUCCESS) {
            say("problem\t%s\tthe winner does not take argument %u (OpenCL error %d)", place->winner->kernel, b, other);
            place->kernel = NULL;
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
    FOR_BESIDE(kernel, place)
        if (place->kernel && real.clSetKernelArgSVMPointer(place->kernel, b, c) != SUCCESS) place->kernel = NULL;
    return status;
}

EXPORT Status clSetKernelExecInfo(Handle a, Count b, size_t c, const void *d)
{
    Status status = PASS(clSetKernelExecInfo, a, b, c, d);
    Kernel *kernel = inside || status != SUCCESS ? NULL : get(&kernels, a);
    if (!kernel) return status;
    kernel->indirect = 1;
    FOR_BESIDE(kernel, place)
        if (place->kernel && real.clSetKernelExecInfo(place->kernel, b, c, d) != SUCCESS) place->kernel = NULL;
    return status;
}

