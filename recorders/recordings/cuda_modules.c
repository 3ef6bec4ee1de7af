/* CUDA: modules, libraries and their kernels, and the source that NVRTC made them from. Follows cuda_memory.c. */

enum { MOST_NAMES = 256, MOST_GLOBALS = 512 };

typedef struct { char *expression, *symbol; } Lowered;

typedef struct {
    char *text, *options;
    int headers;
    Lowered names[MOST_NAMES];
    int name_count;
} Source;

typedef struct {
    void *image;
    size_t size;
    uint64_t hash;
    Source *source;           /* NULL where it was not made by NVRTC, or not here */
    const char *refused;      /* what none of its kernels can be recorded for */
    char *globals[MOST_GLOBALS];
    int global_count;
} Module;

/* What stands beside a kernel in one context: the winner's, and constants that it gets before each launch. */
typedef struct { CuPointer from, to; size_t size; } Constant;
typedef struct Placed {
    const Winner *winner;
    void *context, *function; /* NULL where it cannot be put there */
    unsigned shared;          /* dynamic shared memory that it was allowed */
    Constant *constants;
    int constant_count;
    struct Placed *next;
} Placed;

typedef struct {
    Module *module;
    char *symbol;
    int kernel;
    int looked;               /* whether it is known which winners are for it */
    uint64_t fitting;         /* those, one bit for each */
    Placed *placed;
} Function;

static Table nvrtc_programs, nvrtc_outputs, modules, functions;

/* ---- NVRTC ---- */

static char *appended(char *text, const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%";
    size_t before = text ? strlen(text) : 0, room = before + 6 * strlen(word) + 8;
    char *made = malloc(room), *end;
    int plain = *word != 0;
    if (!made) return text;
    for (const char *at = word; *at; at++) {
        int known = 0;
        for (const char *s = safe; *s; s++) known |= *s == *at;
        plain &= known;
    }
    if (before) memcpy(made, text, before);
    end = made + before;
    if (before) *end++ = ' ';
    if (!plain) *end++ = '\'';
    for (const char *at = word; *at; at++) {
        if (*at == '\'') { memcpy(end, "'\\''", 4); end += 4; }
        else *end++ = *at;
    }
    if (!plain) *end++ = '\'';
    *end = 0;
    free(text);
    return made;
}

EXPORT int nvrtcCreateProgram(
    void **a, const char *b, const char *c, int d, const char *const *e, const char *const *f)
{
    int status = NVRTC_PASS(nvrtcCreateProgram, a, b, c, d, e, f);
    Source *source = status || inside || !b ? NULL : calloc(1, sizeof *source);
    if (!source) return status;
    source->text = copy_of(b, strlen(b));
    source->headers = d;
    put(&nvrtc_programs, *a, source);
    return status;
}

EXPORT int nvrtcCompileProgram(void *a, int b, const char *const *c)
{
    nvrtc_resolve();
    Source *source = inside ? NULL : get(&nvrtc_programs, a);
    if (source) {
        free(source->options);
        source->options = NULL;
        for (int i = 0; i < b; i++) source->options = appended(source->options, c[i]);
    }
    return NVRTC_PASS(nvrtcCompileProgram, a, b, c);
}

EXPORT int nvrtcAddNameExpression(void *a, const char *b)
{
    nvrtc_resolve();
    Source *source = inside ? NULL : get(&nvrtc_programs, a);
    if (source && source->name_count < MOST_NAMES)
        source->names[source->name_count++].expression = copy_of(b, strlen(b));
    return NVRTC_PASS(nvrtcAddNameExpression, a, b);
}

/* What was made of a program is known by its bytes: applications keep them, not the program, which they may compile
 * again with other options.
 */
static void output_made(void *program, const void *data, size_t size)
{
    Source *now = inside ? NULL : get(&nvrtc_programs, program), *source = now ? malloc(sizeof *source) : NULL;
    if (!source) return;
    *source = *now;
    source->options = now->options ? copy_of(now->options, strlen(now->options)) : NULL;
    if (now->options && !source->options) { free(source); return; }
    for (int i = 0; i < source->name_count && cu.nvrtcGetLoweredName; i++) {
        const char *symbol = NULL;
        Lowered *name = &source->names[i];
        if (!name->symbol && !cu.nvrtcGetLoweredName(program, name->expression, &symbol) && symbol)
            name->symbol = copy_of(symbol, strlen(symbol));
    }
    put(&nvrtc_outputs, (void *)(uintptr_t)(mix(0xCBF29CE484222325u, data, size) | 1), source);
}

