/* How far the arrays reach that a function is called with: blocks of memory as the application has asked for them.
 *
 * Stands before malloc and its like, which glibc lets another library do that has all of them ("Replacing malloc" in its
 * manual), and keeps each block's address and size. It calls what the application has without it. Follows common.c. What comes from elsewhere (the stack, mmap, an
 * allocator of the application's own) is not known here.
 */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), *__libc_valloc(size_t), *__libc_pvalloc(size_t), __libc_free(void *);
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
extern int munmap(void *, size_t);
extern void qsort(void *, size_t, size_t, int (*)(const void *, const void *));

struct block { uintptr_t address; size_t size; void *caller; }; /* caller: who has asked for it */
enum { FIRST_BLOCKS = 1 << 16, BOTH = 1 | 2, PRIVATE_MEMORY = 0x02 | 0x20, LARGE_BLOCK = 256 << 20, NO_MEMORY = 12 };

static struct block *blocks; /* by address, each at the first free place from its own; of size 0 where one was freed */
static size_t block_places, block_count;
static uintptr_t lowest = -1, highest; /* of all blocks that there were */
static int block_lock;

static struct block *place_of(struct block *table, size_t places, uintptr_t address)
{
    size_t at = (address >> 4) * 0x9E3779B97F4A7C15u >> 20 & (places - 1);
    while (table[at].address && table[at].address != address) at = (at + 1) & (places - 1);
    return &table[at];
}

/* Twice as large where more than half is taken; those that were freed are left behind. */
static int make_room(void)
{
    if (blocks && 2 * (block_count + 1) <= block_places) return 1;
    size_t live = 0, places = block_places ? block_places : FIRST_BLOCKS;
    for (size_t i = 0; i < block_places; i++) live += blocks[i].size > 0;
    while (4 * live >= places) places *= 2;
    struct block *larger = mmap(NULL, places * sizeof *larger, BOTH, PRIVATE_MEMORY, -1, 0);
    if (larger == (void *)-1L) return 0;
    for (size_t i = 0; i < block_places; i++)
        if (blocks[i].size) *place_of(larger, places, blocks[i].address) = blocks[i];
    if (blocks) munmap(blocks, block_places * sizeof *blocks);
    blocks = larger, block_places = places, block_count = live;
    return 1;
}

static void lock_blocks(void) { acquire(&block_lock); }
static void unlock_blocks(void) { release(&block_lock); }

static void *given(void *address, size_t size, void *caller)
{
    static int forks;
    if (!address || !size) return address;
    if (!__atomic_exchange_n(&forks, 1, __ATOMIC_ACQ_REL))
        __register_atfork(lock_blocks, unlock_blocks, unlock_blocks, NULL);
    lock_blocks();
    if (make_room()) {
        struct block *one = place_of(blocks, block_places, (uintptr_t)address);
        block_count += !one->address;
        one->address = (uintptr_t)address, one->size = size, one->caller = caller;
        if (one->address < lowest) lowest = one->address;
        if (one->address + size > highest) highest = one->address + size;
    }
    unlock_blocks();
    return address;
}

static void taken(void *address)
{
    if (!address) return;
    lock_blocks();
    if (blocks) {
        struct block *one = place_of(blocks, block_places, (uintptr_t)address);
        if (one->address) one->size = 0;
    }
    unlock_blocks();
}

/* What the application has without this library: glibc's, or those of another library that it is linked with. */
static struct {
    void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t), *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t), *(*valloc)(size_t), *(*pvalloc)(size_t), (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
} next_of = {
    __libc_malloc, __libc_calloc, __libc_realloc, __libc_memalign,
    __libc_memalign, __libc_valloc, __libc_pvalloc, __libc_free, NULL,
};

/* By whoever comes first, which is the dynamic linker or a constructor: there is one thread then. */
static void find_next(void)
{
    static int found;
    struct { void *slot; const char *name; } all[] = {
        {&next_of.malloc, "malloc"}, {&next_of.calloc, "calloc"}, {&next_of.realloc, "realloc"},
        {&next_of.memalign, "memalign"}, {&next_of.aligned_alloc, "aligned_alloc"}, {&next_of.valloc, "valloc"},
        {&next_of.pvalloc, "pvalloc"}, {&next_of.free, "free"}, {&next_of.posix_memalign, "posix_memalign"},
    };
    const char *versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *(*by_name)(void *, const char *) = NULL;
    if (__atomic_load_n(&found, __ATOMIC_ACQUIRE) || __atomic_exchange_n(&found, 1, __ATOMIC_ACQ_REL)) return;
    for (int i = 0; !by_name && i < 3; i++) *(void **)&by_name = dlvsym(NEXT, "dlsym", versions[i]);
    for (size_t i = 0; by_name && i < sizeof all / sizeof *all; i++) {
        void *next = by_name(NEXT, all[i].name);
        if (next) *(void **)all[i].slot = next;
    }
}

#define CALLER __builtin_return_address(0)
EXPORT void *malloc(size_t size) { return find_next(), given(next_of.malloc(size), size, CALLER); }
EXPORT void *calloc(size_t count, size_t size) { return find_next(), given(next_of.calloc(count, size), count * size, CALLER); }
EXPORT void *memalign(size_t align, size_t size) { return find_next(), given(next_of.memalign(align, size), size, CALLER); }
EXPORT void *aligned_alloc(size_t align, size_t size) { return find_next(), given(next_of.aligned_alloc(align, size), size, CALLER); }
EXPORT void *valloc(size_t size) { return find_next(), given(next_of.valloc(size), size, CALLER); }
EXPORT void *pvalloc(size_t size) { return find_next(), given(next_of.pvalloc(size), (size + 4095) & ~(size_t)4095, CALLER); }
EXPORT void free(void *address) { find_next(), taken(address), next_of.free(address); }

