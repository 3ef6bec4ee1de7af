/* What stands before one function (SYMBOL): finds the function itself, and answers those who ask for it by name.
 *
 * Follows common.c; what is made from a spec follows it and defines WRAPPER. Several libraries of an application may
 * have a function of that name: each caller gets its own.
 */

struct described { const char *name; void *base; const char *symbol; void *address; };
extern char *dlerror(void);
extern int dladdr(const void *, struct described *);

/* How the function is called where its own first bytes lead here. */
__attribute__((visibility("hidden"))) void *patched;
/* Where calls are counted that are no longer looked at; NULL while all are. */
__attribute__((visibility("hidden"))) uint64_t *only_counted;
static void *asked;   /* what an application found that asked for it by name */

enum { OBJECTS = 512, LAZY_AND_LOADED = 0x1 | 0x4 };
struct listed { size_t count; char *names[OBJECTS]; };

/* Only names are taken here: to open an object while they are listed could wait for another thread for ever. */
static int list_object(struct loaded *object, size_t size, void *data)
{
    struct listed *list = data;
    (void)size;
    if (!object->name || !object->name[0] || list->count == OBJECTS) return 0;
    size_t length = strlen(object->name) + 1;
    char *copy = malloc(length);
    if (copy) list->names[list->count++] = memcpy(copy, object->name, length);
    return 0;
}

static void *in_object(const char *name)
{
    void *handle = name ? dlopen(name, LAZY_AND_LOADED) : NULL;
    void *found = handle ? real_dlsym(handle, SYMBOL) : NULL;
    return found == WRAPPER ? NULL : found;
}

/* Where no library of the global scope has it, the caller loaded it for itself: its own scope says where it is. A
 * caller that jumped here is not known; then what was asked for by name, or any library that has it. */
static void *searched(void *caller)
{
    struct described object;
    struct listed list = {0};
    void *found = real_dlsym(NEXT, SYMBOL);
    if (found && found != WRAPPER) return found;
    found = dladdr(caller, &object) ? in_object(object.name) : NULL;
    if (!found) found = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
    if (found) return found;
    dl_iterate_phdr(list_object, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (!found) found = in_object(list.names[i]);
        free(list.names[i]);
    }
    return found;
}

#ifdef OWN_PATH
/* The function is the executable's own, whose calls of it the linker has bound: its first bytes become a jump here, and
 * what they were runs elsewhere. Before main, so that no other thread can be in them. */

static uintptr_t own_base; /* where the executable is loaded */

extern ssize_t readlink(const char *, char *, size_t);
extern int mprotect(void *, size_t, int);

static int is_first(struct loaded *object, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = object->address;
    return 1;
}

/* Whoever calls a function of its own file may know which registers that leaves alone (gcc's -fipa-ra), and keep values in
 * them. So what stands there leaves all of them alone but the one that a value comes back in; what a call may change of
 * MXCSR stays. OWN_STACK is how many words come on the stack. */
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
extern char stood_before[] __attribute__((visibility("hidden")));
extern char looked_at[] __attribute__((visibility("hidden"))), counted[] __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) void *stand_in = looked_at; /* or counted, which changes no flags either */
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".hidden stood_before\n"
    ".globl stood_before\n"
    ".type stood_before, @function\n"
    "stood_before:\n"
    ".cfi_startproc\n"
    "jmp *stand_in(%rip)\n"
    ".hidden counted\n"
    ".globl counted\n"
    "counted:\n"
    "pushq %rax\n"
    ".cfi_def_cfa_offset 16\n"
    "pushq %rcx\n"
    ".cfi_def_cfa_offset 24\n"
    "movq only_counted(%rip), %rcx\n"
    "movq (%rcx), %rax\n"
    "leaq 1(%rax), %rax\n"
    "movq %rax, (%rcx)\n"
    "popq %rcx\n"
    ".cfi_def_cfa_offset 16\n"
    "popq %rax\n"
    ".cfi_def_cfa_offset 8\n"
    "jmp *patched(%rip)\n"
    ".hidden looked_at\n"
    ".globl looked_at\n"
    "looked_at:\n"
    "pushq %rbp\n"
    ".cfi_def_cfa_offset 16\n"
    ".cfi_offset %rbp, -16\n"
    "movq %rsp, %rbp\n"
    ".cfi_def_cfa_register %rbp\n"
    "pushq %rax\npushq %rcx\npushq %rdx\npushq %rsi\npushq %rdi\npushq %r8\npushq %r9\npushq %r10\npushq %r11\n"
    "subq $(8 + 64 + 2688), %rsp\n" /* the header and all registers lie within 2688 bytes */
    "andq $-64, %rsp\n"
    "movq %rsp, -80(%rbp)\n"
    "xorl %eax, %eax\n"
    ".set header, 512\n"
    ".rept 8\n"
    "movq %rax, header(%rsp)\n"
    ".set header, header + 8\n"
    ".endr\n"
    "xorl %edx, %edx\n"
    "movl $0xE6, %eax\n" /* SSE, AVX, AVX-512 */
    "xsave (%rsp)\n"
    "movq -8(%rbp), %rax\n"
    "movq -24(%rbp), %rdx\n"
    ".set words, " TEXT(OWN_STACK) "\n"
    ".if words & 1\n"
    "subq $8, %rsp\n"
    ".endif\n"
    ".rept " TEXT(OWN_STACK) "\n"
    "pushq 8 + 8 * words(%rbp)\n"
    ".set words, words - 1\n"
    ".endr\n"
    "call wrapper_function\n"
    "movq -80(%rbp), %rsp\n"
    "stmxcsr 24(%rsp)\n"
