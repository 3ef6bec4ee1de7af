/* OpenCL: winners beside the application's programs and kernels. Its own objects stay as they are. Follows opencl_api.c. */

static int is_replaced(const Program *program, const Winner *winner)
{
    return !strcmp(winner->api, "opencl") && !strcmp(program->form, winner->form) && !program->parts &&
           !program->special &&
           program->size == winner->old_size && !memcmp(program->text, winner->old_text, winner->old_size) &&
           !strcmp(program->options ? program->options : "", winner->old_options);
}

static int is_il(const Winner *winner) { return winner->new_form && !strcmp(winner->new_form, "il"); }

static int holds_same(const Winner *one, const Winner *other)
{
    return is_il(one) == is_il(other) && one->new_size == other->new_size && !memcmp(one->new_text, other->new_text, one->new_size) &&
           !strcmp(one->new_options, other->new_options);
}

/* A winner that differs in its launch alone needs no other program, and winners of one text share theirs. */
static Handle program_there(Handle own, const Program *program, int number)
{
    const Winner *winner = &winners[number];
    if (is_il(winner) == !strcmp(winner->form, "il") && winner->new_size == winner->old_size && !memcmp(winner->new_text, winner->old_text, winner->old_size) &&
        !strcmp(winner->new_options, winner->old_options)) return own;
    for (int i = 0; i < number; i++)
        if (program->others[i] && holds_same(&winners[i], winner)) return program->others[i];
    return NULL;
}

/* The winners' programs in the context of the one that the application has built, for the same devices. */
static void build_others(Handle handle, Program *program, Count count, const Handle *devices)
{
    Handle context = NULL;
    if (!program->others) program->others = calloc(MOST_WINNERS, sizeof *program->others);
    if (!program->others) return;
    inside++;
    if (real.clGetProgramInfo(handle, PROGRAM_CONTEXT, sizeof context, &context, NULL) != SUCCESS) context = NULL;
    for (int i = 0; context && i < winner_count; i++) {
        const char *text = winners[i].new_text;
        Status status = SUCCESS;
        if (program->others[i] || !is_replaced(program, &winners[i])) continue;
        if ((program->others[i] = program_there(handle, program, i))) continue;
        Handle other = NULL;
        status = NO_SUCH_CALL;
        if (!is_il(&winners[i])) other = real.clCreateProgramWithSource(context, 1, &text, &winners[i].new_size, &status);
        else if (real.clCreateProgramWithIL) other = real.clCreateProgramWithIL(context, text, winners[i].new_size, &status);
        if (other) {
            status = real.clBuildProgram(other, count, devices, winners[i].new_options, NULL, NULL);
            if (status == SUCCESS) program->others[i] = other;
            else real.clReleaseProgram(other);
        }
        if (!program->others[i]) say("problem\t%s\tthe winner does not build here (OpenCL error %d)", winners[i].kernel, status);
    }
    inside--;
}

static void put_beside(Kernel *kernel, const Program *program, const char *name)
{
    for (int i = 0; program && i < winner_count; i++) {
        Status status = SUCCESS;
        if (strcmp(name, winners[i].kernel) || !is_replaced(program, &winners[i])) continue;
        if (!kernel->beside) kernel->beside = calloc(MOST_WINNERS, sizeof *kernel->beside);
        if (!kernel->beside) return;
        Beside *place = &kernel->beside[kernel->beside_count++];
        place->winner = &winners[i];
        if (!program->others || !program->others[i]) continue;
        place->kernel = real.clCreateKernel(program->others[i], name, &status);
        if (!place->kernel) say("problem\t%s\tthe winner has no such kernel (OpenCL error %d)", name, status);
    }
}

/* Whether a winner's work-groups divide the launch's grid. */
static int divides(const Winner *winner, Count axes, const size_t *global)
{
    for (Count i = 0; winner->local[0] && i < 3; i++)
        if (i < axes ? global[i] % winner->local[i] : winner->local[i] != 1) return 0;
    return 1;
}

static double number_of(const Argument *argument, int is_signed)
{
    uint64_t bits = 0;
    if (!argument->set || argument->svm || !argument->value || !argument->size || argument->size > sizeof bits) return 0;
    memcpy(&bits, argument->value, argument->size);
    unsigned unused = 64 - 8 * (unsigned)argument->size;
    return is_signed ? (double)((int64_t)(bits << unused) >> unused) : (double)bits;
}

static double bytes_of(const Argument *argument)
{
    Handle memory = NULL;
    size_t size = 0;
    if (argument->set && !argument->svm && argument->value && argument->size == sizeof memory) memcpy(&memory, argument->value, sizeof memory);
    if (memory) real.clGetMemObjectInfo(memory, MEM_SIZE, sizeof size, &size, NULL);
    return (double)size;
}

static double launch_number(const Kernel *kernel, Key key, Count axes, const size_t *global)
{
    if (key.kind == AXIS) return key.at < axes ? (double)global[key.at] : 1;
    if (key.at >= kernel->count) return 0;
    const Argument *argument = &kernel->arguments[key.at];
    return key.kind == BYTES ? bytes_of(argument) : number_of(argument, key.kind == SIGNED);
}

/* The name of the device where one of the winners asks for it; spaces around it do not count. */
static void name_device(const Kernel *kernel, Handle queue, char *name, size_t room)
{
    Handle device = NULL;
    int asked = 0;
    for (int i = 0; i < kernel->beside_count; i++) asked |= kernel->beside[i].winner->device && kernel->beside[i].winner->device[0];
    if (!asked || real.clGetCommandQueueInfo(queue, QUEUE_DEVICE, sizeof device, &device, NULL) != SUCCESS ||
        real.clGetDeviceInfo(device, DEVICE_NAME, room, name, NULL) != SUCCESS) name[0] = 0;
    size_t start = 0, length = strlen(name);
    while (name[start] == ' ') start++;
    while (length > start && name[length - 1] == ' ') length--;
    for (size_t i = start; i < length; i++) name[i - start] = name[i];
    name[length - start] = 0;
}

/* The winner that was timed nearest to a launch, among those that can take it unless `any`; and in `taken` whether it
 * was faster there. Of equally near ones the first that was.
 */
static Beside *nearest(const Kernel *kernel, Handle queue, Count axes, const size_t *global, int any, int *taken)
{
    Beside *found = NULL;
    char device[512] = "";
    if (!any) name_device(kernel, queue, device, sizeof device);
    Distance best = {2 * FAR, 0};
    double here[MOST_KEYS];
    for (int wanted = 1; wanted >= 0; wanted--)
        for (int i = 0; i < kernel->beside_count; i++) {
            Beside *place = &kernel->beside[i];
            const Winner *winner = place->winner;
            if (!any && winner->device && winner->device[0] && strcmp(winner->device, device)) continue;
            if (wanted && !any && !(place->kernel && divides(winner, axes, global))) continue;
            for (size_t k = 0; k < winner->key_count; k++) here[k] = launch_number(kernel, winner->keys[k], axes, global);
            for (size_t p = 0; p < winner->point_count; p++) {
                const double *point = winner->points + p * (winner->key_count + 1);
                if ((point[0] != 0) != wanted || !nearer(&best, here, point + 1, winner->key_count)) continue;
                found = place;
                *taken = wanted;
            }
        }
    return found;
}

/* One call on each kernel that stands beside; where it fails that one takes no launch from then on. */
#define FOR_BESIDE(own, place) for (Beside *place = (own)->beside; place && place < (own)->beside + (own)->beside_count; place++)
