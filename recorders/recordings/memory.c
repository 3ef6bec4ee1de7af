/* The application's memory as it is: what addresses that it passes lead to, kept whole.
 *
 * The heap, the stack from the caller's frame on, and the executable's own segments but its code. A pointer anywhere in
 * them is good in a replay that has them at the same addresses. Follows allocations.c, or what is in its place.
 */

extern int mallopt(int, int), munmap(void *, size_t);

enum { PIECES = 8, MAPPING_TEXT = 1 << 20, MMAP_MAX = -4, WRITABLE = 2, EXECUTABLE = 1 };
#define MOST_MEMORY (256UL << 20)

struct piece { const char *name; uintptr_t begin, end; };
static struct piece pieces[PIECES];
static int piece_count;

/* Large blocks lie in the heap too, and not in mappings of their own (mallopt(3)). */
__attribute__((constructor)) static void keep_blocks_together(void) { mallopt(MMAP_MAX, 0); }

static void add_piece(const char *name, uintptr_t begin, uintptr_t end)
{
    if (piece_count < PIECES && begin < end) pieces[piece_count++] = (struct piece){name, begin, end};
}

static int add_segments(struct loaded *object, size_t size, void *data)
{
    const struct program *program = (const struct program *)object;
    (void)size, (void)data;
    for (uint16_t i = 0; i < program->count; i++) {
        const struct segment *one = &program->segments[i];
        if (one->type != LOADED || one->flags & EXECUTABLE) continue;
        uintptr_t begin = object->address + one->address;
        add_piece(one->flags & WRITABLE ? "variables" : "constants", begin & ~(uintptr_t)(SMALLEST_PAGE - 1),
                  begin + one->size);
    }
    return 1; /* the first is the executable */
}

/* Finds the pieces; gives why they cannot be kept, or nothing. */
static const char *find_pieces(uintptr_t frame)
{
    static char text[MAPPING_TEXT];
    size_t have = 0, total = 0;
    ssize_t got;
    int file = open("/proc/self/maps", 0), stack = 0;
    if (file < 0) return "the system does not tell where its memory lies";
    while (have < sizeof text - 1 && (got = read(file, text + have, sizeof text - 1 - have)) > 0) have += (size_t)got;
    close(file);
    text[have] = 0;
    piece_count = 0;
    for (char *line = text; *line;) {
        char *rest, *end = line;
        while (*end && *end != '\n') end++;
        uintptr_t begin = strtoul(line, &rest, 16), last = strtoul(rest + 1, &rest, 16);
        if (end - line > 6 && !memcmp(end - 6, "[heap]", 6)) add_piece("heap", begin, last);
        if (frame >= begin && frame < last) add_piece("stack", frame, last), stack = 1;
        line = *end ? end + 1 : end;
    }
    dl_iterate_phdr(add_segments, NULL);
    for (int i = 0; i < piece_count; i++) total += pieces[i].end - pieces[i].begin;
    if (!stack) return "its stack is not known";
    return total > MOST_MEMORY ? "its memory is larger than 256 MB" : NULL;
}

/* What has called the function that is stood before begins its part of the stack behind that one's return address. */
#define FIND_PIECES find_pieces((uintptr_t)__builtin_frame_address(1) + 2 * sizeof(void *))

/* A structure that is passed by value: what stands before the function has handed on a copy of the caller's words, which
 * begin behind its return address as these do here; none where it came in registers. */
#define callers_copy(copy) original_of((uintptr_t)(copy), (uintptr_t)__builtin_frame_address(0), \
                                       (uintptr_t)__builtin_frame_address(1))
__attribute__((unused)) static uintptr_t original_of(uintptr_t copy, uintptr_t own, uintptr_t callers)
{
    uintptr_t at = copy - own - 2 * sizeof(void *);
    return at < OWN_STACK * sizeof(void *) ? callers + 2 * sizeof(void *) + at : 0;
}

/* Which piece an address lies in; -1 for none. */
static int piece_of(const void *address)
{
    for (int i = 0; i < piece_count; i++)
        if ((uintptr_t)address >= pieces[i].begin && (uintptr_t)address < pieces[i].end) return i;
    return -1;
}

static void piece_field(Capture *capture, int number, const char *what, const void *data, size_t size)
{
    char name[64];
    snprintf(name, sizeof name, "%d/%s", number, what);
    field(capture, name, data, size);
}

/* An argument that is an address: its value, and where in which piece that is; a null pointer is in the first. */
static void address_field(Capture *capture, int number, const void *address, int first)
{
    int which = piece_of(address);
    uint64_t points[2] = {(uint64_t)(first + (which < 0 ? 0 : which)), 0};
    if (which >= 0) points[1] = (uintptr_t)address - pieces[which].begin;
    piece_field(capture, number, "points", points, sizeof points);
    piece_field(capture, number, "value", &address, sizeof address);
}

static void piece_heads(Capture *capture, int first)
{
    number_field(capture, "inner", 1);
    for (int i = 0; i < piece_count; i++) {
        uint64_t memory[2] = {pieces[i].begin, pieces[i].end - pieces[i].begin};
        piece_field(capture, first + i, "memory", memory, sizeof memory);
        piece_field(capture, first + i, "name", pieces[i].name, strlen(pieces[i].name));
    }
}

static size_t heap_at; /* where the capture's file has what the heap held before */

static void before_out(Capture *capture, int before, size_t from, size_t size)
{
    static char part[1 << 16];
    while (size && !capture->failed) {
        ssize_t got = pread(before, part, size < sizeof part ? size : sizeof part, (long)from);
        if (got <= 0) capture->failed = 1;
        else bytes_out(capture, part, (size_t)got), from += (size_t)got, size -= (size_t)got;
    }
}

/* The heap after a call: the application's own blocks as they are, what lies between them as it was. Allocators keep their
 * lists there, and libraries of OpenMP what they know of their threads; a replay has both elsewhere.
 */
static int heap_after(Capture *capture, struct piece heap)
{
    size_t count, bytes;
    struct block *own = own_blocks(heap.begin, heap.end, &count, &bytes);
    int before = own ? open(capture->path, CLOEXEC) : -1;
    uintptr_t at = heap.begin;
    for (size_t i = 0; before >= 0 && i <= count; i++) {
        uintptr_t begin = i < count ? own[i].address : heap.end;
        before_out(capture, before, heap_at + (at - heap.begin), begin - at);
        if (i < count) bytes_out(capture, (const void *)begin, own[i].size), at = begin + own[i].size;
    }
    if (before >= 0) close(before);
    if (own) munmap(own, bytes);
    return before >= 0;
}

static void piece_contents(Capture *capture, int first, const char *when)
{
    for (int i = 0; i < piece_count; i++) {
        char name[64];
        size_t size = pieces[i].end - pieces[i].begin;
        int is_heap = !strcmp(pieces[i].name, "heap");
        snprintf(name, sizeof name, "%d/%s", first + i, when);
        field_head(capture, name, size);
        if (is_heap && !strcmp(when, "before")) heap_at = capture->size;
        if (is_heap && !strcmp(when, "after") && !capture->failed && heap_after(capture, pieces[i])) continue;
        contents_out(capture, (const void *)pieces[i].begin, size, "its memory cannot be read");
    }
}
