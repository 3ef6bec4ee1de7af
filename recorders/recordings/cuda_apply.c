/* CUDA: winners in the place of the application's kernels. Follows cuda_reach.c.
 *
 * The winner's image is loaded beside the application's module, into the same context, and launched with the same
 * parameters where the launch is one that it was verified on. The application's modules, variables and every other
 * launch stay as they are.
 */

enum { MOST_SHARED = 8 }; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */

static int placing;

static int is_of(const Winner *winner, const Function *function)
{
    const Module *module = function->module;
    const Source *source = module ? module->source : NULL;
    char name[512];
    if (strcmp(winner->api, "cuda") || !module || !module->image) return 0;
    if (!strcmp(winner->form, "source")) {
        if (!source || source->headers || strcmp(source->text, winner->old_text)) return 0;
        if (strcmp(source->options ? source->options : "", winner->old_options)) return 0;
    } else if (source || module->size != winner->old_size || memcmp(module->image, winner->old_text, winner->old_size)) {
        return 0;
    }
    display_name(function, name, sizeof name);
    return !strcmp(name, winner->kernel);
}

static uint64_t winners_for(Function *function)
{
    if (!__atomic_load_n(&function->looked, __ATOMIC_ACQUIRE)) {
        uint64_t fitting = 0;
        for (int i = 0; i < winner_count; i++) fitting |= (uint64_t)is_of(&winners[i], function) << i;
        function->fitting = fitting;
        __atomic_store_n(&function->looked, 1, __ATOMIC_RELEASE);
    }
    return function->fitting;
}

#define FOR_WINNERS(fitting, winner) \
    for (const Winner *winner = winners; winner < winners + winner_count; winner++) if ((fitting) >> (winner - winners) & 1)

/* Whether the winner takes the parameters that the application passes. */
static const char *layout_differs(const Function *function, void *handle, void *made)
{
    CuStatus (*info)(void *, size_t, size_t *, size_t *) = function->kernel ? cu.cuKernelGetParamInfo : cu.cuFuncGetParamInfo;
    if (!info || !cu.cuFuncGetParamInfo) return no_layout;
    for (size_t i = 0; i <= MOST_PARAMETERS; i++) {
        size_t own[2] = {0, 0}, other[2] = {0, 0};
        CuStatus status = info(handle, i, &own[0], &own[1]);
        if (status != CU_SUCCESS && status != CU_INVALID_VALUE) return no_layout;
        if (cu.cuFuncGetParamInfo(made, i, &other[0], &other[1]) != status || memcmp(own, other, sizeof own))
            return "the winner takes other parameters than the application passes";
        if (status != CU_SUCCESS) return NULL;
    }
    return "more parameters than can be followed";
}

/* Where each constant of the winner lies, and the application's own of that name. */
static const char *find_constants(Placed *placed, const Function *function, void *handle, void *module, const Winner *winner)
{
    void *own = NULL, *named = handle;
    size_t count = 0;
    char name[1024];
    for (const char *at = winner->variables; at && *at; at++) count += *at == '\n';
    if (!count) return NULL;
    placed->constants = calloc(count, sizeof *placed->constants);
    if (function->kernel && (!cu.cuKernelGetFunction || cu.cuKernelGetFunction(&named, handle) != CU_SUCCESS)) named = NULL;
    if (!placed->constants || !named || !cu.cuFuncGetModule || cu.cuFuncGetModule(&own, named) != CU_SUCCESS ||
        !cu.cuModuleGetGlobal_v2 || !cu.cuMemcpyDtoDAsync_v2) return "the application's constants cannot be found";
    for (const char *line = winner->variables; *line;) {
        const char *end = line;
        size_t size = 0;
        while (*end != '\n') end++;
        snprintf(name, sizeof name, "%.*s", (int)(end - line), line);
        line = end + 1;
        Constant *constant = &placed->constants[placed->constant_count];
        if (cu.cuModuleGetGlobal_v2(&constant->to, &size, module, name) != CU_SUCCESS) continue; /* it does not use it */
        if (cu.cuModuleGetGlobal_v2(&constant->from, &constant->size, own, name) != CU_SUCCESS || size != constant->size)
            return "a constant of the winner is none of the application's";
        placed->constant_count++;
    }
    return NULL;
}

static const char *bring(Placed *placed, const Function *function, void *handle, const Winner *winner, CuStatus *status)
{
    void *module = NULL, *made = NULL;
    const char *why;
    *status = CU_SUCCESS;
    if (!cu.cuModuleLoadData || (*status = cu.cuModuleLoadData(&module, winner->new_text)) != CU_SUCCESS)
        return "the winner cannot be loaded here";
    if (!winner->symbol || (*status = cu.cuModuleGetFunction(&made, module, winner->symbol)) != CU_SUCCESS)
        why = "the winner's image has no such kernel";
    else if (!(why = layout_differs(function, handle, made)) &&
             !(why = find_constants(placed, function, handle, module, winner)))
        placed->function = made;
    if (why && cu.cuModuleUnload) cu.cuModuleUnload(module);
    return why;
}

