/* CUDA: launches that are listed, recorded, or made with another kernel. It never changes what the application computes: any
 * other launch is made as it came. Before one is captured the whole device is waited for, and again after it. Follows cuda_apply.c.
 */

static int graphs_open;

static CuStatus go(const CuLaunch *l)
{
    const CuConfig *s = &l->shape;
    if (l->kind == 1) {
        CuStatus (*call)(const void *, void *, void **, void **) = l->per_thread ? cu.cuLaunchKernelEx_ptsz : cu.cuLaunchKernelEx;
        return call ? call(l->config, l->function, l->parameters, l->extra) : CU_NOT_FOUND;
    }
    if (l->kind == 2) {
        CuStatus (*call)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **) =
            l->per_thread ? cu.cuLaunchCooperativeKernel_ptsz : cu.cuLaunchCooperativeKernel;
        return call ? call(l->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2],
                           s->shared, s->stream, l->parameters)
                    : CU_NOT_FOUND;
    }
    CuStatus (*call)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
        l->per_thread ? cu.cuLaunchKernel_ptsz : cu.cuLaunchKernel;
    return call ? call(l->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2], s->shared,
                       s->stream, l->parameters, l->extra)
                : CU_NOT_FOUND;
}

/* ---- graphs ---- */

static CuStatus capture_begun(CuStatus status)
{
    if (status == CU_SUCCESS && !inside) __atomic_add_fetch(&graphs_open, 1, __ATOMIC_ACQ_REL);
    return status;
}

static CuStatus capture_ended(CuStatus status)
{
    if (!inside && __atomic_load_n(&graphs_open, __ATOMIC_ACQUIRE)) __atomic_sub_fetch(&graphs_open, 1, __ATOMIC_ACQ_REL);
    return status;
}

EXPORT CuStatus cuStreamBeginCapture_v2(void *a, int b) { return capture_begun(CU_PASS(cuStreamBeginCapture_v2, a, b)); }
EXPORT CuStatus cuStreamBeginCapture_v2_ptsz(void *a, int b)
{ return capture_begun(CU_PASS(cuStreamBeginCapture_v2_ptsz, a, b)); }
EXPORT CuStatus cuStreamBeginCaptureToGraph(void *a, void *b, void *const *c, const void *d, size_t e, int f)
{ return capture_begun(CU_PASS(cuStreamBeginCaptureToGraph, a, b, c, d, e, f)); }
EXPORT CuStatus cuStreamBeginCaptureToGraph_ptsz(void *a, void *b, void *const *c, const void *d, size_t e, int f)
{ return capture_begun(CU_PASS(cuStreamBeginCaptureToGraph_ptsz, a, b, c, d, e, f)); }
EXPORT CuStatus cuStreamEndCapture(void *a, void **b) { return capture_ended(CU_PASS(cuStreamEndCapture, a, b)); }
EXPORT CuStatus cuStreamEndCapture_ptsz(void *a, void **b) { return capture_ended(CU_PASS(cuStreamEndCapture_ptsz, a, b)); }

/* A kernel may be asked for as people call it or by its symbol. */
static int cu_named(const char *name, const Function *function)
{
    return names_wanted(name) || (function && names_wanted(function->symbol));
}

static const char *const in_graph = "it becomes part of a graph";

static void say_launch(const char *name, uint64_t program, uint64_t sign, double seconds, const char *why)
{
    say("launch\t%s\t%016lx\t%016lx\t%.9f\t%s", name, (unsigned long)program, (unsigned long)sign, seconds, why ? why : "");
}

EXPORT CuStatus cuGraphAddKernelNode_v2(void **a, void *b, const void **c, size_t d, const void *e)
{
    CuStatus status = CU_PASS(cuGraphAddKernelNode_v2, a, b, c, d, e);
    if (status != CU_SUCCESS || inside || !e || !(mode_list || mode_record || mode_apply)) return status;
    void *handle;
    char name[512] = "?";
    memcpy(&handle, e, sizeof handle);
    Function *function = function_of(handle);
    if (mode_apply) {
        uint64_t fitting = function ? winners_for(function) : 0;
        if (fitting) count_launch(&winners[__builtin_ctzll(fitting)], 1);
        return status;
    }
    if (function) display_name(function, name, sizeof name);
    if (mode_record && !cu_named(name, function)) return status;
    say_launch(name, function && function->module ? function->module->hash : 0, 0, 0.0, in_graph);
    return status;
}

/* ---- one launch ---- */

static uint64_t cu_signature(const CuLaunch *launch, const Function *function, const CuFacts *facts)
{
    Memory memory;
    uint64_t hash = function && function->module ? function->module->hash : 0xCBF29CE484222325u;
    hash = mix(hash, function ? function->symbol : "", function ? strlen(function->symbol) : 0);
    hash = mix(hash, &launch->shape, 7 * sizeof(unsigned));
    for (size_t i = 0; i < facts->parameter_count; i++)
        for (size_t at = 0; at < facts->parameters[i].size; at += 4) {
            const CuParameter *p = &facts->parameters[i];
            size_t left = p->size - at;
            if (left >= 8 && memory_of(word(p->value + at, 8), &memory)) {
                hash = mix(hash, &memory.size, sizeof memory.size);
                at += 4;
            } else {
                hash = mix(hash, p->value + at, left < 4 ? left : 4);
            }
        }
    return hash;
}