EXPORT int nvrtcGetPTX(void *a, char *b)
{
    int status = NVRTC_PASS(nvrtcGetPTX, a, b);
    if (!status) output_made(a, b, strlen(b));
    return status;
}

EXPORT int nvrtcGetCUBIN(void *a, char *b)
{
    size_t size = 0;
    int status = NVRTC_PASS(nvrtcGetCUBIN, a, b);
    if (!status && cu.nvrtcGetCUBINSize && !cu.nvrtcGetCUBINSize(a, &size)) output_made(a, b, size);
    return status;
}

EXPORT int nvrtcDestroyProgram(void **a)
{
    /* The source stays: a module may be made of it at any time. */
    if (a && !inside) put(&nvrtc_programs, *a, NULL);
    return NVRTC_PASS(nvrtcDestroyProgram, a);
}

/* ---- images ---- */

static uint64_t word(const unsigned char *at, int size)
{
    uint64_t value = 0;
    memcpy(&value, at, (size_t)size);
    return value;
}

static size_t elf_size(const unsigned char *image)
{
    uint64_t sections = word(image + 40, 8), segments = word(image + 32, 8);
    size_t size = sections + word(image + 58, 2) * word(image + 60, 2);
    size_t other = segments + word(image + 54, 2) * word(image + 56, 2);
    if (other > size) size = other;
    for (uint64_t i = 0; i < word(image + 60, 2); i++) {
        const unsigned char *section = image + sections + i * word(image + 58, 2);
        uint64_t end = word(section + 24, 8) + (word(section + 4, 4) == 8 ? 0 : word(section + 32, 8));
        if (end > size) size = end;
    }
    return size;
}

static int is_elf(const unsigned char *image) { return !memcmp(image, "\177ELF", 4); }

/* A cubin, a fat binary, its wrapper, or PTX: where it begins, and its size. */
static const unsigned char *image_of(const void *given, size_t *size)
{
    const unsigned char *image = given;
    if (word(image, 4) == 0x466243B1u) {
        const void *inner;
        memcpy(&inner, image + 8, sizeof inner);
        image = inner;
    }
    if (word(image, 4) == 0xBA55ED50u) *size = word(image + 6, 2) + word(image + 8, 8);
    else if (is_elf(image)) *size = elf_size(image);
    else *size = strlen((const char *)image);
    return image;
}

static int holds(const unsigned char *data, size_t size, const char *what, size_t length)
{
    for (size_t i = 0; i + length <= size; i++)
        if (data[i] == (unsigned char)what[0] && !memcmp(data + i, what, length)) return 1;
    return 0;
}

static void global_known(Module *module, const char *name)
{
    for (int i = 0; i < module->global_count; i++)
        if (!strcmp(module->globals[i], name)) return;
    if (module->global_count < MOST_GLOBALS) module->globals[module->global_count++] = copy_of(name, strlen(name));
}

/* Variables of a cubin: what an earlier launch left in one is an input of the next. */
static void read_symbols(Module *module)
{
    const unsigned char *image = module->image;
    uint64_t sections = word(image + 40, 8), each = word(image + 58, 2), count = word(image + 60, 2);
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *table = image + sections + i * each;
        if (word(table + 4, 4) != 2 || word(table + 40, 4) >= count) continue;
        const unsigned char *names = image + sections + word(table + 40, 4) * each;
        for (uint64_t at = 0; at + 24 <= word(table + 32, 8); at += 24) {
            const unsigned char *symbol = image + word(table + 24, 8) + at;
            const char *name = (const char *)image + word(names + 24, 8) + word(symbol, 4);
            if (word(symbol, 4) >= word(names + 32, 8)) continue;
            if ((symbol[4] & 15) == 1 && word(symbol + 6, 2) && word(symbol + 16, 8)) global_known(module, name);
        }
    }
}

