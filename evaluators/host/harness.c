/* Runs a candidate inside its child: maps buffers, restores them, calls the kernel, reads the clock.

   Nothing here is trusted by the parent, which compares outputs and reads clocks itself. No header is included,
   so that it compiles on a machine without a C library's headers; Linux on 64-bit little-endian machines. */

typedef long long i64;
typedef unsigned char u8;
typedef void (*thunk_fn)(void *entry, i64 *words);

struct timespec64 { i64 seconds, nanoseconds; };
struct stack_description { void *base; int flags; unsigned long size; };
struct action { void (*handler)(int, u8 *, u8 *); unsigned long mask[16]; int flags; void (*restorer)(void); };

extern int clock_gettime(int, struct timespec64 *);
extern long send(int, const void *, unsigned long, int);
extern long recv(int, void *, unsigned long, int);
extern void *mmap(void *, unsigned long, int, int, int, long);
extern int munmap(void *, unsigned long);
extern void *mremap(void *, unsigned long, unsigned long, int, ...);
extern int sigaltstack(const struct stack_description *, struct stack_description *);
extern int sigaction(int, const struct action *, struct action *);
extern void *memcpy(void *, const void *, unsigned long);

enum { PROT_RW = 3, MAP_PRIVATE_ = 2, MAP_FIXED_ = 0x10, MAP_ANONYMOUS_ = 0x20, MAP_NORESERVE_ = 0x4000 };
enum { MAP_FIXED_NOREPLACE_ = 0x100000, NOSIGNAL = 0x4000, MREMAP_TO = 3, PAGE_BYTES = 4096 };
enum { FAULT_SIGNAL, FAULT_CODE, FAULT_ADDRESS, FAULT_STACK, FAULT_NO_MEMORY, FAULT_WRITE };
enum { READY = 1, DONE = 2, PROGRESS = 3, LOST = -2 };
enum { CLOCK_MONOTONIC_ = 1, CLOCK_THREAD_ = 3 };
enum { VIRTUAL_NS = 8, VIRTUAL_CALL_NS = 25000 };

/* Of the file behind this one; -1 where a member of the team is missing. TEAM stands in front: whether there is one;
   VIRTUAL likewise: whether time is a word of the fault page, which calls advance and the parent can read. */
static int team_wakes(void), team_meets(void), team_rests(void);
static void team_varies(i64 turn, i64 varies);

static volatile i64 *fault_page;
static int failed(void *address) { return (unsigned long)address >= (unsigned long)-4095; }

static void on_fault(int signal, u8 *info, u8 *context) {
    volatile i64 *page = fault_page;
    if (page[FAULT_SIGNAL]) return;
    page[FAULT_CODE] = *(int *)(info + 8);
    /* A forbidden system call (31, SIGSYS) tells its number in the place after the address. */
    page[FAULT_ADDRESS] = signal == 31 ? *(int *)(info + 24) : *(i64 *)(info + 16);
#if defined(__x86_64__)
    page[FAULT_STACK] = *(i64 *)(context + 160);
    page[FAULT_WRITE] = *(i64 *)(context + 192) >> 1 & 1;
#else
    (void)context;
#endif
    /* A failed allocation usually shows as a null pointer: ask whether there is any memory left. */
    void *probe = mmap(0, 16l << 20, PROT_RW, MAP_PRIVATE_ | MAP_ANONYMOUS_, -1, 0);
    page[FAULT_NO_MEMORY] = failed(probe);
    if (!failed(probe)) munmap(probe, 16l << 20);
    page[FAULT_SIGNAL] = signal;
    /* The instruction after a forbidden call would run otherwise: the call itself is not made. */
    if (signal == 31) __builtin_trap();
}

/* Notes the first fatal signal in `page`; the signal then takes its usual course. */
int tuner_guard(volatile i64 *page, void *stack, i64 size) {
    static const int signals[] = {4, 5, 6, 7, 8, 11, 31};
    struct stack_description alternate = {stack, 0, (unsigned long)size};
    fault_page = page;
    if (sigaltstack(&alternate, 0)) return -1;
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct action act = {0};
        act.handler = on_fault;
        act.flags = (int)(0x4u | 0x08000000u | 0x80000000u); /* SA_SIGINFO | SA_ONSTACK | SA_RESETHAND */
        if (sigaction(signals[i], &act, 0)) return -1;
    }
    return 0;
}

