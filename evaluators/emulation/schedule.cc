/* Runs a launch: blocks one after the other, the threads of a block as fibers that switch at synchronisation.

   Threads wait at barriers and warp operations as CUDA defines them for devices with independent thread scheduling
   (Programming Guide, synchronization functions and warp functions). */
#include "runtime.h"

namespace emu_runtime {

enum { STACK_BYTES = 64 << 10, PAGE = 4096 };

World world;
static u8 *stacks;
extern "C" {
u32 emu_line;
__attribute__((section("emu_shared"), used)) char emu_shared_anchor[1];
__attribute__((aligned(4096))) char emu_dynamic[DYNAMIC_BYTES];
}

/* Saves what a call must preserve, and goes on where another stack stopped. */
__attribute__((naked)) static void switch_to(void **, void *) {
    asm volatile("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
                 "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
                 "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret");
}

void *reserve(u64 size) {
    enum { READ_WRITE = 3, PRIVATE_ANONYMOUS_NORESERVE = 0x4022 };
    void *got = mmap(0, size, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, -1, 0);
    return (u64)got >= (u64)-4095 ? 0 : got;
}

u64 next_random() {
    world.random ^= world.random << 13;
    world.random ^= world.random >> 7;
    return world.random ^= world.random << 17;
}

static Fiber &self() { return world.fibers[world.now]; }

static void leave() { switch_to(&self().stack, world.main_stack); }

void yield() {
    world.budget = world.schedule >= 2 ? 1 + (i64)(next_random() % 128) : 4096;
    leave();
}

[[noreturn]] void stop(Finding finding, u32 line) {
    world.failed = true;
    world.report[R_FINDING] = finding;
    world.report[R_LINE] = line;
    note_place(world.report, R_BLOCK, R_THREAD, world.number, world.now);
    for (;;) leave();
}

void note_place(u64 *report, int at_block, int at_thread, u32 block, u32 thread) {
    report[at_block] = block % world.grid[0];
    report[at_block + 1] = block / world.grid[0] % world.grid[1];
    report[at_block + 2] = block / world.grid[0] / world.grid[1];
    for (int axis = 0; axis < 3; axis++) report[at_thread + axis] = world.tid[thread % MAX_THREADS][axis];
}

static void release_barrier();
static void complete_warps(u32 thread);

static void body() {
    world.kernel(world.slots);
    settle();
    settle_suspect();
    self().state = DONE;
    world.left--;
    if (world.left && world.barriers == world.left) release_barrier();
    complete_warps(world.now);
    for (;;) leave();
}

static void make_fiber(u32 thread) {
    Fiber &fiber = world.fibers[thread];
    memset(&fiber, 0, sizeof fiber);
    fiber.clock = 1;
    u64 *top = (u64 *)(stacks + (u64)(thread + 1) * (STACK_BYTES + PAGE));
    *--top = 0;
    *--top = (u64)body;
    top -= 6;
    memset(top, 0, 48);
    fiber.stack = top;
}

/* All threads that have not ended wait: at one place they go on, at several they never would. */
static void release_barrier() {
    u32 first = MAX_THREADS;
    int count = 0;
    for (u32 t = 0; t < world.threads; t++) {
        Fiber &fiber = world.fibers[t];
        if (fiber.state != BARRIER) continue;
        if (first == MAX_THREADS) first = t;
        if (fiber.site != world.fibers[first].site) {
            world.report[R_OTHER_LINE] = fiber.line;
            note_place(world.report, R_OTHER_BLOCK, R_OTHER_THREAD, world.number, t);
            world.now = first;
            stop(DIVERGED, world.fibers[first].line);
        }
        count += fiber.predicate != 0;
    }
    if (world.left != world.threads && world.words[W_EXITED_COUNT]) {
        world.now = first;
        stop(DIVERGED, world.fibers[first].line);
    }
    for (u32 t = 0; t < world.threads; t++) {
        Fiber &fiber = world.fibers[t];
        if (fiber.state != BARRIER) continue;
        int all = count == (int)world.left, results[] = {0, count, all, count != 0};
        fiber.result = (u64)results[fiber.kind];
        fiber.state = READY;
    }
    world.barriers = 0;
    world.epoch++;
}

static bool present(u32 first, u32 lane) {
    u32 thread = first + lane;
    return thread < world.threads && world.fibers[thread].state != DONE;
}

/* Lanes that the mask names have all come, or ended: gives each its result. */
static void finish_warp(u32 first, u32 mask) {
    u64 ballot = 0;
    u32 joint[LANES] = {0};
    for (u32 lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1) || !present(first, lane)) continue;
        Fiber &fiber = world.fibers[first + lane];
        if (fiber.value && fiber.kind == 2) ballot |= 1ull << lane;
        fiber.seen[lane] = fiber.clock;
        for (u32 i = 0; i < LANES; i++) joint[i] = joint[i] > fiber.seen[i] ? joint[i] : fiber.seen[i];
    }
    for (u32 lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1) || !present(first, lane)) continue;
        Fiber &fiber = world.fibers[first + lane];
        u32 from = (u32)fiber.source;
        bool there = from < LANES && mask >> from & 1 && present(first, from);
        /* CUDA leaves the value undefined: large and of a sign that depends on the run, so that it shows. */
        u64 undefined = world.schedule & 1 ? 0xff7f7f7fff7f7f7full : 0x7f7f7f7f7f7f7f7full;
        fiber.result = fiber.kind == 2 ? ballot : there ? world.fibers[first + from].value : undefined;
        if (fiber.kind == 0) {
            memcpy(fiber.seen, joint, sizeof joint);
            fiber.clock++;
        }
    }
    for (u32 lane = 0; lane < LANES; lane++)
        if (mask >> lane & 1 && present(first, lane)) world.fibers[first + lane].state = READY;
}