static Module *module_made(const void *given)
{
    size_t size = 0;
    Module *module = calloc(1, sizeof *module);
    if (!module || !given) return module;
    const unsigned char *image = image_of(given, &size);
    module->image = copy_of(image, size);
    module->size = module->image ? size : 0;
    module->hash = mix(0xCBF29CE484222325u, image, size);
    module->source = get(&nvrtc_outputs, (void *)(uintptr_t)(module->hash | 1));
    if (!module->image) return module;
    if (is_elf(image)) {
        read_symbols(module);
        if (holds(image, size, "\0malloc\0", 8)) module->refused = "memory that kernels allocate themselves (malloc)";
    } else if (holds(image, size, " malloc\n", 8) || holds(image, size, " malloc,", 8) || holds(image, size, ") malloc", 8)) {
        module->refused = "memory that kernels allocate themselves (malloc)";
    }
    return module;
}

static Module *module_of_file(const char *path)
{
    size_t size = 0;
    char *data = path ? read_file(*path == '/' ? "" : ".", path, &size) : NULL;
    Module *module = module_made(data && size > 64 ? data : NULL);
    free(data);
    return module;
}

#define MODULE_MADE(MODULE) if (status == CU_SUCCESS && !inside) put(&modules, *a, MODULE); return status

EXPORT CuStatus cuModuleLoad(void **a, const char *b)
{ CuStatus status = CU_PASS(cuModuleLoad, a, b); MODULE_MADE(module_of_file(b)); }
EXPORT CuStatus cuModuleLoadData(void **a, const void *b)
{ CuStatus status = CU_PASS(cuModuleLoadData, a, b); MODULE_MADE(module_made(b)); }
EXPORT CuStatus cuModuleLoadDataEx(void **a, const void *b, unsigned c, int *d, void **e)
{ CuStatus status = CU_PASS(cuModuleLoadDataEx, a, b, c, d, e); MODULE_MADE(module_made(b)); }
EXPORT CuStatus cuModuleLoadFatBinary(void **a, const void *b)
{ CuStatus status = CU_PASS(cuModuleLoadFatBinary, a, b); MODULE_MADE(module_made(b)); }
EXPORT CuStatus cuLibraryLoadData(void **a, const void *b, CU_LOAD_OPTIONS)
{ CuStatus status = CU_PASS(cuLibraryLoadData, a, b, c, d, e, f, g, h); MODULE_MADE(module_made(b)); }
EXPORT CuStatus cuLibraryLoadFromFile(void **a, const char *b, CU_LOAD_OPTIONS)
{ CuStatus status = CU_PASS(cuLibraryLoadFromFile, a, b, c, d, e, f, g, h); MODULE_MADE(module_of_file(b)); }

/* Its kernels go with it: a handle may come again for another one's. What is remembered of it stays, for a launch may be
 * looking at it.
 */
static void module_gone(void *handle)
{
    Module *module = get(&modules, handle);
    put(&modules, handle, NULL);
    acquire(&lock);
    for (size_t i = 0; module && i < functions.room; i++) {
        Entry *entry = &functions.entries[i];
        if (entry->key && entry->value && ((Function *)entry->value)->module == module) entry->value = NULL;
    }
    release(&lock);
}

EXPORT CuStatus cuModuleUnload(void *a) { if (!inside) module_gone(a); return CU_PASS(cuModuleUnload, a); }
EXPORT CuStatus cuLibraryUnload(void *a) { if (!inside) module_gone(a); return CU_PASS(cuLibraryUnload, a); }

EXPORT CuStatus cuLibraryGetModule(void **a, void *b)
{ CuStatus status = CU_PASS(cuLibraryGetModule, a, b); CU_THEN(if (!inside) put(&modules, *a, get(&modules, b))); }

/* ---- kernels and variables ---- */

static void put_ready(void *handle);

static void function_made(void *handle, Module *module, const char *symbol, int kernel)
{
    Function *known = inside ? NULL : get(&functions, handle);
    if (known && known->module == module && !strcmp(known->symbol, symbol)) return;
    Function *function = inside ? NULL : calloc(1, sizeof *function);
    if (!function) return;
    function->module = module;
    function->symbol = copy_of(symbol, strlen(symbol));
    function->kernel = kernel;
    put(&functions, handle, function);
    if (mode_apply) put_ready(handle);
}

