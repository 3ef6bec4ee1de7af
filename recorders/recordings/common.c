/* What every library that stands before an application's own has in common: it is put before the rest of each.
 *
 * No header of the machine is needed and no library linked with: what is taken from libc is declared here. The
 * environment says what to do: TUNER_RECORD_MODE, TUNER_RECORD_OUT (folder for what is written),
 * TUNER_RECORD_KERNEL, TUNER_RECORD_INSTANCES.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* ---- libc ---- */

typedef long ssize_t;
struct timespec { long seconds, nanoseconds; };
struct loaded { uintptr_t address; const char *name; };

extern void *malloc(size_t);
extern void *calloc(size_t, size_t);
extern void free(void *);
extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern ssize_t read(int, void *, size_t);
extern ssize_t write(int, const void *, size_t);
extern char *realpath(const char *, char *);
extern ssize_t pread(int, void *, size_t, long);
extern int close(int);
extern int fsync(int);
extern int ftruncate(int, long);
extern void *mmap(void *, size_t, int, int, int, long);
extern int mprotect(void *, size_t, int);
extern int rename(const char *, const char *);
extern int unlink(const char *);
extern int getpid(void);
extern int clock_gettime(int, struct timespec *);
extern int sched_yield(void);
extern int *__errno_location(void);
extern int snprintf(char *, size_t, const char *, ...);
extern int strcmp(const char *, const char *);
extern char *strstr(const char *, const char *);
extern size_t strlen(const char *);
extern void *memcpy(void *, const void *, size_t);
extern int memcmp(const void *, const void *, size_t);
extern unsigned long strtoul(const char *, char **, int);
extern void *dlopen(const char *, int);
extern void *dlvsym(void *, const char *, const char *);
extern int dl_iterate_phdr(int (*)(struct loaded *, size_t, void *), void *);

#define NEXT ((void *)-1L)
/* Protected: what is named here is this library's own also where another of that name comes first. */
#define EXPORT __attribute__((visibility("protected")))

enum { INTERRUPTED = 4, READ_ONLY = 0, WRITE_ONLY = 1, READ_WRITE = 2, CREATE = 0100, TRUNCATE = 01000, APPEND = 02000, CLOEXEC = 02000000 };

/* ---- state ---- */

static int launch_lock;
static __thread int inside;
static void *(*real_dlsym)(void *, const char *);
static void *(*next_dlsym)(void *, const char *); /* of the next library of this kind, where there are several */
static int ready, mode_list, mode_record, log_file = -1;
static int embedded; /* loaded into a process that was running */
static const char *out_folder, *wanted;
static size_t instances, serial;

static void begin_more(const char *mode);
EXPORT void *dlsym(void *, const char *);

static void acquire(int *which) { while (__atomic_exchange_n(which, 1, __ATOMIC_ACQUIRE)) sched_yield(); }
static void release(int *which) { __atomic_store_n(which, 0, __ATOMIC_RELEASE); }

static void say(const char *format, ...)
{
    char line[2048];
    va_list rest;
    extern int vsnprintf(char *, size_t, const char *, va_list);
    va_start(rest, format);
    int size = vsnprintf(line, sizeof line - 1, format, rest);
    va_end(rest);
    if (log_file < 0 || size < 0) return;
    if ((size_t)size > sizeof line - 2) size = sizeof line - 2;
    line[size] = '\n';
    ssize_t done = write(log_file, line, (size_t)size + 1);
    (void)done;
}

/* The files that are in the process, for the list of their functions: at the start those that it is linked with. */
static int say_loaded(struct loaded *one, size_t size, void *when)
{
    char path[4097]; /* PATH_MAX and one */
    (void)size;
    int named = one->name && *one->name; /* the executable's own name is empty */
    if (realpath(named ? one->name : "/proc/self/exe", path))
        say("file\t%s\t%s", named ? (const char *)when : "program", path);
    return 0;
}

__attribute__((destructor)) static void say_all_loaded(void)
{
    if (mode_list && !embedded) dl_iterate_phdr(say_loaded, "opened");
}

