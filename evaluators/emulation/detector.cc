/* Checks every access of a kernel: bounds, initialisation, and data races by happens-before.

   A barrier orders all accesses of a block; __syncwarp orders those of its lanes (vector clocks over a warp). Threads
   and blocks are otherwise unordered, but for a fence followed by an atomic operation on the one side and a later
   atomic operation on the other: on which address is not looked at. Two writes of the same value are no race, nor is a
   plain read before the reader's own atomic operation on the same address (the Programming Guide's loops around
   atomicCAS begin with one). */
#include "runtime.h"

namespace emu_runtime {

enum { VALID = 1 << 15, IS_ATOMIC = 1 << 14, MASK_SHIFT = 10, THREAD_MASK = MAX_THREADS - 1 };
/* The child's buffers lie below this, its stacks, code and libraries above. */
static const u64 BUFFERS_END = 0x540000000000ull;

/* A write that conflicts with another: only a race when it changes the value, which is known after it. */
static struct { bool waiting; u64 at; u32 size; u8 bytes[16]; u64 report[REPORT_WORDS]; } pending;

void settle() {
    if (!pending.waiting) return;
    pending.waiting = false;
    if (memcmp((void *)pending.at, pending.bytes, pending.size) == 0 || world.failed) return;
    memcpy(world.report + 1, pending.report + 1, sizeof pending.report - 8);
    stop(RACE, (u32)pending.report[R_LINE]);
}

static bool ordered(const Record &old) {
    const Fiber &own = world.fibers[world.now];
    if (old.block != world.number) {
        u32 released = world.released_at[old.block];
        return released && world.acquired_at > released;
    }
    if (old.epoch != world.epoch) return true;
    u32 thread = old.who & THREAD_MASK;
    if (thread == world.now) return true;
    const Fiber &other = world.fibers[thread];
    if (old.clock <= other.published && own.acquired_at > other.published_at) return true;
    return thread / LANES == world.now / LANES && old.clock <= own.seen[thread % LANES];
}

static bool conflicts(const Record &old, u32 mask, bool atomic) {
    if (!(old.who & VALID) || !(old.who >> MASK_SHIFT & mask)) return false;
    return !(atomic && old.who & IS_ATOMIC) && !ordered(old);
}

static void describe(u64 *report, const Region &r, u64 offset, u32 size, int how) {
    report[R_LINE] = emu_line;
    report[R_REGION] = (u64)r.number;
    report[R_OFFSET] = offset;
    report[R_SIZE] = size;
    report[R_ACCESS] = (u64)how;
}

static void race(const Region &r, u64 offset, u64 at, u32 size, int how, const Record &old, bool old_write) {
    u64 made[REPORT_WORDS] = {0};
    describe(made, r, offset, size, how);
    made[R_OTHER_LINE] = old.line;
    made[R_OTHER_ACCESS] = old.who & IS_ATOMIC ? ATOMIC : old_write ? WRITE : READ;
    note_place(made, R_OTHER_BLOCK, R_OTHER_THREAD, old.block, old.who & THREAD_MASK);
    if (how == WRITE && old_write && !(old.who & IS_ATOMIC) && size <= sizeof pending.bytes) {
        if (pending.waiting) return;
        pending.waiting = true, pending.at = at, pending.size = size;
        memcpy(pending.bytes, (void *)at, size);
        memcpy(pending.report, made, sizeof made);
        return;
    }
    memcpy(world.report + 1, made + 1, sizeof made - 8);
    stop(RACE, emu_line);
}

void settle_suspect() {
    Suspect &suspect = world.fibers[world.now].suspect;
    if (!suspect.set) return;
    suspect.set = false;
    emu_line = suspect.line;
    race(world.regions[suspect.region], suspect.offset, suspect.at, suspect.size, READ, suspect.other, true);
}

static void suspect(u32 thread, const Region &r, u64 at, u64 offset, u32 size, u32 line, const Record &other) {
    Suspect &known = world.fibers[thread].suspect;
    if (known.set && known.at != at && thread == world.now) settle_suspect();
    if (!known.set) known = {true, at, offset, (u32)(&r - world.regions), size, line, other};
}

/* An atomic operation makes up for the thread's own plain reads of the same memory. */
static void forgive(Cell &cell, u64 at) {
    Suspect &known = world.fibers[world.now].suspect;
    if (known.set && known.at == at) known.set = false;
    for (Record &slot : cell.read)
        if ((slot.who & VALID) && slot.block == world.number && (slot.who & THREAD_MASK) == world.now) slot.who = 0;
}

/* Two readers are kept, of different threads where there were such: any writer then differs from one of them. */
static void note_read(Cell &cell, const Record &record) {
    for (Record &slot : cell.read)
        if ((slot.who & VALID) && slot.block == record.block && ((slot.who ^ record.who) & THREAD_MASK) == 0) {
            slot = record;
            return;
        }
    for (Record &slot : cell.read)
        if (!(slot.who & VALID) || ordered(slot)) {
            slot = record;
            return;
        }
}

static void touch(Region &r, u64 granule, u32 mask, u64 at, u64 offset, u32 size, int how) {
    Cell &cell = r.cells[granule];
    bool atomic = how == ATOMIC;
    if (how != WRITE && !r.initialised && (r.written[granule] & mask) != mask) {
        describe(world.report, r, offset, size, how);
        stop(UNINITIALISED, emu_line);
    }
    if (atomic) forgive(cell, at);
    if (conflicts(cell.write, mask, atomic)) {
        bool idiom = how == READ && cell.write.who & IS_ATOMIC;
        if (idiom) suspect(world.now, r, at, offset, size, emu_line, cell.write);
        else race(r, offset, at, size, how, cell.write, true);
    }
    u16 who = (u16)(world.now | mask << MASK_SHIFT | (atomic ? IS_ATOMIC : 0) | VALID);
    Record record = {world.number, world.epoch, world.fibers[world.now].clock, who, (u16)emu_line};
    if (how == READ) {
        note_read(cell, record);
        return;
    }
    for (const Record &reader : cell.read) {
        if (!conflicts(reader, mask, false)) continue;
        u32 thread = reader.who & THREAD_MASK;
        bool may_follow = atomic && reader.block == world.number && world.fibers[thread].state != DONE;
        if (may_follow) suspect(thread, r, at, offset, size, reader.line, record);
        else race(r, offset, at, size, how, reader, false);
    }
    cell.write = record;
    if (!atomic) world.fibers[world.now].fence = NO_FENCE;
    r.written[granule] |= (u8)mask;
}

static Region *find(u64 at) {
    static u32 last[2];
    for (u32 i : last) {
        Region &r = world.regions[i];
        if (i < world.region_count && at - r.begin < r.size) return &r;
    }
    for (u32 i = 0; i < world.region_count; i++)
        if (at - world.regions[i].begin < world.regions[i].size) {
            last[1] = last[0];
            last[0] = i;
            return &world.regions[i];
        }
    return 0;
}

/* Outside of all regions: wrong where buffers or shared variables lie, else the kernel's own stack or constants. */
static void outside(u64 at, u32 size, int how) {
    Region found = {0, 0, 0, 0, MAX_ARRAYS + MAX_STATICS, true, false, true};
    u64 dynamic = (u64)emu_dynamic, least = ~0ull;
    if (at - dynamic < DYNAMIC_BYTES) {
        found.begin = dynamic;
    } else {
        for (u32 i = 0; i < world.region_count; i++) {
            const Region &r = world.regions[i];
            u64 away = at < r.begin ? r.begin - at : at - (r.begin + r.size) + 1;
            if (away < least) least = away, found = r;
        }
        bool beside_shared = found.shared && least <= GAP_BYTES;
        if (least == ~0ull || !(at < BUFFERS_END || beside_shared)) return;
    }
    describe(world.report, found, at - found.begin, size, how);
    stop(OUT_OF_BOUNDS, emu_line);
}

void check_access(u64 at, u32 size, int how) {
    if (world.now >= MAX_THREADS) return;
    settle();
    if (--world.budget <= 0) {
        u32 line = emu_line;
        yield();
        emu_line = line;
    }
    Region *r = find(at);
    if (!r) return outside(at, size, how);
    u64 offset = at - r->begin;
    if (offset + size > r->size) {
        describe(world.report, *r, offset, size, how);
        stop(OUT_OF_BOUNDS, emu_line);
    }
    if (how != READ && !r->writable) {
        describe(world.report, *r, offset, size, how);
        stop(READ_ONLY, emu_line);
    }
    for (u64 granule = offset / 4; granule <= (offset + size - 1) / 4; granule++) {
        u64 low = granule * 4 < offset ? offset - granule * 4 : 0;
        u64 high = granule * 4 + 4 > offset + size ? offset + size - granule * 4 : 4;
        touch(*r, granule, (1u << high) - (1u << low), at, offset, size, how);
    }
}

/* What the compiler's thread instrumentation calls (LLVM, ThreadSanitizer pass). */
extern "C" {
#define EMU_SIZES(size)                                                                                           \
    void __tsan_read##size(void *at) { check_access((u64)at, size, READ); }                                       \
    void __tsan_write##size(void *at) { check_access((u64)at, size, WRITE); }                                     \
    void __tsan_unaligned_read##size(void *at) { check_access((u64)at, size, READ); }                             \
    void __tsan_unaligned_write##size(void *at) { check_access((u64)at, size, WRITE); }                           \
    void __tsan_read_write##size(void *at) { check_access((u64)at, size, READ), check_access((u64)at, size, WRITE); } \
    void __tsan_unaligned_read_write##size(void *at) { __tsan_read_write##size(at); }
EMU_SIZES(1)
EMU_SIZES(2)
EMU_SIZES(4)
EMU_SIZES(8)
EMU_SIZES(16)

void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}

/* A piece at a time, so that a conflict is settled before the next bytes are looked at. */
static void pieces(u64 at, u64 size, int how) {
    for (u64 done = 0; done < size; done += 16) check_access(at + done, (u32)(size - done < 16 ? size - done : 16), how);
}
void *__tsan_memcpy(void *to, const void *from, u64 size) {
    pieces((u64)from, size, READ);
    pieces((u64)to, size, WRITE);
    return memmove(to, from, size);
}
void *__tsan_memmove(void *to, const void *from, u64 size) { return __tsan_memcpy(to, from, size); }
void *__tsan_memset(void *to, int value, u64 size) {
    pieces((u64)to, size, WRITE);
    return memset(to, value, size);
}
void emu_atomic(const volatile void *at, int size) {
    check_access((u64)at, (u32)size, ATOMIC);
    Fiber &own = world.fibers[world.now];
    u32 event = ++world.events;
    own.acquired_at = world.acquired_at = event;
    if (own.fence == NO_FENCE) return;
    own.published = own.clock++, own.published_at = event;
    if (own.fence == DEVICE_FENCE) world.released_at[world.number] = event;
}
void emu_fence(int fence) {
    Fiber &own = world.fibers[world.now];
    if (own.fence < fence) own.fence = fence;
}

/* What the undefined-behaviour instrumentation calls; its data begin with file, line and column. */
struct Place { const char *file; u32 line, column; };
#define EMU_UNDEFINED(name, finding)                                                                              \
    void __ubsan_handle_##name##_abort(const Place *place, u64 a, u64 b) {                                        \
        settle();                                                                                                 \
        world.report[R_VALUE] = a, world.report[R_MORE] = b;                                                      \
        stop(finding, place->line);                                                                               \
    }
EMU_UNDEFINED(add_overflow, OVERFLOW)
EMU_UNDEFINED(sub_overflow, OVERFLOW)
EMU_UNDEFINED(mul_overflow, OVERFLOW)
EMU_UNDEFINED(negate_overflow, OVERFLOW)
EMU_UNDEFINED(divrem_overflow, DIVISION)
EMU_UNDEFINED(shift_out_of_bounds, SHIFT)
EMU_UNDEFINED(out_of_bounds, INDEX)
EMU_UNDEFINED(type_mismatch_v1, MISALIGNED)
void emu_aligned(const void *at, u64 alignment) {
    if ((u64)at % alignment == 0) return;
    u32 line = emu_line;
    settle();
    world.report[R_VALUE] = (u64)at;
    stop(MISALIGNED, line);
}
}

}