static void try_warp(u32 thread) {
    const Fiber &own = world.fibers[thread];
    u32 first = thread / LANES * LANES;
    for (u32 lane = 0; lane < LANES; lane++) {
        if (!(own.mask >> lane & 1) || !present(first, lane)) continue;
        const Fiber &other = world.fibers[first + lane];
        if (other.state != WARP || other.mask != own.mask || other.kind != own.kind) return;
    }
    finish_warp(first, own.mask);
}

static void complete_warps(u32 thread) {
    u32 first = thread / LANES * LANES;
    for (u32 t = first; t < first + LANES && t < world.threads; t++)
        if (world.fibers[t].state == WARP) try_warp(t);
}

/* Nobody can run: threads that ask who is with them go on together; else they wait for ever. */
static void resolve() {
    for (u32 t = 0; t < world.threads; t++) {
        if (world.fibers[t].state != ACTIVE) continue;
        u32 first = t / LANES * LANES, lanes = 0;
        for (u32 i = first; i < first + LANES && i < world.threads; i++)
            if (world.fibers[i].state == ACTIVE && world.fibers[i].site == world.fibers[t].site) lanes |= 1u << i % LANES;
        for (u32 i = first; i < first + LANES && i < world.threads; i++)
            if (lanes >> i % LANES & 1) world.fibers[i].state = READY, world.fibers[i].result = lanes;
        return;
    }
    u32 waits = MAX_THREADS;
    for (u32 t = 0; t < world.threads; t++)
        if (world.fibers[t].state == WARP) {
            waits = t;
            break;
        }
    world.failed = true;
    world.report[R_FINDING] = DIVERGED;
    if (waits == MAX_THREADS) return;
    const Fiber &fiber = world.fibers[waits];
    u32 first = waits / LANES * LANES;
    for (u32 lane = 0; lane < LANES; lane++) {
        if (!(fiber.mask >> lane & 1) || !present(first, lane)) continue;
        const Fiber &other = world.fibers[first + lane];
        if (other.state == WARP && other.mask == fiber.mask && other.kind == fiber.kind) continue;
        world.report[R_VALUE] = fiber.mask;
        world.report[R_MORE] = other.mask;
        world.report[R_OTHER_LINE] = other.line;
        note_place(world.report, R_OTHER_BLOCK, R_OTHER_THREAD, world.number, first + lane);
        world.report[R_FINDING] = other.state == WARP ? MASKS_DIFFER : WARP_ABSENT;
        world.report[R_LINE] = fiber.line;
        note_place(world.report, R_BLOCK, R_THREAD, world.number, waits);
        return;
    }
}

