/* Half precision for clang's device side, with its shuffles, cached loads and atomic additions. */
#pragma once

#define TUNER_BOTH_SIDES __host__ __device__
#define TUNER_HALF_PACKED 1
#define TUNER_HALF_FMA(x, y, z) __builtin_elementwise_fma(x, y, z)
#define TUNER_HALF_MAX(x, y) __builtin_elementwise_max(x, y)
#define TUNER_HALF_MIN(x, y) __builtin_elementwise_min(x, y)
#include "tuner_half.h"

#define TUNER_HALF_SHUFFLE(name, From)                                                                            \
    TUNER_INLINE __half name(unsigned mask, __half v, From from, int width = 32) {                                \
        return __builtin_bit_cast(__half, (short)name(mask, (int)__builtin_bit_cast(short, v), from, width));     \
    }                                                                                                             \
    TUNER_INLINE __half2 name(unsigned mask, __half2 v, From from, int width = 32) {                              \
        return __builtin_bit_cast(__half2, name(mask, __builtin_bit_cast(int, v), from, width));                  \
    }
TUNER_HALF_SHUFFLE(__shfl_sync, int)
TUNER_HALF_SHUFFLE(__shfl_up_sync, unsigned)
TUNER_HALF_SHUFFLE(__shfl_down_sync, unsigned)
TUNER_HALF_SHUFFLE(__shfl_xor_sync, int)
#undef TUNER_HALF_SHUFFLE

TUNER_INLINE __half __ldg(const __half *at) { return __builtin_bit_cast(__half, __ldg((const unsigned short *)at)); }
TUNER_INLINE __half2 __ldg(const __half2 *at) { return __builtin_bit_cast(__half2, __ldg((const unsigned *)at)); }

TUNER_INLINE __half atomicAdd(__half *at, __half value) {
    return __scoped_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
TUNER_INLINE __half2 atomicAdd(__half2 *at, __half2 value) {
    unsigned old;
    asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(__builtin_bit_cast(unsigned, value))
                 : "memory");
    return __builtin_bit_cast(__half2, old);
}