EXPORT CuStatus cuModuleGetFunction(void **a, void *b, const char *c)
{ CuStatus status = CU_PASS(cuModuleGetFunction, a, b, c); CU_THEN(function_made(*a, get(&modules, b), c, 0)); }
EXPORT CuStatus cuLibraryGetKernel(void **a, void *b, const char *c)
{ CuStatus status = CU_PASS(cuLibraryGetKernel, a, b, c); CU_THEN(function_made(*a, get(&modules, b), c, 1)); }

EXPORT CuStatus cuKernelGetFunction(void **a, void *b)
{
    CuStatus status = CU_PASS(cuKernelGetFunction, a, b);
    Function *from = status == CU_SUCCESS ? get(&functions, b) : NULL;
    if (from) function_made(*a, from->module, from->symbol, 0);
    return status;
}

static void module_refused(void *handle, const char *why)
{
    Module *module = get(&modules, handle);
    if (module) module->refused = why;
}

EXPORT CuStatus cuModuleGetGlobal_v2(CuPointer *a, size_t *b, void *c, const char *d)
{
    CuStatus status = CU_PASS(cuModuleGetGlobal_v2, a, b, c, d);
    Module *module = status == CU_SUCCESS && !inside ? get(&modules, c) : NULL;
    if (module && d) global_known(module, d);
    return status;
}

EXPORT CuStatus cuLibraryGetGlobal(CuPointer *a, size_t *b, void *c, const char *d)
{
    CuStatus status = CU_PASS(cuLibraryGetGlobal, a, b, c, d);
    Module *module = status == CU_SUCCESS && !inside ? get(&modules, c) : NULL;
    if (module && d) global_known(module, d);
    return status;
}

EXPORT CuStatus cuLibraryGetManaged(CuPointer *a, size_t *b, void *c, const char *d)
{ CuStatus status = CU_PASS(cuLibraryGetManaged, a, b, c, d); CU_THEN(if (!inside) module_refused(c, memory_refused[MEMORY_MANAGED])); }
EXPORT CuStatus cuModuleGetTexRef(void **a, void *b, const char *c)
{ CuStatus status = CU_PASS(cuModuleGetTexRef, a, b, c); CU_THEN(if (!inside) module_refused(b, texture)); }
EXPORT CuStatus cuModuleGetSurfRef(void **a, void *b, const char *c)
{ CuStatus status = CU_PASS(cuModuleGetSurfRef, a, b, c); CU_THEN(if (!inside) module_refused(b, surface)); }

/* A kernel got in a way that is not followed, by what the driver says of it. */
static Function *function_of(void *handle)
{
    Function *function = get(&functions, handle);
    const char *symbol = NULL;
    void *module = NULL;
    if (function) return function;
    if (!cu.cuFuncGetName || cu.cuFuncGetName(&symbol, handle) != CU_SUCCESS || !symbol) return NULL;
    if (cu.cuFuncGetModule) cu.cuFuncGetModule(&module, handle);
    int held = inside;
    inside = 0;
    function_made(handle, get(&modules, module), symbol, 0);
    inside = held;
    return get(&functions, handle);
}

/* As people call it: the expression that NVRTC was given, the name of a C++ function, or the symbol. */
static void display_name(const Function *function, char *name, size_t room)
{
    const Source *source = function->module ? function->module->source : NULL;
    for (int i = 0; source && i < source->name_count; i++)
        if (source->names[i].symbol && !strcmp(source->names[i].symbol, function->symbol)) {
            const char *given = source->names[i].expression;
            snprintf(name, room, "%s", *given == '&' ? given + 1 : given);
            return;
        }
    if (function->symbol[0] == '_' && function->symbol[1] == 'Z') {
        char *end;
        unsigned long length = strtoul(function->symbol + 2, &end, 10);
        if (length && end != function->symbol + 2 && length < strlen(end) && end[length] != 'I') {
            snprintf(name, room, "%.*s", (int)length, end);
            return;
        }
    }
    snprintf(name, room, "%s", function->symbol);
}