static void shuffle_order() {
    for (u32 i = 0; i < world.threads; i++) world.order[i] = (u16)(world.schedule == 1 ? world.threads - 1 - i : i);
    for (u32 i = world.threads - 1; world.schedule >= 2 && i > 0; i--) {
        u32 j = (u32)(next_random() % (i + 1));
        u16 kept = world.order[i];
        world.order[i] = world.order[j], world.order[j] = kept;
    }
}

static void run_block(u32 number) {
    world.number = number;
    world.left = world.threads;
    world.barriers = 0;
    world.epoch = 1;
    world.acquired_at = 0;
    world.at[0] = number % world.grid[0];
    world.at[1] = number / world.grid[0] % world.grid[1];
    world.at[2] = number / world.grid[0] / world.grid[1];
    for (u32 i = 0; i < world.region_count; i++) {
        Region &r = world.regions[i];
        if (!r.shared) continue;
        memset(r.cells, 0, (r.size + 3) / 4 * sizeof(Cell));
        memset(r.written, 0, (r.size + 3) / 4);
        /* What a block finds in shared memory is left over from others: no number that a result could hide in. */
        memset((void *)r.begin, world.schedule & 1 ? 0xff : 0x7f, r.size);
    }
    for (u32 t = 0; t < world.threads; t++) make_fiber(t);
    shuffle_order();
    while (world.left && !world.failed) {
        bool progress = false;
        for (u32 i = 0; i < world.threads && !world.failed; i++) {
            u32 thread = world.order[i];
            if (world.fibers[thread].state != READY) continue;
            world.now = thread;
            switch_to(&world.main_stack, world.fibers[thread].stack);
            progress = true;
        }
        if (!progress) resolve();
    }
}

static bool add_region(u64 begin, u64 size, i64 number, bool shared, i64 flags) {
    Region &r = world.regions[world.region_count];
    u64 granules = (size + 3) / 4, need = granules * (sizeof(Cell) + 1) + 64;
    if (world.arena_used + need > world.arena_size) return false;
    u8 *at = world.arena + world.arena_used;
    world.arena_used += (need + 63) / 64 * 64;
    r = {begin, size, (Cell *)at, at + granules * sizeof(Cell), number, shared, (flags & INITIALISED) != 0, (flags & WRITABLE) != 0};
    memset(at, 0, need);
    world.region_count++;
    return true;
}

static bool prepare(const Array *arrays, i64 count, i64 *words) {
    if (!stacks) {
        stacks = (u8 *)reserve((u64)MAX_THREADS * (STACK_BYTES + PAGE) + PAGE);
        for (u32 i = 0; stacks && i < MAX_THREADS; i++) {
            enum { FIXED_PRIVATE_ANONYMOUS = 0x32 };
            mmap(stacks + (u64)i * (STACK_BYTES + PAGE), PAGE, 0, FIXED_PRIVATE_ANONYMOUS, -1, 0);
        }
    }
    u64 bytes = DYNAMIC_BYTES, blocks = 1, marks = 0;
    for (i64 i = 0; i < count; i++) bytes += (u64)words[W_SIZES + i] + 8;
    for (i64 i = 0; i < words[W_STATICS]; i++) bytes += (u64)words[W_STATIC + 2 * i + 1] + 8;
    for (int axis = 0; axis < 3; axis++) {
        world.grid[axis] = (u32)words[W_GRID + axis];
        world.block[axis] = (u32)words[W_BLOCK + axis];
        blocks *= world.grid[axis];
    }
    world.threads = world.block[0] * world.block[1] * world.block[2];
    world.blocks = (u32)blocks;
    u64 need = (bytes / 4 + 64) * (sizeof(Cell) + 1) + 4096 + (MAX_ARRAYS + MAX_STATICS) * 128;
    marks = (blocks * sizeof(u32) + 63) / 64 * 64;
    if (need + marks > world.arena_size) {
        world.arena = (u8 *)reserve(need + marks);
        world.arena_size = world.arena ? need + marks : 0;
    }
    if (!stacks || !world.arena || !world.threads || world.threads > MAX_THREADS) return false;
    world.released_at = (u32 *)world.arena;
    world.events = 0;
    memset(world.released_at, 0, marks);
    world.arena_used = marks;
    world.region_count = 0;
    for (i64 i = 0; i < count; i++)
        if (!add_region((u64)arrays[i].begin, (u64)words[W_SIZES + i], i, false, arrays[i].flags)) return false;
    for (i64 i = 0; i < words[W_STATICS]; i++) {
        u64 begin = (u64)emu_shared_anchor + (u64)words[W_STATIC + 2 * i];
        if (!add_region(begin, (u64)words[W_STATIC + 2 * i + 1], MAX_ARRAYS + i, true, WRITABLE)) return false;
    }
    if (words[W_SHARED] && !add_region((u64)emu_dynamic, (u64)words[W_SHARED], MAX_ARRAYS + MAX_STATICS, true, WRITABLE))
        return false;
    for (u32 t = 0; t < world.threads; t++) {
        world.tid[t][0] = t % world.block[0];
        world.tid[t][1] = t / world.block[0] % world.block[1];
        world.tid[t][2] = t / world.block[0] / world.block[1];
    }
    return true;
}

