/* Overloads that CUDA C++ has beside C's names: one name for float and double, minima, classification.
   Source: CUDA C++ Programming Guide, mathematical functions; CUDA Math API. */
#pragma once

#define TUNER_FLOAT_1(name) TUNER_INLINE float name(float x) { return name##f(x); }
#define TUNER_FLOAT_2(name) TUNER_INLINE float name(float x, float y) { return name##f(x, y); }
TUNER_FLOAT_1(acos)
TUNER_FLOAT_1(acosh)
TUNER_FLOAT_1(asin)
TUNER_FLOAT_1(asinh)
TUNER_FLOAT_1(atan)
TUNER_FLOAT_1(atanh)
TUNER_FLOAT_1(cbrt)
TUNER_FLOAT_1(ceil)
TUNER_FLOAT_1(cos)
TUNER_FLOAT_1(cosh)
TUNER_FLOAT_1(cospi)
TUNER_FLOAT_1(erf)
TUNER_FLOAT_1(erfc)
TUNER_FLOAT_1(erfinv)
TUNER_FLOAT_1(exp)
TUNER_FLOAT_1(exp10)
TUNER_FLOAT_1(exp2)
TUNER_FLOAT_1(expm1)
TUNER_FLOAT_1(fabs)
TUNER_FLOAT_1(floor)
TUNER_FLOAT_1(lgamma)
TUNER_FLOAT_1(log)
TUNER_FLOAT_1(log10)
TUNER_FLOAT_1(log1p)
TUNER_FLOAT_1(log2)
TUNER_FLOAT_1(logb)
TUNER_FLOAT_1(nearbyint)
TUNER_FLOAT_1(normcdf)
TUNER_FLOAT_1(rcbrt)
TUNER_FLOAT_1(rint)
TUNER_FLOAT_1(round)
TUNER_FLOAT_1(rsqrt)
TUNER_FLOAT_1(sin)
TUNER_FLOAT_1(sinh)
TUNER_FLOAT_1(sinpi)
TUNER_FLOAT_1(sqrt)
TUNER_FLOAT_1(tan)
TUNER_FLOAT_1(tanh)
TUNER_FLOAT_1(tgamma)
TUNER_FLOAT_1(trunc)
TUNER_FLOAT_2(atan2)
TUNER_FLOAT_2(copysign)
TUNER_FLOAT_2(fdim)
TUNER_FLOAT_2(fmax)
TUNER_FLOAT_2(fmin)
TUNER_FLOAT_2(fmod)
TUNER_FLOAT_2(hypot)
TUNER_FLOAT_2(pow)
TUNER_FLOAT_2(remainder)
#undef TUNER_FLOAT_1
#undef TUNER_FLOAT_2
TUNER_INLINE float pow(float x, int y) { return powif(x, y); }
TUNER_INLINE double pow(double x, int y) { return powi(x, y); }
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
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