static void cu_contents(Capture *capture, const CuFacts *facts, const char *when)
{
    size_t room = 64u << 20;
    char name[64], *part = malloc(room);
    if (!part) { capture->failed = 1; return; }
    for (size_t i = 0; i < facts->reached_count && !capture->failed; i++) {
        snprintf(name, sizeof name, "%lu/%s", (unsigned long)(facts->parameter_count + i), when);
        field_head(capture, name, facts->reached[i].size);
        for (size_t at = 0; at < facts->reached[i].size && !capture->failed; at += room) {
            size_t length = facts->reached[i].size - at < room ? facts->reached[i].size - at : room;
            if (cu.cuMemcpyDtoH_v2(part, facts->reached[i].start + at, length) != CU_SUCCESS) capture->failed = 2;
            else bytes_out(capture, part, length);
        }
    }
    free(part);
}

static void cu_argument_fields(Capture *capture, const CuFacts *facts)
{
    char name[64];
    number_field(capture, "arguments", facts->parameter_count + facts->reached_count);
    number_field(capture, "inner", (uint64_t)facts->inner);
    for (size_t i = 0; i < facts->parameter_count; i++) {
        const CuParameter *p = &facts->parameters[i];
        uint64_t pointed[2] = {0, 0};
        Memory memory;
        snprintf(name, sizeof name, "%lu/value", (unsigned long)i);
        field(capture, name, p->value, p->size);
        if (p->size != 8 || !memory_of(word(p->value, 8), &memory)) continue;
        while (pointed[0] < facts->reached_count && facts->reached[pointed[0]].start != memory.start) pointed[0]++;
        pointed[1] = word(p->value, 8) - memory.start;
        pointed[0] += facts->parameter_count;
        snprintf(name, sizeof name, "%lu/points", (unsigned long)i);
        field(capture, name, pointed, sizeof pointed);
    }
    for (size_t i = 0; i < facts->reached_count; i++) {
        const Reached *reached = &facts->reached[i];
        unsigned long number = (unsigned long)(facts->parameter_count + i);
        uint64_t memory[2] = {reached->start, reached->size};
        snprintf(name, sizeof name, "%lu/memory", number);
        field(capture, name, memory, sizeof memory);
        snprintf(name, sizeof name, "%lu/name", number);
        if (reached->name) text_field(capture, name, reached->name);
    }
}