extern "C" {
void emu_launch(i64 *words, const Array *arrays, i64 count, u64 *report, void **slots, void (*kernel)(void **)) {
    memset(report, 0, REPORT_WORDS * sizeof *report);
    world.report = report, world.words = words, world.slots = slots, world.kernel = kernel;
    world.schedule = (u64)words[W_SCHEDULE];
    world.random = 0x9e3779b97f4a7c15ull * (world.schedule + 1) | 1;
    world.failed = false;
    world.budget = 4096;
    if (!prepare(arrays, count, words)) {
        report[R_FINDING] = NO_MEMORY;
        return;
    }
    for (u32 i = 0; i < world.blocks && !world.failed; i++)
        run_block(world.schedule == 1 ? world.blocks - 1 - i : i);
}

u32 emu_thread(int axis) { return world.tid[world.now][axis]; }
u32 emu_block(int axis) { return world.at[axis]; }
u32 emu_block_size(int axis) { return world.block[axis]; }
u32 emu_grid_size(int axis) { return world.grid[axis]; }
u32 emu_lane() { return world.now % LANES; }

int emu_barrier(int kind, int predicate) {
    settle();
    settle_suspect();
    Fiber &fiber = self();
    fiber.state = BARRIER, fiber.kind = kind, fiber.predicate = predicate, fiber.line = emu_line;
    fiber.site = (u64)__builtin_return_address(0);
    if (++world.barriers == world.left) release_barrier();
    leave();
    return (int)self().result;
}

u64 emu_warp(u32 mask, int kind, u64 value, int source) {
    settle();
    Fiber &fiber = self();
    if (!(mask >> world.now % LANES & 1)) {
        world.report[R_VALUE] = mask;
        stop(NOT_IN_MASK, emu_line);
    }
    fiber.state = WARP, fiber.mask = mask, fiber.kind = kind, fiber.value = value, fiber.source = source;
    fiber.line = emu_line;
    try_warp(world.now);
    leave();
    return self().result;
}

u32 emu_active() {
    settle();
    Fiber &fiber = self();
    fiber.state = ACTIVE, fiber.line = emu_line, fiber.site = (u64)__builtin_return_address(0);
    leave();
    return (u32)self().result;
}

void emu_bad_width(int width) {
    settle();
    world.report[R_VALUE] = (u64)(i64)width;
    stop(BAD_WIDTH, emu_line);
}

void emu_pause() {
    settle();
    yield();
}
void emu_assert(int line) {
    settle();
    stop(line ? ASSERTION : STOPPED, line ? (u32)line : emu_line);
}
}

/* The addresses of these are taken as `this` where an index is converted whole; nothing is ever read there. */
extern "C" {
char threadIdx[1], blockIdx[1], blockDim[1], gridDim[1];
}

}
