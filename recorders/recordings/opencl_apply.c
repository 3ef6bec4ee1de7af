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
        kernel->winner = &winners[i];
        if (!program->others || !program->others[i]) return;
        kernel->other = real.clCreateKernel(program->others[i], name, &status);
        if (!kernel->other) say("problem\t%s\tthe winner has no such kernel (OpenCL error %d)", name, status);
        return;
    }
}
