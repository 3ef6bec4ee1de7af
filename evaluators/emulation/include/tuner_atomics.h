/* Atomic functions. One thread runs at a time, so the operation itself is plain; the runtime notes it as atomic. */
#pragma once

extern "C" __device__ void emu_atomic(const volatile void *at, int size);

#define EMU_PLAINLY __attribute__((no_sanitize("thread", "undefined"), noinline, nothrow)) static __device__
/* The operation is kept out of line: in line it would be checked as a plain access of the kernel. */
#define EMU_ATOMIC(name, T, expression)                                                                           \
    EMU_PLAINLY T emu_##name(T *at, T value) {                                                                    \
        T old = *(volatile T *)at;                                                                                \
        *(volatile T *)at = (T)(expression);                                                                      \
        return old;                                                                                               \
    }                                                                                                             \
    static __device__ __forceinline__ T name(T *at, T value) {                                                    \
        emu_atomic(at, sizeof(T));                                                                                \
        return emu_##name(at, value);                                                                             \
    }                                                                                                             \
    static __device__ __forceinline__ T name##_block(T *at, T value) { return name(at, value); }                  \
    static __device__ __forceinline__ T name##_system(T *at, T value) { return name(at, value); }
#define EMU_ATOMIC_INTEGERS(name, expression)                                                                     \
    EMU_ATOMIC(name, int, expression)                                                                             \
    EMU_ATOMIC(name, unsigned int, expression)                                                                    \
    EMU_ATOMIC(name, unsigned long long, expression)

EMU_ATOMIC_INTEGERS(atomicAdd, (unsigned long long)old + (unsigned long long)value)
EMU_ATOMIC(atomicAdd, float, old + value)
EMU_ATOMIC(atomicAdd, double, old + value)
EMU_ATOMIC(atomicSub, int, (unsigned)old - (unsigned)value)
EMU_ATOMIC(atomicSub, unsigned int, old - value)
EMU_ATOMIC_INTEGERS(atomicMin, old < value ? old : value)
EMU_ATOMIC(atomicMin, long long, old < value ? old : value)
EMU_ATOMIC_INTEGERS(atomicMax, old > value ? old : value)
EMU_ATOMIC(atomicMax, long long, old > value ? old : value)
EMU_ATOMIC_INTEGERS(atomicExch, value)
EMU_ATOMIC(atomicExch, float, value)
EMU_ATOMIC_INTEGERS(atomicAnd, old &value)
EMU_ATOMIC_INTEGERS(atomicOr, old | value)
EMU_ATOMIC_INTEGERS(atomicXor, old ^ value)
EMU_ATOMIC(atomicInc, unsigned int, old >= value ? 0 : old + 1)
EMU_ATOMIC(atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)

#define EMU_ATOMIC_CAS(T)                                                                                         \
    EMU_PLAINLY T emu_atomicCAS(T *at, T compare, T value) {                                                      \
        T old = *(volatile T *)at;                                                                                \
        if (old == compare) *(volatile T *)at = value;                                                            \
        return old;                                                                                               \
    }                                                                                                             \
    static __device__ __forceinline__ T atomicCAS(T *at, T compare, T value) {                                    \
        emu_atomic(at, sizeof(T));                                                                                \
        return emu_atomicCAS(at, compare, value);                                                                 \
    }                                                                                                             \
    static __device__ __forceinline__ T atomicCAS_block(T *at, T compare, T value) {                              \
        return atomicCAS(at, compare, value);                                                                     \
    }                                                                                                             \
    static __device__ __forceinline__ T atomicCAS_system(T *at, T compare, T value) {                             \
        return atomicCAS(at, compare, value);                                                                     \
    }
EMU_ATOMIC_CAS(int)
EMU_ATOMIC_CAS(unsigned int)
EMU_ATOMIC_CAS(unsigned long long)
EMU_ATOMIC_CAS(unsigned short)
