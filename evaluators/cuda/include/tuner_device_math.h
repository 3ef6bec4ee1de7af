/* Overloads that CUDA C++ has beside C's names: one name for float and double, minima, classification. Whoever includes
   this defines TUNER_INLINE, and has C's names.
   Source: CUDA C++ Programming Guide, mathematical functions; CUDA Math API. */
#pragma once

#include "tuner_functions.h"

#define TUNER_FLOAT_1(name) TUNER_INLINE float name(float x) { return name##f(x); }
#define TUNER_FLOAT_2(name) TUNER_INLINE float name(float x, float y) { return name##f(x, y); }
TUNER_OF_ONE(TUNER_FLOAT_1)
TUNER_OF_TWO(TUNER_FLOAT_2)
#undef TUNER_FLOAT_1
#undef TUNER_FLOAT_2
TUNER_INLINE float fma(float x, float y, float z) { return fmaf(x, y, z); }
TUNER_INLINE float ldexp(float x, int e) { return ldexpf(x, e); }
TUNER_INLINE void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
TUNER_INLINE float abs(float x) { return fabsf(x); }
TUNER_INLINE double abs(double x) { return fabs(x); }
TUNER_INLINE long abs(long x) { return x < 0 ? -x : x; }
TUNER_INLINE long long abs(long long x) { return x < 0 ? -x : x; }

#define TUNER_EXTREMA(A, B, C)                                                                                    \
    TUNER_INLINE C min(A x, B y) { return (C)x < (C)y ? (C)x : (C)y; }                                            \
    TUNER_INLINE C max(A x, B y) { return (C)x > (C)y ? (C)x : (C)y; }
TUNER_EXTREMA(unsigned, unsigned, unsigned)
TUNER_EXTREMA(int, unsigned, unsigned)
TUNER_EXTREMA(unsigned, int, unsigned)
TUNER_EXTREMA(long, long, long)
TUNER_EXTREMA(unsigned long, unsigned long, unsigned long)
TUNER_EXTREMA(long, unsigned long, unsigned long)
TUNER_EXTREMA(unsigned long, long, unsigned long)
TUNER_EXTREMA(long long, long long, long long)
TUNER_EXTREMA(unsigned long long, unsigned long long, unsigned long long)
TUNER_EXTREMA(long long, unsigned long long, unsigned long long)
TUNER_EXTREMA(unsigned long long, long long, unsigned long long)
#undef TUNER_EXTREMA
TUNER_INLINE float min(float x, float y) { return fminf(x, y); }
TUNER_INLINE float max(float x, float y) { return fmaxf(x, y); }
TUNER_INLINE double min(double x, double y) { return fmin(x, y); }
TUNER_INLINE double max(double x, double y) { return fmax(x, y); }
TUNER_INLINE double min(double x, float y) { return fmin(x, (double)y); }
TUNER_INLINE double max(double x, float y) { return fmax(x, (double)y); }
TUNER_INLINE double min(float x, double y) { return fmin((double)x, y); }
TUNER_INLINE double max(float x, double y) { return fmax((double)x, y); }

#undef isnan
#undef isinf
#undef isfinite
#undef signbit
TUNER_INLINE bool isnan(float x) { return __builtin_isnan(x); }
TUNER_INLINE bool isnan(double x) { return __builtin_isnan(x); }
TUNER_INLINE bool isinf(float x) { return __builtin_isinf(x); }
TUNER_INLINE bool isinf(double x) { return __builtin_isinf(x); }
TUNER_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
TUNER_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }
TUNER_INLINE bool signbit(float x) { return __builtin_signbit(x); }
TUNER_INLINE bool signbit(double x) { return __builtin_signbit(x); }
#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif
