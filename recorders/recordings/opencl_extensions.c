/* OpenCL: functions of extensions, which applications ask each platform for. What they do to a kernel or a program is
 * followed, so that nothing older is taken for it. Follows opencl_launches.c.
 */

/* Its platform's own, for platforms have each their own. */
static void *extension_of(Handle context, const char *name)
{
    Handle devices[64] = {NULL}, platform = NULL;
    if (!real.clGetContextInfo || !real.clGetExtensionFunctionAddressForPlatform ||
        real.clGetContextInfo(context, CONTEXT_DEVICES, sizeof devices, devices, NULL) != SUCCESS ||
        real.clGetDeviceInfo(devices[0], DEVICE_PLATFORM, sizeof platform, &platform, NULL) != SUCCESS) return NULL;
    return real.clGetExtensionFunctionAddressForPlatform(platform, name);
}

static Handle context_of_kernel(Handle kernel)
{
    Handle context = NULL;
    real.clGetKernelInfo(kernel, KERNEL_CONTEXT, sizeof context, &context, NULL);
    return context;
}

typedef Status (*SetPointer)(Handle, Count, const void *);

static Status set_pointer(const char *name, Handle a, Count b, const void *c)
{
    SetPointer own = NULL;
    *(void **)&own = extension_of(context_of_kernel(a), name);
    Status status = own ? own(a, b, c) : NO_SUCH_CALL;
    Kernel *kernel = inside || status != SUCCESS ? NULL : adopted_kernel(a);
    if (!kernel) return status;
    set_argument(kernel, b, sizeof c, &c, 2);
    FOR_BESIDE(kernel, place)
        if (place->kernel && own(place->kernel, b, c) != SUCCESS) place->kernel = NULL;
    return status;
}

static Status set_unified(Handle a, Count b, const void *c) { return set_pointer("clSetKernelArgMemPointerINTEL", a, b, c); }
static Status set_shared(Handle a, Count b, const void *c) { return set_pointer("clSetKernelArgSVMPointerARM", a, b, c); }

static Handle program_with_il(Handle a, const void *b, size_t c, Status *d)
{
    Handle (*own)(Handle, const void *, size_t, Status *) = NULL;
    *(void **)&own = extension_of(a, "clCreateProgramWithILKHR");
    Handle handle = own ? own(a, b, c, d) : NULL;
    if (!own && d) *d = NO_SUCH_CALL;
    if (handle && !inside) program_made(handle, "il", copy_of(b, c), c);
    return handle;
}

/* A launch that happens whenever its command buffer does. */
static Status launch_in_buffer(
    Handle a, Handle b, const void *c, Handle d, Count e, const size_t *f, const size_t *g, const size_t *h, Count i,
    const Count *j, Count *k, Handle *l)
{
    Status (*own)(
        Handle, Handle, const void *, Handle, Count, const size_t *, const size_t *, const size_t *, Count, const Count *,
        Count *, Handle *) = NULL;
    *(void **)&own = extension_of(context_of_kernel(d), "clCommandNDRangeKernelKHR");
    Status status = own ? own(a, b, c, d, e, f, g, h, i, j, k, l) : NO_SUCH_CALL;
    Kernel *kernel = inside || status != SUCCESS ? NULL : get(&kernels, d);
    char name[NAME_BYTES] = "?";
    if (!kernel) return status;
    real.clGetKernelInfo(d, KERNEL_NAME, sizeof name, name, NULL);
    int taken;
    Beside *place = mode_apply && g ? nearest(kernel, NULL, e, g, 1, &taken) : NULL;
    if (place) count_launch(place->winner, 1);
    if (mode_list || (mode_record && names_wanted(name)))
        say("launch\t%s\t%016lx\t0\t0.0\ta command buffer (clCommandNDRangeKernelKHR)", name,
            (unsigned long)program_hash(kernel->program));
    return status;
}

static const struct { const char *name; void *wrapper; } extensions[] = {
    {"clSetKernelArgMemPointerINTEL", (void *)set_unified},
    {"clSetKernelArgSVMPointerARM", (void *)set_shared},
    {"clCreateProgramWithILKHR", (void *)program_with_il},
    {"clCommandNDRangeKernelKHR", (void *)launch_in_buffer},
};

static void *stood_before(const char *name, void *found)
{
    for (size_t i = 0; found && name && !inside && i < sizeof extensions / sizeof *extensions; i++)
        if (!strcmp(extensions[i].name, name)) return extensions[i].wrapper;
    return found;
}

EXPORT void *clGetExtensionFunctionAddressForPlatform(Handle a, const char *b)
{ return stood_before(b, PASS(clGetExtensionFunctionAddressForPlatform, a, b)); }

EXPORT void *clGetExtensionFunctionAddress(const char *a)
{ return stood_before(a, PASS(clGetExtensionFunctionAddress, a)); }