#if OWN_RETURNS == 1
    "movq %rax, -8(%rbp)\n"
#elif OWN_RETURNS == 2
    "movups %xmm0, 160(%rsp)\n"
    "orb $2, 512(%rsp)\n"
#endif
    "xorl %edx, %edx\n"
    "movl $0xE6, %eax\n"
    "xrstor (%rsp)\n"
    "leaq -72(%rbp), %rsp\n"
    "popq %r11\npopq %r10\npopq %r9\npopq %r8\npopq %rdi\npopq %rsi\npopq %rdx\npopq %rcx\npopq %rax\n"
    "popq %rbp\n"
    ".cfi_def_cfa %rsp, 8\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size stood_before, . - stood_before\n");

static int saves_registers(void)
{
    unsigned a = 1, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return c >> 27 & 1; /* the system has made XSAVE known */
}

static unsigned char *page_near(uintptr_t place)
{
    enum { PAGE = 4096, STEP = 1 << 20, TRIES = 1500, PRIVATE_AND_NOT_OVER = 0x02 | 0x20 | 0x100000 };
    uintptr_t start = place & ~(uintptr_t)(STEP - 1);
    for (uintptr_t i = 1; i < TRIES; i++)
        for (int up = 0; up < 2; up++) {
            if (!up && start < i * STEP) continue;
            uintptr_t wanted_place = up ? start + i * STEP : start - i * STEP;
            void *got = mmap((void *)wanted_place, PAGE, 3, PRIVATE_AND_NOT_OVER, -1, 0);
            if (got == (void *)wanted_place) return got;
        }
    return NULL;
}

static size_t far_jump(unsigned char *at, const void *target)
{
    memcpy(at, "\xff\x25\0\0\0\0", 6);
    memcpy(at + 6, &target, 8);
    return 14;
}

static const char *redirect(unsigned char *function)
{
    unsigned char *page = page_near((uintptr_t)function);
    if (!saves_registers()) return "the processor or the system has no XSAVE";
    if (!page) return "no memory near it";
    memcpy(page, own_moved, sizeof own_moved);
    for (size_t i = 0; i < OWN_TARGETS; i++) {
        int32_t far = (int32_t)(function + own_targets[i][2] - (page + own_targets[i][1]));
        memcpy(page + own_targets[i][0], &far, 4);
    }
    size_t used = sizeof own_moved + far_jump(page + sizeof own_moved, function + sizeof own_first);
    used = (used + 15) & ~(size_t)15;
    far_jump(page + used, stood_before);
    int32_t jump = (int32_t)(page + used - (function + 5));
    uintptr_t low = (uintptr_t)function & ~(uintptr_t)4095, high = ((uintptr_t)function + 5 + 4095) & ~(uintptr_t)4095;
    if (mprotect(page, 4096, 5) || mprotect((void *)low, high - low, 7)) return "its memory cannot be changed";
    __atomic_store_n(&patched, (void *)page, __ATOMIC_RELEASE);
    function[0] = 0xE9;
    memcpy(function + 1, &jump, 4);
    return mprotect((void *)low, high - low, 5) ? "its memory cannot be protected again" : NULL;
}

__attribute__((constructor)) static void stand_before(void)
{
    char path[4096];
    begin();
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (strcmp(path, OWN_PATH)) return;
    dl_iterate_phdr(is_first, &own_base);
    unsigned char *function = (unsigned char *)own_base + OWN_ADDRESS;
    const char *why = memcmp(function, own_first, sizeof own_first) ? "it is another one than was looked at" : redirect(function);
    if (why) say("problem\t%s\tits code in the executable cannot be stood before: %s", ENTRY, why);
}
#endif

/* From here on calls are counted alone. */
static __attribute__((unused)) void count_only(uint64_t *where)
{
    __atomic_store_n(&only_counted, where, __ATOMIC_RELEASE);
#ifdef OWN_PATH
    __atomic_store_n(&stand_in, (void *)counted, __ATOMIC_RELEASE);
#endif
}

enum { CALLERS = 64 };
static struct { void *caller, *function; } callers[CALLERS];

static void *original(void *caller)
{
    if (patched) return patched;
    for (int i = 0; i < CALLERS; i++) {
        void *known = __atomic_load_n(&callers[i].caller, __ATOMIC_ACQUIRE);
        if (known == caller) {
            void *function = __atomic_load_n(&callers[i].function, __ATOMIC_ACQUIRE);
            if (function) return function;
        }
        if (!known) break;
    }
    void *function = searched(caller);
    if (!function) __builtin_trap();
    for (int i = 0; i < CALLERS; i++) {
        void *none = NULL;
        if (__atomic_compare_exchange_n(&callers[i].caller, &none, caller, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&callers[i].function, function, __ATOMIC_RELEASE);
            break;
        }
        if (none == caller) break;
    }
    return function;
}

/* The first function that was called under the name; another one of that name is not the one that is meant. */
static int is_meant(void *function)
{
    static void *first;
    void *none = NULL;
    if (__atomic_compare_exchange_n(&first, &none, function, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return 1;
    return none == function;
}

EXPORT void *dlsym(void *handle, const char *name)
{
    begin();
    if (handle != NEXT && !strcmp(name, SYMBOL)) {
        void *found = real_dlsym(handle, name), *none = NULL;
        if (!found || found == WRAPPER || patched) return found;
        if (__atomic_compare_exchange_n(&asked, &none, found, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || none == found)
            return WRAPPER;
        return found;
    }
    __attribute__((musttail)) return next_dlsym(handle, name);
}
