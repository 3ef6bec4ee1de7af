/* CUDA: what a launch can reach: its parameters as the driver lays them out, memory that they point to, memory that is
 * pointed to from there, variables; and why a launch cannot be captured as it is. Follows cuda_modules.c.
 */

enum { MOST_PARAMETERS = 1024, MOST_REACHED = 4096, CAPTURING = 1, COOPERATIVE = 2, CLUSTER = 4, ATTRIBUTE_BYTES = 72 };

typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned attribute_count;
} CuConfig;

typedef struct {
    CuConfig shape;
    const CuConfig *config;   /* as given, for cuLaunchKernelEx */
    void *function, **parameters, **extra;
    int kind, per_thread;     /* kind: 0 plain, 1 with a configuration, 2 cooperative */
} CuLaunch;

typedef struct { size_t offset, size; const unsigned char *value; } CuParameter;

/* What a launch can reach: memory by address, variables by name. */
typedef struct { CuPointer start; size_t size; const char *name; } Reached;

typedef struct {
    CuParameter parameters[MOST_PARAMETERS];
    size_t parameter_count;
    Reached *reached;
    size_t reached_count;
    int inner;                /* whether something in memory, or inside a structure, points to memory */
} CuFacts;

static const char *const no_layout = "a driver before CUDA 12.4, which does not tell the layout of parameters";

static const char *lay_out(const CuLaunch *launch, const Function *function, CuFacts *facts)
{
    const unsigned char *packed = NULL;
    size_t room = 0;
    CuStatus (*info)(void *, size_t, size_t *, size_t *) = function->kernel ? cu.cuKernelGetParamInfo : cu.cuFuncGetParamInfo;
    if (!info) return no_layout;
    for (void **extra = launch->parameters ? NULL : launch->extra; extra && *extra; extra += 2) {
        if (*extra == (void *)1) packed = extra[1];
        else if (*extra == (void *)2) memcpy(&room, extra[1], sizeof room);
        else return "launch options that are not known";
    }
    size_t offset, size, i = 0;
    CuStatus status;
    for (; (status = info(launch->function, i, &offset, &size)) == CU_SUCCESS; i++) {
        if (i == MOST_PARAMETERS) return "more parameters than can be recorded";
        if (!launch->parameters && (!packed || offset + size > room)) return "parameters that are shorter than the kernel's";
        facts->parameters[i] = (CuParameter){offset, size, launch->parameters ? launch->parameters[i] : packed + offset};
    }
    facts->parameter_count = i;
    return status == CU_INVALID_VALUE ? NULL : no_layout;
}

/* Takes in the memory that an address lies in; the reason where that cannot be captured. */
static const char *reach(CuFacts *facts, CuPointer at, int driver_asked, int *known)
{
    Memory memory;
    *known = memory_of(at, &memory);
    if (!*known) {
        unsigned type = 0;
        if (!driver_asked || at < 4096 || at >> 57 || !cu.cuPointerGetAttribute) return NULL;
        if (cu.cuPointerGetAttribute(&type, 2, at) != CU_SUCCESS || !type) return NULL;
        return "memory made in a way that is not followed";
    }
    int device = memory.device;
    if (memory.kind != MEMORY_DEVICE) return memory_refused[memory.kind];
    if (cu.cuCtxGetDevice && cu.cuCtxGetDevice(&device) == CU_SUCCESS && device != memory.device)
        return "memory of another device (peer memory)";
    for (size_t i = 0; i < facts->reached_count; i++)
        if (facts->reached[i].start == memory.start) return NULL;
    if (facts->reached_count == MOST_REACHED) return "more allocations than can be recorded";
    facts->reached[facts->reached_count++] = (Reached){memory.start, memory.size, NULL};
    return NULL;
}

static const char *reach_variables(CuFacts *facts, const Function *function, void *handle)
{
    void *module = NULL, *named = handle;
    if (!function->module || !function->module->global_count) return NULL;
    if (function->kernel && (!cu.cuKernelGetFunction || cu.cuKernelGetFunction(&named, handle) != CU_SUCCESS)) return NULL;
    if (!cu.cuFuncGetModule || cu.cuFuncGetModule(&module, named) != CU_SUCCESS || !cu.cuModuleGetGlobal_v2) return NULL;
    for (int i = 0; i < function->module->global_count; i++) {
        CuPointer start = 0;
        size_t size = 0;
        if (cu.cuModuleGetGlobal_v2(&start, &size, module, function->module->globals[i]) != CU_SUCCESS || !size) continue;
        if (facts->reached_count == MOST_REACHED) return "more variables than can be recorded";
        facts->reached[facts->reached_count++] = (Reached){start, size, function->module->globals[i]};
    }
    return NULL;
}

static const char *reach_parameters(CuFacts *facts)
{
    for (size_t i = 0; i < facts->parameter_count; i++) {
        const CuParameter *p = &facts->parameters[i];
        for (size_t at = 0; at + 8 <= p->size; at += 4) {
            int known = 0;
            CuPointer value = word(p->value + at, 8);
            const char *why = reach(facts, value, at % 8 == 0, &known);
            if (why) return why;
            if (known && p->size > 8) facts->inner = 1;
            if (at % 8 == 0 && (why = get(&handles, (void *)(uintptr_t)value))) return why;
        }
    }
    return NULL;
}

static const char *reach_further(CuFacts *facts)
{
    size_t room = 16u << 20;
    CuPointer low, high;
    unsigned char *part = malloc(room);
    memory_bounds(&low, &high);
    const char *why = part ? NULL : "no memory to look through";
    for (size_t i = 0; !why && i < facts->reached_count; i++)
        for (size_t at = 0; !why && at < facts->reached[i].size; at += room) {
            size_t length = facts->reached[i].size - at < room ? facts->reached[i].size - at : room;
            if (cu.cuMemcpyDtoH_v2(part, facts->reached[i].start + at, length) != CU_SUCCESS) why = "memory that cannot be read";
            for (size_t in = 0; !why && in + 8 <= length; in += 8) {
                int known = 0;
                CuPointer value = word(part + in, 8);
                if (value < low || value >= high) continue;
                why = reach(facts, value, 0, &known);
                facts->inner |= known;
            }
        }
    free(part);
    return why;
}

static const char *attributes_refused(const CuConfig *config)
{
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const unsigned char *attribute = (const unsigned char *)config->attributes + i * ATTRIBUTE_BYTES;
        uint64_t id = word(attribute, 4), value = word(attribute + 8, 4);
        if (id == COOPERATIVE && value) return "a cooperative launch";
        if (id == CLUSTER && word(attribute + 8, 4) * word(attribute + 12, 4) * word(attribute + 16, 4) > 1)
            return "a launch with clusters";
        /* Policies, priorities and domains change when it runs, not what it does. */
        if (id > 10 || id == 7) return "a launch attribute that is not known";
    }
    return NULL;
}

static const char *cu_refusal(const CuLaunch *launch, const Function *function, CuFacts *facts)
{
    const char *why;
    if (!function || !function->module || !function->module->image) return "its module was loaded in a way that is not followed";
    if (function->module->refused) return function->module->refused;
    if (launch->kind == 2) return "a cooperative launch";
    if ((why = attributes_refused(&launch->shape))) return why;
    if ((why = lay_out(launch, function, facts))) return why;
    if ((why = reach_parameters(facts))) return why;
    return reach_variables(facts, function, launch->function);
}
