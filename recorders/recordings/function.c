/* What stands before one function (SYMBOL): finds the function itself, and answers those who ask for it by name.
 *
 * Follows common.c; what is made from a spec follows it and defines WRAPPER. Several libraries of an application may
 * have a function of that name: each caller gets its own.
 */

struct described { const char *name; void *base; const char *symbol; void *address; };
extern char *dlerror(void);
extern int dladdr(const void *, struct described *);

static void *patched; /* how the function is called where its own first bytes lead here */
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
    __attribute__((musttail)) return real_dlsym(handle, name);
}