/* Reserves [base, base + size) and maps rows of (address, bytes, protection, flags, file, offset) into it;
   what no row covers stays out of reach. */
int tuner_attach(i64 base, i64 size, const i64 *rows, i64 count, const int *files) {
    void *got = mmap((void *)base, (unsigned long)size, 0,
                     MAP_PRIVATE_ | MAP_ANONYMOUS_ | MAP_NORESERVE_ | MAP_FIXED_NOREPLACE_, -1, 0);
    if (got != (void *)base) return -1;
    for (i64 i = 0; i < count; i++) {
        const i64 *row = rows + 6 * i;
        int file = row[4] < 0 ? -1 : files[row[4]];
        got = mmap((void *)row[0], (unsigned long)row[1], (int)row[2], (int)row[3] | MAP_FIXED_, file, row[5]);
        if (got != (void *)row[0]) return -1;
    }
    return 0;
}

/* Address space, out of reach or not: at an address, or near what is mapped next; 0 where there is none. */
i64 tuner_reserve(i64 at, i64 size, i64 used) {
    int flags = MAP_PRIVATE_ | MAP_ANONYMOUS_ | MAP_NORESERVE_ | (at ? MAP_FIXED_NOREPLACE_ : 0);
    void *got = mmap((void *)at, (unsigned long)size, used ? PROT_RW : 0, flags, -1, 0);
    return failed(got) || (at && (i64)got != at) ? 0 : (i64)got;
}

static i64 now(int clock) {
    struct timespec64 t;
    if (VIRTUAL) return fault_page[VIRTUAL_NS];
    clock_gettime(clock, &t);
    return t.seconds * 1000000000 + t.nanoseconds;
}

static void call(thunk_fn thunk, void *entry, i64 *words) {
    thunk(entry, words);
    if (VIRTUAL) fault_page[VIRTUAL_NS] += VIRTUAL_CALL_NS;
}

static void restore(const i64 *copies, i64 count) {
    for (i64 i = 0; i < count; i++)
        memcpy((void *)copies[3 * i], (const void *)copies[3 * i + 1], (unsigned long)copies[3 * i + 2]);
}

/* Shows the candidate, at the places of its variables, the pages of one row's buffers: rows of (place, pages, bytes,
   whether to write). Of a shared mapping mremap makes a second one where the old size is 0 (mremap(2)). No bytes: the
   place is a pointer's. */
static int move(const i64 *moves, i64 count) {
    for (i64 i = 0; i < count; i++) {
        const i64 *row = moves + 4 * i;
        if (!row[2]) {
            *(volatile i64 *)row[0] = row[1];
            continue;
        }
        void *got = mremap((void *)row[1], 0, (unsigned long)row[2], MREMAP_TO, (void *)row[0]);
        if (got != (void *)row[0]) return -1;
        for (i64 at = 0; at < row[2]; at += PAGE_BYTES) {
            volatile u8 *p = (volatile u8 *)row[0] + at;
            u8 value = *p;
            if (row[3]) *p = value;
        }
    }
    return 0;
}

/* Calls the kernel once for each row of (words, copies, moves) and reports each call, by teams of other sizes in turn where
   that is asked for; LOST where its team is. */
int tuner_run(thunk_fn thunk, void *entry, int channel, i64 *rows, i64 count, i64 words, i64 copies,
              i64 moves, i64 varies) {
    int clock = TEAM ? CLOCK_MONOTONIC_ : CLOCK_THREAD_;
    if (team_wakes()) return LOST;
    for (i64 i = 0; i < count; i++) {
        i64 *row = rows + i * (words + 3 * copies + 4 * moves);
        i64 answer[3] = {PROGRESS, i, 0};
        if (move(row + words + 3 * copies, moves)) return -1;
        restore(row + words, copies);
        team_varies(i, varies);
        i64 start = now(clock);
        call(thunk, entry, row);
        answer[2] = now(clock) - start;
        if (team_meets()) return LOST;
        if (send(channel, answer, sizeof answer, NOSIGNAL) != sizeof answer) return -1;
    }
    team_varies(0, 0);
    return team_rests() ? LOST : 0;
}

