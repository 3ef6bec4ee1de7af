/* Winners that are put in place of kernels: what each replaces, and with what.
 *
 * TUNER_RECORD_PLAN names a folder with one folder for each, 0, 1 and so on. How many launches went to a winner and how
 * many were left as they were is counted in a file of its own, which outlives a process that is killed. Follows common.c.
 */

enum { MOST_WINNERS = 64, MOST_SHAPES = 1024, MOST_KEYS = 64, MOST_POINTS = 1024 };

/* A number of a launch: kind (AXIS and so on), and which axis or argument. */
typedef struct { size_t kind, at; } Key;
enum { AXIS, SIGNED, UNSIGNED, BYTES };

/* Grid, block and dynamic shared memory of a launch, what the winner's is for it, and whether it takes it at all. */
typedef struct { unsigned own[7], other[7], taken; } Shape;

typedef struct {
    char *api, *kernel, *form;
    char *old_text, *old_options;   /* the recorded program: source or image */
    size_t old_size;
    char *new_text, *new_options;   /* source or IL with options, or image */
    char *new_form;                 /* OpenCL: as form; NULL for source */
    size_t new_size;
    size_t local[3];                /* OpenCL: work-group; 0 where it stays as it is */
    char *device;                   /* OpenCL: it takes launches on this one alone; NULL or empty for all */
    char *symbol, *variables;       /* CUDA: of the kernel in the image; names of constants, one a line */
    Shape *shapes;
    int shape_count, any_shape;
    Key keys[MOST_KEYS];            /* OpenCL: what tells the sizes that it was timed at from others' */
    double *points;                 /* of each: whether it is taken there, and as many numbers as there are keys */
    size_t key_count, point_count;
    uint64_t *counters;             /* replaced, left as they were */
} Winner;

static Winner winners[MOST_WINNERS];
static int winner_count, mode_apply;

static char *read_file(const char *folder, const char *name, size_t *size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, READ_ONLY | CLOEXEC);
    size_t room = 1 << 16, used = 0;
    char *data = file < 0 ? NULL : malloc(room);
    while (data) {
        ssize_t got = read(file, data + used, room - used - 1);
        if (got <= 0) break;
        used += (size_t)got;
        if (used + 1 == room) {
            char *bigger = malloc(2 * room);
            if (bigger) memcpy(bigger, data, used);
            free(data);
            data = bigger;
            room *= 2;
        }
    }
    if (file >= 0) close(file);
    if (data) data[used] = 0;
    if (size) *size = used;
    return data;
}

static size_t numbers(char *text, size_t *found, size_t most)
{
    size_t count = 0;
    for (char *at = text, *end; at && count < most; at = end, count++) {
        found[count] = strtoul(at, &end, 10);
        if (end == at) break;
    }
    return count;
}

/* Fifteen numbers for each launch that is known: its own seven, the winner's seven, and whether it is taken. */
static void read_shapes(Winner *winner, const char *folder)
{
    enum { EACH = 15 };
    char *text = read_file(folder, "winner.launches", NULL);
    size_t *all = text ? malloc((MOST_SHAPES * EACH + 1) * sizeof *all) : NULL;
    size_t count = all ? numbers(text, all, MOST_SHAPES * EACH + 1) : 0;
    winner->any_shape = count && all[0];
    winner->shape_count = count ? (int)((count - 1) / EACH) : 0;
    winner->shapes = calloc((size_t)winner->shape_count + 1, sizeof *winner->shapes);
    if (!winner->shapes) winner->shape_count = 0;
    for (int i = 0; i < winner->shape_count; i++)
        for (int j = 0; j < EACH; j++) {
            unsigned number = (unsigned)all[1 + i * EACH + j];
            if (j < 7) winner->shapes[i].own[j] = number;
            else if (j < 14) winner->shapes[i].other[j - 7] = number;
            else winner->shapes[i].taken = number;
        }
    free(all);
    free(text);
}

/* How many keys there are, two numbers for each, then the points. */
static void read_points(Winner *winner, const char *folder)
{
    char *text = read_file(folder, "winner.points", NULL), *at = text, *end;
    winner->points = calloc(MOST_POINTS * (MOST_KEYS + 1), sizeof *winner->points);
    size_t keys = text ? strtoul(at, &at, 10) : 0;
    winner->key_count = keys <= MOST_KEYS && winner->points ? keys : 0;
    for (size_t i = 0; text && i < winner->key_count; i++) {
        winner->keys[i].kind = strtoul(at, &at, 10);
        winner->keys[i].at = strtoul(at, &at, 10);
    }
    while (text && winner->points && winner->point_count < MOST_POINTS) {
        double *point = winner->points + winner->point_count * (winner->key_count + 1);
        size_t read = 0;
        for (; read <= winner->key_count; read++, at = end) {
            point[read] = (double)(long)strtoul(at, &end, 10);
            if (end == at) break;
        }
        if (read <= winner->key_count) break;
        winner->point_count++;
    }
    free(text);
}

static int read_winner(Winner *winner, const char *folder)
{
    winner->kernel = read_file(folder, "kernel", NULL);
    if (!winner->kernel) return 0;
    winner->api = read_file(folder, "api", NULL);
    winner->form = read_file(folder, "form", NULL);
    winner->old_text = read_file(folder, "original", &winner->old_size);
    winner->old_options = read_file(folder, "original.options", NULL);
    winner->new_text = read_file(folder, "winner", &winner->new_size);
    winner->new_form = read_file(folder, "winner.form", NULL);
    winner->new_options = read_file(folder, "winner.options", NULL);
    winner->device = read_file(folder, "winner.device", NULL);
    winner->symbol = read_file(folder, "winner.symbol", NULL);
    winner->variables = read_file(folder, "winner.variables", NULL);
    char *local = read_file(folder, "winner.local", NULL);
    numbers(local, winner->local, 3);
    free(local);
    read_shapes(winner, folder);
    read_points(winner, folder);
    return winner->api && winner->form && winner->old_text && winner->old_options && winner->new_text && winner->new_options;
}

static void count_launch(const Winner *winner, int left)
{
    if (winner->counters) __atomic_add_fetch(&winner->counters[left], 1, __ATOMIC_RELAXED);
}

static void begin_more(const char *mode)
{
    const char *plan = getenv("TUNER_RECORD_PLAN");
    char folder[4096], name[16];
    if (strcmp(mode, "apply") || !plan) return;
    for (; winner_count < MOST_WINNERS; winner_count++) {
        snprintf(name, sizeof name, "%d", winner_count);
        snprintf(folder, sizeof folder, "%s/%s", plan, name);
        if (!read_winner(&winners[winner_count], folder)) break;
        winners[winner_count].counters = open_counters(name);
    }
    mode_apply = winner_count > 0;
}