static void cu_fields(
    Capture *capture, const CuLaunch *launch, const Function *function, const CuFacts *facts, const char *name, uint64_t sign)
{
    const Source *source = function->module->source;
    char text[256] = "";
    int device = 0, version = 0;
    uint64_t threads[3], block[3];
    for (int i = 0; i < 3; i++) {
        block[i] = launch->shape.block[i];
        threads[i] = (uint64_t)launch->shape.grid[i] * block[i];
    }
    text_field(capture, "api", "cuda");
    text_field(capture, "kernel", name);
    text_field(capture, "form", source ? "source" : "image");
    if (source) text_field(capture, "text", source->text);
    else field(capture, "text", function->module->image, function->module->size);
    text_field(capture, "options", source && source->options ? source->options : "");
    number_field(capture, "headers", source ? (uint64_t)source->headers : 0);
    number_field(capture, "signature", sign);
    field(capture, "global", threads, sizeof threads);
    field(capture, "local", block, sizeof block);
    number_field(capture, "shared", launch->shape.shared);
    if (cu.cuCtxGetDevice) cu.cuCtxGetDevice(&device);
    if (cu.cuDeviceGetName) cu.cuDeviceGetName(text, sizeof text, device);
    text_field(capture, "device", text);
    text_field(capture, "platform", "NVIDIA CUDA");
    if (cu.cuDriverGetVersion) cu.cuDriverGetVersion(&version);
    snprintf(text, sizeof text, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    text_field(capture, "driver", text);
    cu_argument_fields(capture, facts);
}

/* The launch between two events, and what it took by them. */
static CuStatus timed(const CuLaunch *launch, double *seconds)
{
    CuStatus (*record)(void *, void *) = launch->per_thread && cu.cuEventRecord_ptsz ? cu.cuEventRecord_ptsz : cu.cuEventRecord;
    void *events[2] = {NULL, NULL};
    float ms = 0;
    int able = cu.cuEventCreate && record && cu.cuEventElapsedTime && cu.cuEventSynchronize &&
               cu.cuEventCreate(&events[0], 0) == CU_SUCCESS && cu.cuEventCreate(&events[1], 0) == CU_SUCCESS &&
               record(events[0], launch->shape.stream) == CU_SUCCESS;
    CuStatus status = go(launch);
    able = able && status == CU_SUCCESS && record(events[1], launch->shape.stream) == CU_SUCCESS &&
           cu.cuEventSynchronize(events[1]) == CU_SUCCESS;
    *seconds = able && cu.cuEventElapsedTime(&ms, events[0], events[1]) == CU_SUCCESS ? 1e-3 * (double)ms : 0.0;
    for (int i = 0; i < 2; i++)
        if (events[i] && cu.cuEventDestroy_v2) cu.cuEventDestroy_v2(events[i]);
    return status;
}

/* Waiting for the device would spoil the graph that any thread is capturing. */
static int into_graph(const CuLaunch *launch)
{
    int state = 0;
    if (__atomic_load_n(&graphs_open, __ATOMIC_ACQUIRE)) return 1;
    return cu.cuStreamIsCapturing && cu.cuStreamIsCapturing(launch->shape.stream, &state) == CU_SUCCESS && state == CAPTURING;
}

static CuStatus captured(const CuLaunch *launch, const Function *function, CuFacts *facts, const char *name, const char **why)
{
    Capture capture;
    double seconds = 0;
    int capturing = 0;
    uint64_t sign = cu_signature(launch, function, facts);
    CuStatus before = cu.cuCtxSynchronize();
    if (mode_record && !*why && before == CU_SUCCESS && is_wanted(sign) && !(*why = reach_further(facts)) &&
        (capturing = open_capture(&capture))) {
        cu_fields(&capture, launch, function, facts, name, sign);
        cu_contents(&capture, facts, "before");
    }
    CuStatus status = timed(launch, &seconds);
    int good = status == CU_SUCCESS && cu.cuCtxSynchronize() == CU_SUCCESS;
    if (capturing) {
        if (good) cu_contents(&capture, facts, "after");
        close_capture(&capture, seconds, good, sign);
        if (!good) say("lost\tthe launch failed");
    } else if (mode_record && !*why && has_room()) {
        say("lost\t%s", before == CU_SUCCESS ? "the recording cannot be written" : "an earlier launch failed");
    }
    launch_took(sign, seconds);
    if (status == CU_SUCCESS) say_launch(name, function && function->module ? function->module->hash : 0, sign, seconds, *why);
    return status;
}

static CuStatus cu_watched(CuLaunch *launch)
{
    char name[512] = "?";
    cu_resolve();
    if (mode_apply && !inside) return applied(launch);
    if (inside || !(mode_list || mode_record) || !cu.cuCtxSynchronize) return go(launch);
    const Function *function = function_of(launch->function);
    if (function) display_name(function, name, sizeof name);
    if (mode_record && !cu_named(name, function)) return go(launch);
    CuFacts *facts = calloc(1, sizeof *facts);
    if (facts) facts->reached = calloc(MOST_REACHED, sizeof *facts->reached);
    if (!facts || !facts->reached) { free(facts); return go(launch); }
    acquire(&launch_lock);
    inside++;
    CuStatus status;
    if (into_graph(launch)) {
        status = go(launch);
        if (status == CU_SUCCESS) say_launch(name, function && function->module ? function->module->hash : 0, 0, 0.0, in_graph);
    } else {
        const char *why = cu_refusal(launch, function, facts);
        status = captured(launch, function, facts, name, &why);
    }
    inside--;
    release(&launch_lock);
    free(facts->reached);
    free(facts);
    return status;
}

#define PLAIN_LAUNCH(KIND, PER_THREAD, EXTRA)                                                                         \
    CuLaunch launch = {{{b, c, d}, {e, f, g}, h, i, NULL, 0}, NULL, a, j, EXTRA, KIND, PER_THREAD};                   \
    cu_resolve();                                                                                                     \
    return cu_watched(&launch)

EXPORT CuStatus cuLaunchKernel(CU_GRID, void **j, void **k) { PLAIN_LAUNCH(0, 0, k); }
EXPORT CuStatus cuLaunchKernel_ptsz(CU_GRID, void **j, void **k) { PLAIN_LAUNCH(0, 1, k); }
EXPORT CuStatus cuLaunchCooperativeKernel(CU_GRID, void **j) { PLAIN_LAUNCH(2, 0, NULL); }
EXPORT CuStatus cuLaunchCooperativeKernel_ptsz(CU_GRID, void **j) { PLAIN_LAUNCH(2, 1, NULL); }

static CuStatus configured(const void *config, void *function, void **parameters, void **extra, int per_thread)
{
    CuLaunch launch = {*(const CuConfig *)config, config, function, parameters, extra, 1, per_thread};
    return cu_watched(&launch);
}

EXPORT CuStatus cuLaunchKernelEx(const void *a, void *b, void **c, void **d) { return configured(a, b, c, d, 0); }
EXPORT CuStatus cuLaunchKernelEx_ptsz(const void *a, void *b, void **c, void **d) { return configured(a, b, c, d, 1); }
