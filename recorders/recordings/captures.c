/* Captures of launches: files of named fields, put in their places when they are whole, and which of them are kept.
 * Follows common.c.
 */

typedef struct { int file, failed, process; size_t size; char path[4096]; } Capture; /* process: that began it */

static void bytes_out(Capture *capture, const void *data, size_t size)
{
    const char *at = data;
    while (size && !capture->failed) {
        ssize_t done = write(capture->file, at, size > (1u << 30) ? 1u << 30 : size);
        if (done > 0) { at += done; size -= (size_t)done; capture->size += (size_t)done; }
        else if (done == 0 || *__errno_location() != INTERRUPTED) capture->failed = 1;
    }
}

static void field_head(Capture *capture, const char *name, size_t size)
{
    uint64_t head[2] = {strlen(name), size};
    bytes_out(capture, head, sizeof head);
    bytes_out(capture, name, strlen(name));
}

static void field(Capture *capture, const char *name, const void *data, size_t size)
{
    field_head(capture, name, size);
    bytes_out(capture, data, size);
}

static void text_field(Capture *capture, const char *name, const char *text) { field(capture, name, text, strlen(text)); }

static void number_field(Capture *capture, const char *name, uint64_t number) { field(capture, name, &number, 8); }

/* Representatives of each wanted kernel: one of each signature first, further ones while there is room. A program may
 * begin with data that it never has again (all zero, or noise), and end with what changes nothing any more. So the very
 * first one stays, and whenever there have been twice as many launches of a signature, one takes the place of the oldest
 * other one of it: in the end the newest is of the program's later half. A signature that has taken twice as long as one
 * that is kept takes that one's place.
 */
enum { RENEWED_BYTES = 1 << 30 }; /* that a process writes for it at most */
static struct {
    uint64_t sign, launches, due; /* of the signature so far, and how many there have to be for the next one */
    size_t number, size;
    int kernel;
} *kept;
static size_t kept_count, renewed_bytes;
static long outgoing = -1; /* the one that goes when the capture at hand is whole */
static __thread int meant; /* which of the wanted kernels the launch at hand is of */

/* Whether a name is one of the wanted, which stand one a line. */
static int names_wanted(const char *name)
{
    size_t length = strlen(name);
    int number = 0;
    for (const char *line = wanted; *line; number++) {
        const char *end = line;
        while (*end && *end != '\n') end++;
        if ((size_t)(end - line) == length && !memcmp(line, name, length)) { meant = number; return 1; }
        line = *end ? end + 1 : end;
    }
    return 0;
}

static int has_room(void)
{
    size_t own = 0;
    for (size_t i = 0; i < kept_count; i++) own += kept[i].kernel == meant;
    return own < instances;
}

static void path_of(char *path, size_t room, size_t number, const char *suffix)
{
    snprintf(path, room, "%s/launch-%d-%06lu%s", out_folder, getpid(), (unsigned long)number, suffix);
}

/* The oldest one of a signature that is kept, from some place on; none (their number) where there is none. */
static size_t kept_of(uint64_t sign, size_t from)
{
    for (; from < kept_count; from++)
        if (kept[from].kernel == meant && kept[from].sign == sign) break;
    return from;
}

/* Behind the first of a kernel's, which stays. */
static size_t behind_first(void)
{
    size_t first = 0;
    while (first < kept_count && kept[first].kernel != meant) first++;
    return first + 1;
}

/* What launches of a signature took so far: their number and the least of their times, as one may have been interrupted or
 * have compiled what it runs. */
struct spent { uint64_t sign; int kernel; double launches, least; };

/* NULL where there are too many signatures. */
static struct spent *spent_on(uint64_t sign)
{
    enum { SIGNATURES = 1 << 12, TRIES = 16 };
    static struct spent all[SIGNATURES];
    for (size_t i = 0; i < TRIES; i++) {
        struct spent *one = &all[(sign + (uint64_t)meant + i) % SIGNATURES];
        if (one->launches == 0) one->sign = sign, one->kernel = meant;
        if (one->sign == sign && one->kernel == meant) return one;
    }
    return NULL;
}

static void launch_took(uint64_t sign, double seconds)
{
    struct spent *own = spent_on(sign);
    if (!own) return;
    if (own->launches == 0 || seconds < own->least) own->least = seconds;
    own->launches++;
}