/* The winner in the context of the moment, loaded when it is first asked for; NULL without a context. */
static Placed *placed_of(Function *function, void *handle, const Winner *winner)
{
    void *context = NULL;
    if (!cu.cuCtxGetCurrent || cu.cuCtxGetCurrent(&context) != CU_SUCCESS || !context) return NULL;
    acquire(&placing);
    Placed *placed = function->placed;
    while (placed && (placed->context != context || placed->winner != winner)) placed = placed->next;
    if (!placed && (placed = calloc(1, sizeof *placed))) {
        CuStatus status;
        inside++;
        placed->context = context;
        placed->winner = winner;
        const char *why = bring(placed, function, handle, winner, &status);
        if (why && status != CU_SUCCESS) say("problem\t%s\t%s (CUDA error %d)", winner->kernel, why, status);
        else if (why) say("problem\t%s\t%s", winner->kernel, why);
        placed->next = function->placed;
        function->placed = placed;
        inside--;
    }
    release(&placing);
    return placed;
}

/* As soon as the application has its kernel, so that no launch waits for a winner. */
static void put_ready(void *handle)
{
    Function *function = get(&functions, handle);
    uint64_t fitting = function ? winners_for(function) : 0;
    FOR_WINNERS(fitting, winner) placed_of(function, handle, winner);
}

/* What a winner was verified on that is this launch; NULL where it was on none such. */
static const Shape *verified_shape(const Winner *winner, const CuConfig *shape)
{
    const size_t each = 3 * sizeof(unsigned);
    for (int i = 0; i < winner->shape_count; i++) {
        const Shape *known = &winner->shapes[i];
        if (!memcmp(known->own, shape->grid, each) && !memcmp(known->own + 3, shape->block, each) && known->own[6] == shape->shared)
            return known;
    }
    return NULL;
}

/* The winner that was timed nearest to a launch, and whether it was faster there; only those that take any, where some do. */
static const Winner *nearest_image(uint64_t fitting, const CuConfig *shape, int *taken)
{
    const Winner *found = NULL;
    int able = 0;
    Distance best = {2 * FAR, 0};
    FOR_WINNERS(fitting, winner) able |= winner->any_shape;
    FOR_WINNERS(fitting, winner) {
        double here[MOST_KEYS];
        if (winner->any_shape < able) continue;
        for (size_t k = 0; k < winner->key_count; k++) {
            size_t axis = winner->keys[k].at % 3;
            here[k] = (double)shape->grid[axis] * shape->block[axis];
        }
        for (size_t p = 0; p < winner->point_count; p++) {
            const double *point = winner->points + p * (winner->key_count + 1);
            if (!nearer(&best, here, point + 1, winner->key_count)) continue;
            found = winner;
            *taken = able && point[0] != 0;
        }
    }
    return found;
}

/* Which winner a launch goes to, and how it is made then: the first that was faster on just such a one; where none was
 * verified on it, the nearest of those that take any. `taken` is 0 where it stays as it is.
 */
static const Winner *chosen(uint64_t fitting, CuConfig *shape, int *taken)
{
    const Winner *left = NULL;
    FOR_WINNERS(fitting, winner) {
        const Shape *known = verified_shape(winner, shape);
        if (known && known->taken) {
            memcpy(shape->grid, known->other, 3 * sizeof(unsigned));
            memcpy(shape->block, known->other + 3, 3 * sizeof(unsigned));
            shape->shared = known->other[6];
            *taken = 1;
            return winner;
        }
        if (known && !left) left = winner;
    }
    *taken = 0;
    return left ? left : nearest_image(fitting, shape, taken);
}

static CuStatus copy_constants(const Placed *placed, const CuLaunch *launch)
{
    CuStatus status = CU_SUCCESS;
    for (int i = 0; i < placed->constant_count && status == CU_SUCCESS; i++) {
        const Constant *constant = &placed->constants[i];
        CuStatus (*copy)(CuPointer, CuPointer, size_t, void *) =
            launch->per_thread && cu.cuMemcpyDtoDAsync_v2_ptsz ? cu.cuMemcpyDtoDAsync_v2_ptsz : cu.cuMemcpyDtoDAsync_v2;
        status = copy(constant->to, constant->from, constant->size, launch->shape.stream);
    }
    return status;
}

static int into_graph(const CuLaunch *launch);
static CuStatus go(const CuLaunch *launch);

/* The winner where it fits; else the application's own kernel. */
static CuStatus applied(const CuLaunch *launch)
{
    Function *function = function_of(launch->function);
    uint64_t fitting = function ? winners_for(function) : 0;
    CuLaunch other = *launch;
    int taken = 0;
    const Winner *winner = fitting ? chosen(fitting, &other.shape, &taken) : NULL;
    if (!winner) return go(launch);
    int fits = launch->kind != 2 && !attributes_refused(&launch->shape) && taken && !into_graph(launch);
    Placed *placed = fits ? placed_of(function, launch->function, winner) : NULL;
    if (placed && placed->function) {
        other.function = placed->function;
        other.config = &other.shape;
        /* Beyond 48 KiB a kernel has to be allowed it; where that fails the launch says so. */
        if (other.shape.shared > placed->shared && cu.cuFuncSetAttribute &&
            cu.cuFuncSetAttribute(placed->function, MOST_SHARED, (int)other.shape.shared) == CU_SUCCESS)
            placed->shared = other.shape.shared;
        CuStatus status = copy_constants(placed, launch);
        if (status == CU_SUCCESS) status = go(&other);
        if (status == CU_SUCCESS) {
            count_launch(winner, 0);
            return status;
        }
        say("problem\t%s\tthe winner cannot be launched (CUDA error %d)", winner->kernel, status);
    }
    count_launch(winner, 1);
    return go(launch);
}
