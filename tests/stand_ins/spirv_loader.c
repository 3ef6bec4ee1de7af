/* OpenCL's loader with functions of its own, for devices that lack them. For those that take no SPIR-V a module stands for
 * the OpenCL C in the file of its size, $TUNER_TEST_MODULES/SIZE.cl, and its constants may be given any values. Of
 * extensions there are modules, kernel arguments by address (960 floats), and command buffers that launch at once. What
 * else is called goes to the loader that this is linked with.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *clCreateProgramWithSource(void *context, unsigned count, const char **texts, const size_t *sizes, int *error);

static void *module_program(void *context, const void *code, size_t size, int *error)
{
    char path[4096];
    static char text[1 << 16];
    (void)code;
    snprintf(path, sizeof path, "%s/%zu.cl", getenv("TUNER_TEST_MODULES"), size);
    FILE *file = fopen(path, "r");
    if (!file) {
        if (error) *error = -59;
        return NULL;
    }
    size_t length = fread(text, 1, sizeof text - 1, file);
    const char *source = text;
    fclose(file);
    return clCreateProgramWithSource(context, 1, &source, &length, error);
}

void *clCreateProgramWithIL(void *context, const void *code, size_t size, int *error)
{
    return module_program(context, code, size, error);
}

int clSetProgramSpecializationConstant(void *program, unsigned id, size_t size, const void *value)
{
    (void)program, (void)id, (void)size, (void)value;
    return 0;
}

/* A device that has another build of the program than the last one: PoCL forgets the first. And a driver that counts
 * constants where it is asked for variables.
 */
int clGetProgramBuildInfo(void *program, void *device, unsigned what, size_t size, void *value, size_t *needed)
{
    enum { OPTIONS = 0x1182, VARIABLES = 0x1185 };
    const char *other = getenv("TUNER_TEST_OPTIONS");
    int (*ask)(void *, void *, unsigned, size_t, void *, size_t *);
    *(void **)&ask = dlvsym(dlopen("libOpenCL.so.1", RTLD_LAZY), "clGetProgramBuildInfo", "OPENCL_1.0");
    if (getenv("TUNER_TEST_COUNTS") && what == VARIABLES && size == sizeof(size_t)) {
        *(size_t *)value = 16;
        return 0;
    }
    if (!other || what != OPTIONS || !value) return ask(program, device, what, size, value, needed);
    snprintf(value, size, "%s", other);
    return 0;
}

int clGetKernelInfo(void *kernel, unsigned what, size_t size, void *value, size_t *needed);
void *clCreateBuffer(void *context, uint64_t flags, size_t size, void *host, int *error);

/* As a driver calls itself: what stands before the loader sees nothing of it. */
static void *own(const char *name) { return dlvsym(dlopen("libOpenCL.so.1", RTLD_LAZY), name, "OPENCL_1.0"); }

static int set_pointer(void *kernel, unsigned at, const void *pointer)
{
    enum { KERNEL_CONTEXT = 0x1193, USE_HOST_POINTER = 1 << 3 };
    void *context = NULL, *memory;
    int (*set)(void *, unsigned, size_t, const void *);
    clGetKernelInfo(kernel, KERNEL_CONTEXT, sizeof context, &context, NULL);
    memory = clCreateBuffer(context, USE_HOST_POINTER, 960 * sizeof(float), (void *)pointer, NULL);
    *(void **)&set = own("clSetKernelArg");
    return set(kernel, at, sizeof memory, &memory);
}

static int launch_in_buffer(
    void *buffer, void *queue, const void *properties, void *kernel, unsigned axes, const size_t *offset,
    const size_t *global, const size_t *local, unsigned waits, const unsigned *points, unsigned *point, void **handle)
{
    (void)buffer, (void)properties, (void)waits, (void)points, (void)point, (void)handle;
    int (*launch)(
        void *, void *, unsigned, const size_t *, const size_t *, const size_t *, unsigned, void *const *, void **);
    *(void **)&launch = own("clEnqueueNDRangeKernel");
    return launch(queue, kernel, axes, offset, global, local, 0, NULL, NULL);
}

void *clGetExtensionFunctionAddressForPlatform(void *platform, const char *name)
{
    void *(*next)(void *, const char *);
    if (!strcmp(name, "clCreateProgramWithILKHR")) return (void *)module_program;
    if (!strcmp(name, "clSetKernelArgMemPointerINTEL")) return (void *)set_pointer;
    if (!strcmp(name, "clCommandNDRangeKernelKHR")) return (void *)launch_in_buffer;
    *(void **)&next = dlsym(RTLD_NEXT, "clGetExtensionFunctionAddressForPlatform");
    return next(platform, name);
}
