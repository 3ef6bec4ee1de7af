// An application that reaches the driver as runtimes do that are linked in statically: dlopen, one dlsym, and
// cuGetProcAddress for all the rest. A test writes what it does.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Call)();
static void *driver, *nvrtc;
static uint64_t flags;

static Call named(const char *name) {
    static int (*ask)(const char *, void **, int, uint64_t, int *);
    void *found = NULL;
    int status;
    if (!ask) *(void **)&ask = dlsym(driver, "cuGetProcAddress_v2");
    ask(name, &found, 12040, flags, &status);
    if (!found) fprintf(stderr, "no %s\n", name), exit(9);
    return (Call)found;
}
#define CU(NAME, ...) do { int e = named(#NAME)(__VA_ARGS__); if (e) fprintf(stderr, #NAME ": %d\n", e), exit(8); } while (0)
#define RTC(NAME, ...) do { if (((Call)dlsym(nvrtc, #NAME))(__VA_ARGS__)) fprintf(stderr, #NAME "\n"), exit(7); } while (0)

static uint64_t floats(size_t count, float first, float step) {
    uint64_t at;
    float *host = malloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++) host[i] = first + step * i;
    CU(cuMemAlloc, &at, count * sizeof *host);
    CU(cuMemcpyHtoD, at, host, count * sizeof *host);
    free(host);
    return at;
}

static const char *expression; // of a template, where the test names one

static void *source_of(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

// What NVRTC makes of the file, loaded.
static void *compiled(const char *path, int count, const char *const *options) {
    void *program, *module, *code;
    size_t size;
    RTC(nvrtcCreateProgram, &program, source_of(path), "k.cu", 0, NULL, NULL);
    if (expression) RTC(nvrtcAddNameExpression, program, expression);
    RTC(nvrtcCompileProgram, program, count, options);
    RTC(nvrtcGetCUBINSize, program, &size);
    code = malloc(size);
    RTC(nvrtcGetCUBIN, program, code);
    RTC(nvrtcDestroyProgram, &program);
    CU(cuModuleLoadData, &module, code);
    memset(code, 0, size);
    free(code);
    return module;
}

int main(int count, char **words) {
    driver = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    nvrtc = dlopen(words[2], RTLD_NOW | RTLD_LOCAL);
    const char *kernel = words[3];
    void *context, *module, *function, *stream;
    const char *options[] = {"-DSCALE=2"};
    CU(cuInit, 0);
    CU(cuCtxCreate, &context, 0, 0);
    CU(cuStreamCreate, &stream, 0);
    BODY
    return 0;
}