EXPORT void *realloc(void *address, size_t size)
{
    find_next();
    /* Before another thread can be given the same address. */
    size_t before = 0;
    if (address) {
        lock_blocks();
        if (blocks) {
            struct block *one = place_of(blocks, block_places, (uintptr_t)address);
            before = one->size;
            if (one->address) one->size = 0;
        }
        unlock_blocks();
    }
    void *found = next_of.realloc(address, size);
    if (!found && size) given(address, before, CALLER);
    return given(found, size, CALLER);
}

EXPORT int posix_memalign(void **found, size_t align, size_t size)
{
    find_next();
    int status = next_of.posix_memalign ? next_of.posix_memalign(found, align, size) : NO_MEMORY;
    if (!status) given(*found, size, CALLER);
    return status;
}

/* The block that an address lies in, or a variable of the executable; of size 0 where neither is known. */
static struct block block_around(uintptr_t address)
{
    struct block found = {0};
    lock_blocks();
    if (address >= lowest && address < highest) {
        found = *place_of(blocks, block_places, address);
        /* A pointer to the middle of a block: all of them are looked at. */
        for (size_t i = 0; i < block_places && !found.size; i++)
            if (address - blocks[i].address < blocks[i].size) found = blocks[i];
    }
    unlock_blocks();
#ifdef OWN_PATH
    for (size_t i = 0; i < OWN_VARIABLES && !found.size; i++)
        if (address - (own_base + (uintptr_t)own_variables[i][0]) < (uintptr_t)own_variables[i][1])
            found = (struct block){own_base + (uintptr_t)own_variables[i][0], (size_t)own_variables[i][1], NULL};
#endif
    return found;
}

__attribute__((unused)) static int is_of_runtime(void *caller)
{
    static struct { void *caller; int is; } known[64];
    struct described object;
    size_t at = (uintptr_t)caller % 61;
    if (known[at].caller != caller) {
        const char *name = dladdr(caller, &object) && object.name ? object.name : "";
        known[at].is = strstr(name, "/ld-linux") || strstr(name, "/libgomp.") || strstr(name, "/libomp.") || strstr(name, "/libiomp5.");
        known[at].caller = caller;
    }
    return known[at].is;
}

__attribute__((unused)) static int by_address(const void *some, const void *other)
{
    uintptr_t a = ((const struct block *)some)->address, b = ((const struct block *)other)->address;
    return (a > b) - (a < b);
}

/* Blocks of the application's own between two addresses, in their order; NULL where none are known. Those of a library of
 * OpenMP and of the dynamic linker are not its own: what they know of threads is kept there, also while a loop runs. */
__attribute__((unused)) static struct block *own_blocks(uintptr_t begin, uintptr_t end, size_t *count, size_t *bytes)
{
    lock_blocks();
    *count = 0, *bytes = (block_count + 1) * sizeof(struct block);
    struct block *found = blocks ? mmap(NULL, *bytes, BOTH, PRIVATE_MEMORY, -1, 0) : (void *)-1L;
    for (size_t i = 0; found != (void *)-1L && i < block_places; i++)
        if (blocks[i].size && blocks[i].address >= begin && blocks[i].address + blocks[i].size <= end &&
            !is_of_runtime(blocks[i].caller))
            found[(*count)++] = blocks[i];
    unlock_blocks();
    if (found == (void *)-1L) return NULL;
    qsort(found, *count, sizeof *found, by_address);
    return found;
}

struct reach { const void *address; long said, item; int written, whole; };

/* The bytes of an array before what is passed: from where its block begins, which a pointer into it may go back to.
 *
 * None where another argument leads into the block too, and where it is large.
 */
static long before_of(const struct reach *all, size_t count, size_t which)
{
    const struct reach *one = &all[which];
    uintptr_t address = (uintptr_t)one->address;
    struct block block = one->whole ? block_around(address) : (struct block){0};
    if (!block.size || block.size > LARGE_BLOCK) return 0;
    for (size_t i = 0; i < count; i++)
        if (i != which && all[i].address && (uintptr_t)all[i].address - block.address < block.size) return 0;
    long before = (long)(address - block.address);
    return before - before % one->item;
}

/* The bytes of an array: as far as its block reaches, or to the next argument in it where either is written.
 *
 * As the spec says where the block is not known, and where it is large.
 */
static long reach_of(const struct reach *all, size_t count, size_t which)
{
    const struct reach *one = &all[which];
    uintptr_t address = (uintptr_t)one->address;
    struct block block = one->whole ? block_around(address) : (struct block){0};
    if (!block.size) return one->said;
    long left = (long)(block.address + block.size - address);
    for (size_t i = 0; i < count; i++) {
        uintptr_t ahead = (uintptr_t)all[i].address - address;
        if ((one->written || all[i].written) && ahead && (long)ahead > 0 && (long)ahead < left) left = (long)ahead;
    }
    if (one->said > 0 && one->said <= left && left > LARGE_BLOCK) return one->said;
    return left - left % one->item;
}
