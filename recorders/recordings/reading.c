/* Memory of the application that may not be there: read only where the kernel says that it can be.
 *
 * Pointers in structures are wild, dangling or never set where the function does not follow them. Follows common.c.
 */

#define MOST_BYTES (1L << 40) /* of one array */
enum { SMALLEST_PAGE = 4096, PROBES = 64 };

/* Whether eight bytes at a multiple of eight can be read. The kernel takes the set of signals before it looks at what
 * shall be done with it, and that is nothing it knows. Neither errno nor the signals change.
 * Source: rt_sigprocmask in Linux's kernel/signal.c.
 */
static int is_mapped(uintptr_t word)
{
#if defined __x86_64__
    long done;
    register long size __asm__("r10") = 8;
    __asm__ volatile("syscall" : "=a"(done) : "0"(14L), "D"(-1L), "S"(word), "d"(0L), "r"(size) : "rcx", "r11", "memory");
    return done != -14;
#elif defined __aarch64__
    register long done __asm__("x0") = -1, set __asm__("x1") = (long)word, old __asm__("x2") = 0, size __asm__("x3") = 8;
    register long call __asm__("x8") = 135;
    __asm__ volatile("svc 0" : "+r"(done) : "r"(set), "r"(old), "r"(size), "r"(call) : "memory");
    return done != -14;
#else
    return word != 0;
#endif
}

/* The executable's own segments are there for as long as the process is, so the kernel need not be asked. */
enum { SEGMENTS = 8, LOADED = 1, CAN_BE_READ = 4 };
struct segment { uint32_t type, flags; uint64_t offset, address, physical, file_size, size, align; };
struct program { struct loaded head; const struct segment *segments; uint16_t count; };
static struct { uintptr_t from, to; } lasting[SEGMENTS];

static int find_segments(struct loaded *object, size_t size, void *data)
{
    const struct program *program = (const struct program *)object;
    (void)size, (void)data;
    for (uint16_t i = 0, found = 0; i < program->count && found < SEGMENTS; i++) {
        const struct segment *one = &program->segments[i];
        if (one->type != LOADED || !(one->flags & CAN_BE_READ)) continue;
        lasting[found].from = object->address + one->address;
        lasting[found++].to = object->address + one->address + one->size;
    }
    return 1; /* the first is the executable */
}

__attribute__((constructor)) static void find_lasting(void)
{
    dl_iterate_phdr(find_segments, NULL);
}

static int is_lasting(uintptr_t first, uintptr_t last)
{
    for (int i = 0; i < SEGMENTS; i++)
        if (first >= lasting[i].from && last < lasting[i].to) return 1;
    return 0;
}

#ifdef OWN_PATH
enum { SAVED = 2752 }; /* what stood_before has on the stack, at least */
#else
enum { SAVED = 0 };
#endif

/* Whether all of it can be read. The pages that this call's frames lie in are there for certain. */
__attribute__((unused)) static int readable(const void *from, size_t size)
{
    uintptr_t first = (uintptr_t)from, last, frames = (uintptr_t)__builtin_frame_address(0);
    uintptr_t low = frames / SMALLEST_PAGE, high = (frames + SAVED) / SMALLEST_PAGE;
    if (!from || !size || __builtin_add_overflow(first, size - 1, &last)) return 0;
    if (is_lasting(first, last)) return 1;
    for (uintptr_t page = first / SMALLEST_PAGE; page <= last / SMALLEST_PAGE; page++)
        if ((page < low || page > high) && !is_mapped(page * SMALLEST_PAGE)) return 0;
    return 1;
}

/* Whether a large array seems to be all there: asked at both ends and at places between. */
__attribute__((unused)) static int reaches(const void *from, size_t size)
{
    uintptr_t first = (uintptr_t)from, last;
    if (!from || !size || __builtin_add_overflow(first, size - 1, &last)) return 0;
    size_t step = size / PROBES < SMALLEST_PAGE ? SMALLEST_PAGE : size / PROBES;
    for (size_t at = 0; at < size; at += step)
        if (!is_mapped((first + at) & ~(uintptr_t)7)) return 0;
    return is_mapped(last & ~(uintptr_t)7);
}

/* An address, or nothing where so much cannot be read there. */
__attribute__((unused)) static void *there(const void *from, size_t size)
{
    return readable(from, size) ? (void *)from : NULL;
}

/* What a pointer in a structure points to; nothing where there is no structure. */
__attribute__((unused)) static void *pointer_at(const void *structure, long offset)
{
    void *found = NULL;
    if (structure) memcpy(&found, (const char *)structure + offset, sizeof found);
    return found;
}

/* Whether the rows of an array lie one behind the other, as in one array. Their addresses are looked at page by page:
 * how many there are is the application's word. */
__attribute__((unused)) static int in_a_row(const void *addresses, long rows, long bytes)
{
    const char *const *each = addresses;
    if (!each || rows <= 0 || bytes <= 0) return 0;
    for (long i = 0; i < rows; i++) {
        uintptr_t last = (uintptr_t)&each[i] + sizeof *each - 1;
        if ((!i || last % SMALLEST_PAGE < sizeof *each) && !readable(&each[i], sizeof *each)) return 0;
        if ((uintptr_t)each[i] != (uintptr_t)each[0] + (uintptr_t)i * (uintptr_t)bytes) return 0;
    }
    return each[0] != NULL;
}
