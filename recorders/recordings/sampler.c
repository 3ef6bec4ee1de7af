/* Counts where an application's threads are, a library that stands before its own: each thread has a timer of its own
 * processor time, whose signal finds the instruction that it interrupts. Not SIGPROF, which applications use themselves.
 *
 * The environment names the folder (TUNER_SAMPLE_OUT). Of each process image there come to be
 *   samples-PID-N  pairs of an address and a count, 16 bytes each, in no order; zero where there is none
 *   modules-PID-N  what lies where: first address, one past the last, what is added to a file's addresses, its path
 * Timers of threads and not of the process: those of the process outlive `exec`, where their signal kills what has not
 * yet said that it takes it, and older kernels send it to the first thread whoever ran.
 *
 * No header of the machine is needed. Source: the x86-64 psABI and the kernel's uapi headers (numbers, layouts).
 */

#include <stddef.h>
#include <stdint.h>

struct loaded { uintptr_t address; const char *name; const struct segment *segments; uint16_t count; };
struct segment { uint32_t type, flags; uint64_t offset, address, physical, file_size, size, align; };
struct action { void *handler; uint64_t mask[16]; int flags; void *restorer; };
struct event { uint64_t value; int signal, how, thread, rest[11]; };
struct interval { long every_s, every_ns, first_s, first_ns; };
typedef struct { uint64_t address, count; } Sample;
typedef void *(*Routine)(void *);
typedef struct { Routine routine; void *argument; } Start;

extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern int close(int);
extern int ftruncate(int, long);
extern long write(int, const void *, size_t);
extern void *mmap(void *, size_t, int, int, int, long);
extern void *malloc(size_t);
extern void free(void *);
extern int snprintf(char *, size_t, const char *, ...);
extern char *realpath(const char *, char *);
extern int getpid(void);
extern long syscall(long, ...);
extern int sigaction(int, const struct action *, struct action *);
extern void *dlsym(void *, const char *);
extern int dl_iterate_phdr(int (*)(struct loaded *, size_t, void *), void *);
extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
extern int pthread_key_create(unsigned *, void (*)(void *));
extern int pthread_setspecific(unsigned, const void *);
extern void *pthread_getspecific(unsigned);

enum {
    SAMPLES = 1 << 16, TRIES = 64, EVERY_NS = 1000000, FIRST_NS = 20000000,
    OURS = 59 /* of those for real time, far from either end */, TO_THREAD = 4, THREAD_TIME = 3, SIGNAL_INFO = 4, ON_STACK = 0x08000000, RESTART = 0x10000000,
    TIMER_CREATE = 222, TIMER_SET = 223, TIMER_DELETE = 226, THREAD_NUMBER = 186,
    READ_WRITE = 2, CREATE = 0100, EXCLUSIVE = 0200, CLOEXEC = 02000000, APPEND = 02000,
    INSTRUCTION = 40 + 16 * 8 /* of a ucontext_t: where rip is among its registers */
};
#define NEXT ((void *)-1L)
#define FAILED ((void *)-1L)

static Sample *samples;
static int modules = -1;
static unsigned key;

