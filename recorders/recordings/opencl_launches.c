/* OpenCL: launches that are listed, recorded, or made with another kernel. It never changes what the application
 * computes: the application's own kernel is launched wherever the other does not fit. Follows opencl_objects.c.
 */

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

/* Forgets a queue that the application has no reference to; true where it did. */
static int given_back(Handle queue)
{
    acquire(&lock);
    Entry *entry = find(&queues, queue);
    int gone = entry && entry->key && (uintptr_t)entry->value == 1;
    if (gone) entry->value = NULL;
    release(&lock);
    return gone;
}

/* The queues that are known, but this one; each held once more. NULL where there are none. */
static Handle *others_than(Handle queue, size_t *count)
{
    acquire(&lock);
    Handle *known = calloc(queues.room ? queues.room : 1, sizeof *known);
    for (size_t i = 0; known && i < queues.room; i++)
        if (queues.entries[i].key && queues.entries[i].value && queues.entries[i].key != queue) {
            real.clRetainCommandQueue(queues.entries[i].key);
            known[(*count)++] = queues.entries[i].key;
        }
    release(&lock);
    return known;
}

/* Everything that was enqueued in this context is done afterwards; queues that the application gave back are let go. */
static void settle(Handle queue)
{
    size_t count = 0;
    Handle context = context_of(queue), *known = others_than(queue, &count);
    for (size_t i = 0; i < count; i++) {
        if (context_of(known[i]) == context) {
            real.clFinish(known[i]);
            if (given_back(known[i])) real.clReleaseCommandQueue(known[i]);
        }
        real.clReleaseCommandQueue(known[i]);
    }
    free(known);
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

/* Some drivers count constants and texts as well: what such a one says of a program says nothing. */
static int counts_constants(Handle program, Handle device)
{
    static const char *const text = "__constant int c[4] = {1, 2, 4, 8}; __kernel void k(__global int *x) { *x = c[*x & 3]; }";
    enum { ASKED = 1 };
    Handle context = NULL;
    uintptr_t known = (uintptr_t)get(&counting, device);
    if (known) return known > ASKED;
    size_t size = 0;
    Status status = real.clGetProgramInfo(program, PROGRAM_CONTEXT, sizeof context, &context, NULL);
    Handle made = status == SUCCESS ? real.clCreateProgramWithSource(context, 1, (const char **)&text, NULL, &status) : NULL;
    if (made && real.clBuildProgram(made, 1, &device, "", NULL, NULL) == SUCCESS)
        real.clGetProgramBuildInfo(made, device, PROGRAM_VARIABLES, sizeof size, &size, NULL);
    if (made) real.clReleaseProgram(made);
    put(&counting, device, (void *)(uintptr_t)(ASKED + (size != 0)));
    return size != 0;
}

/* Whether the program has variables in global memory: what other launches left there is not captured, and a winner's
 * program would have variables of its own.
 */
static int keeps_variables(const Launch *launch)
{
    Handle program = NULL, device = NULL;
    size_t size = 0;
    if (real.clGetKernelInfo(launch->kernel, KERNEL_PROGRAM, sizeof program, &program, NULL) != SUCCESS ||
        real.clGetCommandQueueInfo(launch->queue, QUEUE_DEVICE, sizeof device, &device, NULL) != SUCCESS ||
        real.clGetProgramBuildInfo(program, device, PROGRAM_VARIABLES, sizeof size, &size, NULL) != SUCCESS) return 0;
    return size != 0 && !counts_constants(program, device);
}

/* Whether the launch's device has another build of the program than the last one. */
static int built_otherwise(const Launch *launch, const Program *program)
{
    Handle handle = NULL, device = NULL;
    char options[4096] = "";
    if (!program->several) return 0;
    return real.clGetKernelInfo(launch->kernel, KERNEL_PROGRAM, sizeof handle, &handle, NULL) != SUCCESS ||
           real.clGetCommandQueueInfo(launch->queue, QUEUE_DEVICE, sizeof device, &device, NULL) != SUCCESS ||
           real.clGetProgramBuildInfo(handle, device, PROGRAM_OPTIONS, sizeof options, options, NULL) != SUCCESS ||
           strcmp(options, program->options ? program->options : "");
}

/* Why a launch cannot be captured as it is; NULL when it can. */
static const char *refusal(const Launch *launch, const Kernel *kernel, int waiting)
{
    if (!kernel) return "its kernel was made in a way that is not followed";
    if (!kernel->program || !kernel->program->form[0]) return "its program was made in a way that is not followed";
    if (kernel->program->parts) return "its program is compiled in parts and linked";
    if (kernel->program->special) return "constants of its SPIR-V were given values (clSetProgramSpecializationConstant)";
    if (!strcmp(kernel->program->form, "binary")) return "its program is a binary";
    if (built_otherwise(launch, kernel->program)) return "its program was built with other options for another device";
    if (kernel->program->variables || keeps_variables(launch)) return "its program has variables in global memory";
    if (kernel->indirect) return "memory that it reaches through pointers (clSetKernelExecInfo)";
    if (waiting || any_pending()) return "it may wait for a user event";
    for (Count i = 0; i < launch->axes; i++)
        if (!launch->global[i]) return "no work-items";
    for (Count i = 0; i < kernel->count; i++) {
        const Argument *argument = &kernel->arguments[i];
        if (!argument->set) return "an argument was never set, or before recording began";
        if (argument->svm) return argument->svm == 1 ? "shared virtual memory" : "unified shared memory";
        int kind = kind_of(argument);
        if (kind == IMAGE) return "an image";
        if (kind == PIPE) return "a pipe";
        if (kind == SAMPLER) return "a sampler";
        if (kind == QUEUE) return "a queue on the device";
        Count address = address_of(launch->kernel, i);
        if (kind != BUFFER && !is_null(argument) && address && address != ADDRESS_PRIVATE && address != ADDRESS_LOCAL)
            return "a null buffer, or one made in a way that is not followed";
    }
    return NULL;
}

static uint64_t signature(const Launch *launch, const Kernel *kernel)
{
    uint64_t hash = program_hash(kernel ? kernel->program : NULL);
    Count form[3] = {launch->axes, launch->local != NULL, launch->offset != NULL};
    hash = mix(hash, form, sizeof form);
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
        if (real.clGetMemObjectInfo(memory, MEM_SIZE, sizeof size, &size, NULL) != SUCCESS) { capture->failed = 2; break; }
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
    char name[NAME_BYTES] = "?";
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
    if (named) launch_took(sign, seconds);
    if (capturing) end_capture(&capture, launch, kernel, seconds, status == SUCCESS, sign);
    else if (named && !why && has_room()) say("lost\tthe recording cannot be written");
    if (status == SUCCESS)
        say("launch\t%s\t%016lx\t%016lx\t%.9f\t%s", name, (unsigned long)program_hash(kernel ? kernel->program : NULL),
            (unsigned long)sign, still ? seconds : 0.0, why ? why : "");
    inside--;
    release(&launch_lock);
    return status;
}

/* The nearest winner whose work-groups divide the grid; else the application's own kernel. */
static Status replaced(const Launch *launch, Count waits, const Handle *events, Handle *event)
{
    Kernel *kernel = get(&kernels, launch->kernel);
    int taken = 0;
    Beside *place = kernel ? nearest(kernel, launch->queue, launch->axes, launch->global, 0, &taken) : NULL;
    if (place && taken) {
        const size_t *own = place->winner->local, *local = own[0] ? own : launch->local;
        Status status = real.clEnqueueNDRangeKernel(
            launch->queue, place->kernel, launch->axes, launch->offset, launch->global, local, waits, events, event);
        if (status == SUCCESS) {
            count_launch(place->winner, 0);
            return status;
        }
        say("problem\t%s\tthe winner cannot be launched (OpenCL error %d)", place->winner->kernel, status);
    }
    if (!place && kernel) place = nearest(kernel, launch->queue, launch->axes, launch->global, 1, &taken);
    if (place) count_launch(place->winner, 1);
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
