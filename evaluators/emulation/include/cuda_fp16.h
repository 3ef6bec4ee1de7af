/* Half precision, and its atomic functions under emulation. */
#pragma once

#define TUNER_INLINE EMU_INLINE
#define TUNER_BOTH_SIDES EMU_BOTH
/* A product of two halves is exact in double. */
#define TUNER_HALF_FMA(x, y, z) ((__half)((double)(x) * (double)(y) + (double)(z)))
#define TUNER_HALF_MAX(x, y) __builtin_fmaxf((float)(x), (float)(y))
#define TUNER_HALF_MIN(x, y) __builtin_fminf((float)(x), (float)(y))
#include "../../cuda/include/tuner_half.h"

#ifndef TUNER_READING
EMU_ATOMIC(atomicAdd, __half, old + value)
/* Without a call to an operator: that would be instrumented, and another thread could run in between. */
EMU_PLAINLY __half2 emu_atomicAdd(__half2 *at, __half2 value) {
    __half2 old = *at;
    at->x = (__half)(old.x + value.x);
    at->y = (__half)(old.y + value.y);
    return old;
}
static __device__ __forceinline__ __half2 atomicAdd(__half2 *at, __half2 value) {
    emu_atomic(at, sizeof(__half2));
    return emu_atomicAdd(at, value);
}
#endif
