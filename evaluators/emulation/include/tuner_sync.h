/* Barriers, fences, warp shuffles and votes. */
#pragma once

extern "C" {
EMU_CONVERGENT __device__ int emu_barrier(int kind, int predicate);
EMU_CONVERGENT __device__ unsigned long long emu_warp(unsigned mask, int kind, unsigned long long value, int source);
EMU_CONVERGENT __device__ unsigned emu_active();
__device__ void emu_bad_width(int width);
__device__ void emu_fence(int fence);
__device__ void emu_pause();
__attribute__((noreturn)) __device__ void emu_assert(int line);
}
enum { EMU_PLAIN, EMU_COUNT, EMU_AND, EMU_OR };
enum { EMU_SYNC, EMU_SHUFFLE, EMU_BALLOT };

EMU_CONVERGENT static __device__ __forceinline__ void __syncthreads() { emu_barrier(EMU_PLAIN, 0); }
EMU_CONVERGENT static __device__ __forceinline__ int __syncthreads_count(int p) { return emu_barrier(EMU_COUNT, p); }
EMU_CONVERGENT static __device__ __forceinline__ int __syncthreads_and(int p) { return emu_barrier(EMU_AND, p); }
EMU_CONVERGENT static __device__ __forceinline__ int __syncthreads_or(int p) { return emu_barrier(EMU_OR, p); }
EMU_CONVERGENT static __device__ __forceinline__ void __syncwarp(unsigned mask = ~0u) { emu_warp(mask, EMU_SYNC, 0, 0); }
static __device__ __forceinline__ void __threadfence() { emu_fence(2); }
static __device__ __forceinline__ void __threadfence_system() { emu_fence(2); }
static __device__ __forceinline__ void __threadfence_block() { emu_fence(1); }
static __device__ __forceinline__ void __nanosleep(unsigned) { emu_pause(); }
static __device__ __forceinline__ void __trap() { emu_assert(0); }
EMU_CONVERGENT static __device__ __forceinline__ unsigned __activemask() { return emu_active(); }

EMU_CONVERGENT static __device__ __forceinline__ unsigned __ballot_sync(unsigned mask, int p) {
    return (unsigned)emu_warp(mask, EMU_BALLOT, p != 0, 0);
}
EMU_CONVERGENT static __device__ __forceinline__ int __any_sync(unsigned mask, int p) {
    return __ballot_sync(mask, p) != 0;
}
EMU_CONVERGENT static __device__ __forceinline__ int __all_sync(unsigned mask, int p) {
    return __ballot_sync(mask, !p) == 0;
}

template <class T>
EMU_CONVERGENT static __device__ __forceinline__ T emu_shuffle(unsigned mask, T value, int source) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = emu_warp(mask, EMU_SHUFFLE, bits, source);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
/* The width of a section; CUDA defines nothing for one that is no power of two up to a warp's size. */
static __device__ __forceinline__ int emu_width(int width) {
    if (width < 1 || width > 32 || (width & (width - 1))) emu_bad_width(width);
    return width;
}
/* Where a lane reads from: within its section of `width` lanes, else from itself. */
template <class T>
EMU_CONVERGENT static __device__ __forceinline__ T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
    int own = (int)emu_lane(), in = emu_width(width) - 1;
    return emu_shuffle(mask, v, (own & ~in) | (lane & in));
}
template <class T>
EMU_CONVERGENT static __device__ __forceinline__ T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int own = (int)emu_lane(), from = own - (int)by, in = emu_width(width) - 1;
    return emu_shuffle(mask, v, from < (own & ~in) ? own : from);
}
template <class T>
EMU_CONVERGENT static __device__ __forceinline__ T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int own = (int)emu_lane(), from = own + (int)by, in = emu_width(width) - 1;
    return emu_shuffle(mask, v, from > (own | in) ? own : from);
}
template <class T>
EMU_CONVERGENT static __device__ __forceinline__ T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32) {
    int own = (int)emu_lane(), from = own ^ with, in = emu_width(width) - 1;
    return emu_shuffle(mask, v, from > (own | in) ? own : from);
}
template <class T> EMU_CONVERGENT static __device__ __forceinline__ unsigned __match_any_sync(unsigned mask, T v) {
    unsigned found = 0;
    if (!mask) __syncwarp(mask);
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) {
            T other = emu_shuffle(mask, v, lane);
            if (__builtin_memcmp(&other, &v, sizeof(T)) == 0) found |= 1u << lane;
        }
    return found;
}
template <class T>
EMU_CONVERGENT static __device__ __forceinline__ unsigned __match_all_sync(unsigned mask, T v, int *all) {
    unsigned same = __match_any_sync(mask, v);
    *all = same == mask;
    return *all ? mask : 0;
}
#define EMU_REDUCE(name, expression)                                                                              \
    template <class T> EMU_CONVERGENT static __device__ __forceinline__ T name(unsigned mask, T v) {              \
        T a = v;                                                                                                  \
        bool first = true;                                                                                        \
        if (!mask) __syncwarp(mask);                                                                              \
        for (int lane = 0; lane < 32; lane++)                                                                     \
            if (mask >> lane & 1) {                                                                               \
                T b = emu_shuffle(mask, v, lane);                                                                 \
                a = first ? b : (T)(expression);                                                                  \
                first = false;                                                                                    \
            }                                                                                                     \
        return a;                                                                                                 \
    }
EMU_REDUCE(__reduce_add_sync, (unsigned)a + (unsigned)b)
EMU_REDUCE(__reduce_min_sync, a < b ? a : b)
EMU_REDUCE(__reduce_max_sync, a > b ? a : b)
EMU_REDUCE(__reduce_and_sync, a &b)
EMU_REDUCE(__reduce_or_sync, a | b)
EMU_REDUCE(__reduce_xor_sync, a ^ b)