static void count(int signal, void *info, void *context)
{
    (void)signal, (void)info;
    uint64_t address = *(uint64_t *)((char *)context + INSTRUCTION);
    uint64_t at = (address * 0x9E3779B97F4A7C15u) >> 48;
    for (int i = 0; i < TRIES; i++) {
        Sample *one = &samples[(at + (uint64_t)i) & (SAMPLES - 1)];
        uint64_t here = __atomic_load_n(&one->address, __ATOMIC_RELAXED);
        if (!here && !__atomic_compare_exchange_n(&one->address, &here, address, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
            && here != address)
            continue;
        if (!here || here == address) {
            __atomic_fetch_add(&one->count, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

static void forget(void *timer) { if (timer) syscall(TIMER_DELETE, (int)((intptr_t)timer - 1)); }

/* The calling thread; what cannot have a timer is not counted. The value of the key is the timer's number and one. */
static void watch(long first_ns)
{
    int timer = 0;
    struct event event = {.signal = OURS, .how = TO_THREAD, .thread = (int)syscall(THREAD_NUMBER)};
    struct interval interval = {.every_ns = EVERY_NS, .first_ns = first_ns};
    if (syscall(TIMER_CREATE, THREAD_TIME, &event, &timer)) return;
    syscall(TIMER_SET, timer, 0, &interval, NULL);
    pthread_setspecific(key, (void *)((intptr_t)timer + 1));
}

/* A process that soon becomes another program is left alone. */
static void watch_process(void) { watch(FIRST_NS); }

static void *started(void *given)
{
    Start start = *(Start *)given;
    free(given);
    watch(EVERY_NS);
    return start.routine(start.argument);
}

__attribute__((visibility("default"))) int pthread_create(void *thread, const void *how, Routine routine, void *argument)
{
    static int (*real)(void *, const void *, Routine, void *);
    if (!real) *(void **)&real = dlsym(NEXT, "pthread_create");
    if (!real) return 11; /* EAGAIN */
    Start *start = samples ? malloc(sizeof *start) : NULL;
    if (!start) return real(thread, how, routine, argument);
    *start = (Start){routine, argument};
    int failed = real(thread, how, started, start);
    if (failed) free(start);
    return failed;
}

/* On kernels that leave a deleted timer's signal pending it would end the program that this process becomes. */
#define EXECUTES(name, parameters, ...) \
    static int (*real_##name) parameters; \
    __attribute__((constructor)) static void find_##name(void) { *(void **)&real_##name = dlsym(NEXT, #name); } \
    __attribute__((visibility("default"))) int name parameters \
    { \
        if (!real_##name) find_##name(); \
        if (samples) forget(pthread_getspecific(key)), pthread_setspecific(key, NULL); \
        int status = real_##name ? real_##name(__VA_ARGS__) : -1; \
        if (samples) watch_process(); \
        return status; \
    }

EXECUTES(execve, (const char *path, char *const *words, char *const *variables), path, words, variables)
EXECUTES(execv, (const char *path, char *const *words), path, words)
EXECUTES(execvp, (const char *path, char *const *words), path, words)
EXECUTES(execvpe, (const char *path, char *const *words, char *const *variables), path, words, variables)
EXECUTES(fexecve, (int file, char *const *words, char *const *variables), file, words, variables)

static int say_module(struct loaded *one, size_t size, void *nothing)
{
    char path[4097], line[4200];
    uint64_t first = UINT64_MAX, last = 0;
    (void)size, (void)nothing;
    for (int i = 0; i < one->count; i++) {
        const struct segment *s = &one->segments[i];
        if (s->type != 1) continue;
        if (s->address < first) first = s->address;
        if (s->address + s->size > last) last = s->address + s->size;
    }
    if (!last || !realpath(one->name && *one->name ? one->name : "/proc/self/exe", path)) return 0;
    int length = snprintf(line, sizeof line, "%lx\t%lx\t%lx\t%s\n", one->address + first, one->address + last, one->address, path);
    if (length > 0 && (size_t)length < sizeof line) size = (size_t)write(modules, line, (size_t)length);
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("TUNER_SAMPLE_OUT");
    struct action before = {0}, action = {.handler = (void *)count, .flags = SIGNAL_INFO | ON_STACK | RESTART};
    char path[4096];
    int file = -1;
    /* Whoever has a use for the signal keeps it. */
    if (!folder || sigaction(OURS, NULL, &before) || before.handler) return;
    for (int n = 0; file < 0 && n < 1000; n++) {
        snprintf(path, sizeof path, "%s/samples-%d-%d", folder, getpid(), n);
        file = open(path, READ_WRITE | CREATE | EXCLUSIVE | CLOEXEC, 0600);
        if (file < 0) continue;
        snprintf(path, sizeof path, "%s/modules-%d-%d", folder, getpid(), n);
        modules = open(path, READ_WRITE | CREATE | APPEND | CLOEXEC, 0600);
    }
    if (file < 0) return;
    void *made = modules < 0 || ftruncate(file, SAMPLES * sizeof(Sample)) ? FAILED : mmap(NULL, SAMPLES * sizeof(Sample), 3, 1, file, 0);
    close(file);
    if (made == FAILED || pthread_key_create(&key, forget)) return;
    samples = made;
    dl_iterate_phdr(say_module, NULL);
    if (sigaction(OURS, &action, NULL)) return;
    /* A child has no timers; it counts into its parent's table, where everything lies at the same place. */
    pthread_atfork(NULL, NULL, watch_process);
    watch_process();
}

/* What was loaded since. */
__attribute__((destructor)) static void end(void)
{
    if (samples) dl_iterate_phdr(say_module, NULL);
}