/* The one behind the first whose signature took least; it goes for one that took twice as long. */
static long place_of_less(uint64_t sign)
{
    long least = -1;
    struct spent *own = spent_on(sign);
    double seconds = own ? own->launches * own->least / 2 : 0;
    for (size_t i = behind_first(); i < kept_count; i++) {
        struct spent *other = kept[i].kernel == meant ? spent_on(kept[i].sign) : NULL;
        if (other && other->launches * other->least < seconds) least = (long)i, seconds = other->launches * other->least;
    }
    return least;
}

/* Which of those that are kept would go for a launch: none (their number) while there is room, -1 where it is not wanted. */
static long place_for(uint64_t sign)
{
    if (!instances) return -1;
    if (!kept) {
        size_t kernels = 1;
        for (const char *at = wanted; *at; at++) kernels += *at == '\n';
        kept = calloc(kernels * instances, sizeof *kept);
    }
    if (!kept) return -1;
    if (has_room()) return (long)kept_count;
    size_t last = behind_first();
    if (kept_of(sign, 0) < kept_count) {
        size_t own = kept_of(sign, last);
        int due = own < kept_count && kept[own].launches + 1 >= kept[own].due && kept[own].size + renewed_bytes <= RENEWED_BYTES;
        return due ? (long)own : -1;
    }
    for (; last < kept_count; last++)
        if (kept[last].kernel == meant && (kept_of(kept[last].sign, 0) < last || kept_of(kept[last].sign, last + 1) < kept_count))
            return (long)last;
    return place_of_less(sign);
}

/* Once for each launch that could be captured. A capture that fails is tried again after some more launches. */
static int is_wanted(uint64_t sign)
{
    long place = place_for(sign);
    outgoing = place < (long)kept_count ? place : -1;
    for (size_t i = kept ? kept_of(sign, 0) : kept_count; i < kept_count; i++) {
        if (kept[i].kernel != meant || kept[i].sign != sign) continue;
        kept[i].launches++;
        if (place >= 0) kept[i].due = kept[i].launches + kept[i].launches / 8 + 1;
    }
    return place >= 0;
}

/* A capture that is whole: with it the next one of its signature is due after as many launches again. */
static void keep_capture(size_t size, uint64_t sign)
{
    size_t own = kept_of(sign, 0);
    uint64_t launches = own < kept_count ? kept[own].launches : 1;
    if (outgoing >= 0) {
        char path[4096];
        path_of(path, sizeof path, kept[outgoing].number, ".raw");
        unlink(path);
        if (kept[outgoing].sign == sign) renewed_bytes += size;
        for (size_t i = (size_t)outgoing + 1; i < kept_count; i++) kept[i - 1] = kept[i];
        kept_count--;
    }
    kept[kept_count].sign = sign;
    kept[kept_count].kernel = meant;
    kept[kept_count].size = size;
    kept[kept_count].launches = launches;
    kept[kept_count++].number = serial++;
    for (size_t i = kept_of(sign, 0); i < kept_count; i++)
        if (kept[i].kernel == meant && kept[i].sign == sign) kept[i].due = 2 * launches;
}

static int open_capture(Capture *capture)
{
    path_of(capture->path, sizeof capture->path, serial, ".part");
    capture->failed = 0;
    capture->size = 0;
    capture->process = getpid();
    capture->file = open(capture->path, WRITE_ONLY | CREATE | TRUNCATE | CLOEXEC, 0600);
    if (capture->file < 0) return 0;
    number_field(capture, "wanted", (uint64_t)meant);
    return 1;
}

static void close_capture(Capture *capture, double seconds, int good, uint64_t sign)
{
    char path[4096];
    if (good) {
        field(capture, "seconds", &seconds, sizeof seconds);
        field(capture, "end", "", 0);
        if (!capture->failed && fsync(capture->file)) capture->failed = 1;
    }
    close(capture->file);
    path_of(path, sizeof path, serial, ".raw");
    if (good && !capture->failed && rename(capture->path, path)) capture->failed = 1;
    if (good && !capture->failed) {
        keep_capture(capture->size, sign);
        return;
    }
    unlink(capture->path);
    /* Each further try would take as long and fail too. */
    if (capture->failed == 1) instances = 0;
    if (capture->failed)
        say("lost\t%s", capture->failed == 2 ? "a buffer cannot be read" : "the recording cannot be written");
}