/* A last-level cache that does not include the second-level one takes a line only when it was used again: of sets that
   are larger than the second level, one pass leaves next to nothing. */
enum { PASSES = 3 };

static void touch(const i64 *spans, i64 count) {
    for (i64 i = 0; i < PASSES * count; i++) {
        const i64 *span = spans + 3 * (i % count);
        volatile u8 *p = (volatile u8 *)span[0];
        for (i64 at = 0; at < span[1]; at += 64) {
            u8 value = p[at];
            if (span[2]) p[at] = value;
        }
    }
}

static void flush(volatile u8 *cache, i64 size) {
    for (i64 at = 0; at < size; at += 64) cache[at]++;
}

/* A first call of the system after a wait finds the system's own code out of the caches: several microseconds, which
   kernels that take and give back memory would be blamed for wherever single calls are compared with many. */
static void wake_system(void) {
    volatile u8 *page = mmap(0, 4096, PROT_RW, MAP_PRIVATE_ | MAP_ANONYMOUS_, -1, 0);
    if (failed((void *)page)) return;
    *page = 0;
    munmap((void *)page, 4096);
}

static i64 clock_cost(int clock) {
    i64 best = 1000000;
    for (int i = 0; i < 16; i++) {
        i64 start = now(clock), took = now(clock) - start;
        if (took < best) best = took;
    }
    return best;
}

struct window {
    i64 rows, words, copies, moves, segments, per_segment, clock, poisons, spans, flush_bytes;
};

/* One timed stretch between the parent's "go" and its next word. `table` holds, one after the other: the rows of
   (words, copies, moves), of which there is one where something is moved, the spans to touch, the order of rows, and (address, bytes) to poison before each segment.
   `answer` has room for 4 + segments values. Gives LOST where the team is, -1 where the channel is closed. */
int tuner_window(thunk_fn thunk, void *entry, int channel, const struct window *w, i64 *table, u8 *cache,
                 i64 *answer) {
    i64 stride = w->words + 3 * w->copies + 4 * w->moves;
    i64 *spans = table + w->rows * stride;
    i64 *order = spans + 3 * w->spans;
    i64 *poison = order + w->segments * w->per_segment;
    int clock = (int)w->clock;
    i64 word = READY;
    if (move(table + w->words + 3 * w->copies, w->moves)) return -1;
    for (i64 i = 0; i < w->rows; i++) restore(table + i * stride + w->words, w->copies);
    if (w->flush_bytes) flush(cache, w->flush_bytes);
    else touch(spans, w->spans);
    answer[0] = DONE;
    answer[2] = clock_cost(clock);
    answer[3] = w->segments;
    if (send(channel, &word, sizeof word, NOSIGNAL) != sizeof word) return -1;
    if (recv(channel, &word, sizeof word, 0) != sizeof word) return -1;
    if (!w->flush_bytes) wake_system();
    if (team_wakes()) return LOST;
    i64 begin = now(clock), stop = begin;
    for (i64 s = 0; s < w->segments; s++) {
        for (i64 p = 0; p < w->poisons; p++, poison += 2) {
            volatile u8 *at = (volatile u8 *)poison[0];
            for (i64 b = 0; b < poison[1]; b++) at[b] = 0xff;
        }
        i64 start = now(clock);
        for (i64 c = 0; c < w->per_segment; c++) call(thunk, entry, table + *order++ * stride);
        stop = now(clock);
        answer[4 + s] = stop - start;
    }
    /* Who went on after the last call is waited for while the clock runs. */
    if (team_meets()) return LOST;
    if (TEAM) stop = now(clock);
    answer[1] = stop - begin;
    if (team_rests()) return LOST;
    unsigned long size = sizeof(i64) * (unsigned long)(4 + w->segments);
    if (send(channel, answer, size, NOSIGNAL) != (long)size) return -1;
    if (recv(channel, &word, sizeof word, 0) != sizeof word) return -1;
    return 0;
}

extern void _exit(int);

/* In the place of functions that nothing here defines: a file's other functions may call them, the kernel may not. The
   status is the one that the parent knows. */
void tuner_missing(void) { _exit(10); }