__attribute__((constructor)) static void begin(void)
{
    static int starting;
    if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) return;
    acquire(&starting);
    if (!ready) {
        const char *versions[] = {"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.17"};
        /* By name: what comes next means nothing for a library that was loaded late. */
        const char *libraries[] = {"libc.so.6", "libdl.so.2"};
        for (int l = 0; l < 2; l++) {
            void *library = dlopen(libraries[l], 0x1 | 0x4);
            for (int i = 0; library && !real_dlsym && i < 3; i++)
                *(void **)&real_dlsym = dlvsym(library, "dlsym", versions[i]);
        }
        for (int i = 0; !real_dlsym && i < 3; i++) *(void **)&real_dlsym = dlvsym(NEXT, "dlsym", versions[i]);
        for (int i = 0; !next_dlsym && i < 3; i++) *(void **)&next_dlsym = dlvsym(NEXT, "dlsym", versions[i]);
        if (!next_dlsym || next_dlsym == dlsym) next_dlsym = real_dlsym;
        const char *mode = getenv("TUNER_RECORD_MODE"), *count = getenv("TUNER_RECORD_INSTANCES");
        out_folder = getenv("TUNER_RECORD_OUT");
        wanted = getenv("TUNER_RECORD_KERNEL");
        instances = count ? strtoul(count, NULL, 10) : 1;
        if (mode && out_folder) {
            char path[4096];
            mode_list = !strcmp(mode, "list");
            mode_record = !strcmp(mode, "record") && wanted;
            snprintf(path, sizeof path, "%s/log-%d", out_folder, getpid());
            log_file = open(path, WRITE_ONLY | CREATE | APPEND | CLOEXEC, 0600);
            begin_more(mode);
            say("seen");
            if (mode_list) dl_iterate_phdr(say_loaded, "linked");
        }
        __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    }
    release(&starting);
}

/* Memory that outlives a process that is killed: a file of this process. */
static void *open_shared(const char *kind, const char *name, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d-%s", out_folder, kind, getpid(), name);
    int file = open(path, READ_WRITE | CREATE | CLOEXEC, 0600);
    void *made = file >= 0 && !ftruncate(file, (long)size) ? mmap(NULL, size, 3, 1, file, 0) : (void *)-1L;
    if (file >= 0) close(file);
    return made == (void *)-1L ? NULL : made;
}

/* Of one winner: launches that went to it, and launches that stayed as they were. */
static __attribute__((unused)) uint64_t *open_counters(const char *name) { return open_shared("counters", name, 4096); }

static double now(void)
{
    struct timespec time;
    clock_gettime(1, &time);
    return (double)time.seconds + 1e-9 * (double)time.nanoseconds;
}

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash;
}

/* How far a call's sizes are from those that something was timed at: the largest ratio, and among equal ones all of them
 * together. Sizes that are not positive have no ratio.
 */
typedef struct { double most, all; } Distance;
static const double FAR = 1e30;

__attribute__((unused)) static int nearer(Distance *best, const double *here, const double *known, size_t count)
{
    Distance own = {1, 1};
    for (size_t i = 0; i < count; i++) {
        double a = here[i], b = known[i], ratio = a == b ? 1 : a <= 0 || b <= 0 ? FAR : a < b ? b / a : a / b;
        if (ratio > own.most) own.most = ratio;
        own.all *= ratio;
    }
    if (own.most > best->most || (own.most == best->most && own.all >= best->all)) return 0;
    *best = own;
    return 1;
}

/* A function that is stood before, or called: its name, what stands before it, and the place of the real one. */
typedef struct { const char *name; void *wrapper; void **slot; } Name;

/* ---- what is known of the application's handles ---- */

typedef struct { void *key; void *value; } Entry;
typedef struct { Entry *entries; size_t room, used; } Table;

static int lock;

static Entry *find(Table *table, void *key)
{
    if (!table->room) return NULL;
    size_t at = ((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < table->room; i++) {
        Entry *entry = &table->entries[(at + i) & (table->room - 1)];
        if (entry->key == key || !entry->key) return entry;
    }
    return NULL;
}

static void *get(Table *table, void *key)
{
    acquire(&lock);
    Entry *entry = key ? find(table, key) : NULL;
    void *value = entry && entry->key ? entry->value : NULL;
    release(&lock);
    return value;
}

/* A value of NULL forgets the key, which keeps its place. */
static void put(Table *table, void *key, void *value)
{
    if (!key) return;
    acquire(&lock);
    if (2 * (table->used + 1) > table->room) {
        Table bigger = {calloc(table->room ? 2 * table->room : 64, sizeof(Entry)), table->room ? 2 * table->room : 64, 0};
        for (size_t i = 0; bigger.entries && i < table->room; i++)
            if (table->entries[i].key && table->entries[i].value) {
                *find(&bigger, table->entries[i].key) = table->entries[i];
                bigger.used++;
            }
        if (bigger.entries) { free(table->entries); *table = bigger; }
    }
    Entry *entry = find(table, key);
    if (entry) {
        if (!entry->key) table->used++;
        entry->key = key;
        entry->value = value;
    }
    release(&lock);
}

static char *copy_of(const void *data, size_t size)
{
    char *copy = malloc(size + 1);
    if (copy) { memcpy(copy, data, size); copy[size] = 0; }
    return copy;
}
