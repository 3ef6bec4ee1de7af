/* What the parts of the emulation's runtime share. Freestanding C++17 for x86-64; linked into every emulated kernel.

   Runs in the candidate's own process: what it reports helps people and rejects honest mistakes. Whether outputs are
   right is decided elsewhere. */
#pragma once

namespace emu_runtime {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum { MAX_THREADS = 1024, LANES = 32, MAX_ARRAYS = 32, MAX_STATICS = 12, REPORT_WORDS = 32 };
/* Largest dynamic shared memory; what rewriting.py leaves free behind a shared variable. */
enum { DYNAMIC_BYTES = 256 << 10, GAP_BYTES = 64 };

/* Numbers of findings; reports.py has the same. */
enum Finding : u64 {
    NONE, RACE, OUT_OF_BOUNDS, UNINITIALISED, READ_ONLY, DIVERGED, WARP_ABSENT, NOT_IN_MASK, MASKS_DIFFER, OVERFLOW,
    INDEX, MISALIGNED, DIVISION, SHIFT, ASSERTION, NO_MEMORY, STOPPED, BAD_WIDTH
};
enum Access { READ = 0, WRITE = 1, ATOMIC = 2 };

/* Words of a report. */
enum {
    R_FINDING, R_LINE, R_BLOCK, R_THREAD = R_BLOCK + 3, R_REGION = R_THREAD + 3, R_OFFSET, R_SIZE, R_ACCESS,
    R_OTHER_LINE, R_OTHER_ACCESS, R_OTHER_BLOCK, R_OTHER_THREAD = R_OTHER_BLOCK + 3, R_VALUE = R_OTHER_THREAD + 3,
    R_MORE, R_SYMBOL
};

/* Words of a launch as the wrapper passes them; launch.py writes them. */
enum {
    W_GRID, W_BLOCK = 3, W_SHARED = 6, W_SCHEDULE, W_EXITED_COUNT, W_STATICS, W_STATIC, W_SIZES = W_STATIC + 2 * MAX_STATICS
};
enum { INITIALISED = 1, WRITABLE = 2 };
enum Fence { NO_FENCE, BLOCK_FENCE, DEVICE_FENCE };

struct Array {
    void *begin;
    i64 flags;
};

/* One access to four bytes: who holds thread (10 bits), byte mask (4), atomic, valid. */
struct Record {
    u32 block, epoch, clock;
    u16 who, line;
};
struct Cell {
    Record write, read[2];
};

/* Memory that kernels may touch; `number` names it in reports. Cells and written masks are for each four bytes. */
struct Region {
    u64 begin, size;
    Cell *cells;
    u8 *written;
    i64 number;
    bool shared, initialised, writable;
};

/* A plain read of what another thread updates atomically: a race, unless an atomic operation of the reader follows. */
struct Suspect {
    bool set;
    u64 at, offset;
    u32 region, size, line;
    Record other;
};

enum State : u8 { READY, BARRIER, WARP, ACTIVE, DONE };

struct Fiber {
    void *stack;
    State state;
    u32 line, mask, clock;
    int kind, source, predicate, fence;
    u32 published, published_at, acquired_at;
    u64 site, value, result;
    u32 seen[LANES];
    Suspect suspect;
};

extern "C" {
void *memset(void *, int, unsigned long);
void *memcpy(void *, const void *, unsigned long);
int memcmp(const void *, const void *, unsigned long);
void *memmove(void *, const void *, unsigned long);
void *mmap(void *, unsigned long, int, int, int, long);
extern u32 emu_line;
extern char emu_shared_anchor[1];
extern char emu_dynamic[];
}

struct World {
    u32 grid[3], block[3], at[3], threads, blocks, number, epoch, now, left, barriers;
    Fiber fibers[MAX_THREADS];
    u32 tid[MAX_THREADS][3];
    u16 order[MAX_THREADS];
    Region regions[MAX_ARRAYS + MAX_STATICS + 1];
    u32 region_count;
    u64 schedule, random;
    bool failed;
    u32 events, acquired_at;
    u32 *released_at;
    u64 *report;
    i64 *words;
    void **slots;
    void (*kernel)(void **);
    void *main_stack;
    i64 budget;
    u8 *arena;
    u64 arena_size, arena_used;
};
extern World world;

void *reserve(u64 size);
u64 next_random();
void yield();
[[noreturn]] void stop(Finding finding, u32 line);
void note_place(u64 *report, int at_block, int at_thread, u32 block, u32 thread);
void settle();
void settle_suspect();
void check_access(u64 at, u32 size, int how);

}
