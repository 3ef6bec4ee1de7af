/* For a process that this library is loaded into while it runs: what other libraries call by name is redirected in their
 * tables of addresses, and recording begins and ends when asked. Follows all the others.
 *
 * Source: the ELF specification (dynamic section, relocations), the x86-64 and AArch64 psABIs (kinds of relocations).
 */

typedef struct { int64_t tag; uint64_t value; } Dynamic;
typedef struct { uint32_t type, flags; uint64_t offset, address, physical, file_size, size, align; } Segment;
typedef struct { uint64_t offset, info; int64_t addend; } Relocation;
typedef struct { uint32_t name; unsigned char info, other; uint16_t section; uint64_t value, size; } Symbol;
typedef struct {
    uintptr_t base;
    const char *name;
    const Segment *segments;
    uint16_t segment_count;
    unsigned long long added;
} Object;

enum {
    SEGMENT_DYNAMIC = 2, SEGMENT_RELRO = 0x6474E552, PAGE = 4096,
    TAG_JUMPS_SIZE = 2, TAG_STRINGS = 5, TAG_SYMBOLS = 6, TAG_RELOCATIONS = 7, TAG_RELOCATIONS_SIZE = 8, TAG_JUMPS = 23,
    X86_ADDRESS = 6, X86_JUMP = 7, ARM_ADDRESS = 1025, ARM_JUMP = 1026
};

static unsigned long long seen_added;

static int is_own(const Object *object)
{
    uintptr_t here = (uintptr_t)&seen_added;
    for (uint16_t i = 0; i < object->segment_count; i++) {
        const Segment *s = &object->segments[i];
        if (s->type == 1 && here - object->base - s->address < s->size) return 1;
    }
    return 0;
}

static void *replacement(const char *name)
{
    if (!strcmp(name, "dlsym")) return (void *)dlsym;
    const Name *known = known_name(name);
    return known ? known->wrapper : NULL;
}

static void redirect(const Object *object, const Segment *relro, uintptr_t place, void *to)
{
    uintptr_t page = place & ~(uintptr_t)(PAGE - 1);
    int sealed = relro && place - object->base - relro->address < relro->size;
    if (*(void **)place == to) return;
    if (sealed && mprotect((void *)page, PAGE, 3)) return;
    __atomic_store_n((void **)place, to, __ATOMIC_RELEASE);
    if (sealed) mprotect((void *)page, PAGE, 1);
}

static int redirect_object(Object *object, size_t size, void *nothing)
{
    const Segment *relro = NULL;
    const Dynamic *dynamic = NULL;
    const Symbol *symbols = NULL;
    const char *strings = NULL;
    const Relocation *tables[2] = {NULL, NULL};
    size_t counts[2] = {0, 0};
    (void)size, (void)nothing;
    if (is_own(object) || (object->name && strstr(object->name, "vdso"))) return 0;
    for (uint16_t i = 0; i < object->segment_count; i++) {
        if (object->segments[i].type == SEGMENT_DYNAMIC) dynamic = (const Dynamic *)(object->base + object->segments[i].address);
        if (object->segments[i].type == SEGMENT_RELRO) relro = &object->segments[i];
    }
    for (; dynamic && dynamic->tag; dynamic++) {
        if (dynamic->tag == TAG_STRINGS) strings = (const char *)dynamic->value;
        if (dynamic->tag == TAG_SYMBOLS) symbols = (const Symbol *)dynamic->value;
        if (dynamic->tag == TAG_RELOCATIONS) tables[0] = (const Relocation *)dynamic->value;
        if (dynamic->tag == TAG_RELOCATIONS_SIZE) counts[0] = dynamic->value / sizeof(Relocation);
        if (dynamic->tag == TAG_JUMPS) tables[1] = (const Relocation *)dynamic->value;
        if (dynamic->tag == TAG_JUMPS_SIZE) counts[1] = dynamic->value / sizeof(Relocation);
    }
    /* A loader that leaves addresses relative (some do) is left alone. */
    if (!strings || !symbols || (uintptr_t)strings < object->base || (uintptr_t)symbols < object->base) return 0;
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; tables[t] && i < counts[t]; i++) {
            const Relocation *r = &tables[t][i];
            uint32_t kind = (uint32_t)r->info;
            const Symbol *symbol = &symbols[r->info >> 32];
            if (kind != X86_ADDRESS && kind != X86_JUMP && kind != ARM_ADDRESS && kind != ARM_JUMP) continue;
            if (symbol->section) continue;
            void *to = replacement(strings + symbol->name);
            if (to) redirect(object, relro, object->base + r->offset, to);
        }
    return 0;
}

static int count_added(Object *object, size_t size, void *found)
{
    (void)size;
    *(unsigned long long *)found = object->added;
    return 1;
}

/* Libraries that were loaded since are redirected as well. */
static void follow(void)
{
    static int following;
    unsigned long long added = 0;
    if (!embedded) return;
    dl_iterate_phdr((int (*)(struct loaded *, size_t, void *))count_added, &added);
    if (added == __atomic_load_n(&seen_added, __ATOMIC_ACQUIRE) || __atomic_exchange_n(&following, 1, __ATOMIC_ACQUIRE)) return;
    __atomic_store_n(&seen_added, added, __ATOMIC_RELEASE);
    dl_iterate_phdr((int (*)(struct loaded *, size_t, void *))redirect_object, NULL);
    __atomic_store_n(&following, 0, __ATOMIC_RELEASE);
}

EXPORT void tuner_follow(void)
{
    embedded = 1;
    follow();
}

/* From here on launches of a kernel are recorded into a folder. */
EXPORT int tuner_start(const char *folder, const char *kernel, size_t most)
{
    char path[4096];
    acquire(&launch_lock);
    out_folder = copy_of(folder, strlen(folder));
    wanted = copy_of(kernel, strlen(kernel));
    free(kept);
    kept = NULL;
    kept_count = 0;
    instances = most;
    snprintf(path, sizeof path, "%s/log-%d", folder, getpid());
    log_file = open(path, WRITE_ONLY | CREATE | APPEND | CLOEXEC, 0600);
    say("seen");
    mode_record = 1;
    release(&launch_lock);
    return log_file < 0;
}

EXPORT void tuner_stop(void)
{
    acquire(&launch_lock);
    mode_record = 0;
    if (log_file >= 0) close(log_file);
    log_file = -1;
    release(&launch_lock);
}
