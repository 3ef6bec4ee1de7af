/* Mathematical functions, conversions and bit operations of CUDA by the compiler's builtins.

   The fast variants (__expf and so on) are the accurate ones here: emulation checks results, not rounding. */
#pragma once
#include "../../cuda/include/tuner_functions.h"

#define EMU_MATH1(name)                                                                                           \
    EMU_INLINE float name##f(float x) { return __builtin_##name##f(x); }                                          \
    EMU_INLINE double name(double x) { return __builtin_##name(x); }
#define EMU_MATH2(name)                                                                                           \
    EMU_INLINE float name##f(float x, float y) { return __builtin_##name##f(x, y); }                              \
    EMU_INLINE double name(double x, double y) { return __builtin_##name(x, y); }
TUNER_OF_ONE(EMU_MATH1)
TUNER_OF_TWO(EMU_MATH2)
EMU_MATH2(nextafter)
EMU_INLINE float nextafter(float x, float y) { return __builtin_nextafterf(x, y); }

#define EMU_FROM_INTEGER(name)                                                                                    \
    EMU_INLINE double name(int x) { return name((double)x); }
EMU_FROM_INTEGER(sqrt)
EMU_FROM_INTEGER(exp)
EMU_FROM_INTEGER(log)
EMU_FROM_INTEGER(log2)
EMU_FROM_INTEGER(ceil)
EMU_FROM_INTEGER(floor)
EMU_INLINE float powf(float x, int y) { return __builtin_powf(x, (float)y); }
EMU_INLINE double pow(double x, int y) { return __builtin_pow(x, (double)y); }
EMU_INLINE float pow(float x, int y) { return __builtin_powf(x, (float)y); }

EMU_INLINE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
EMU_INLINE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
EMU_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
EMU_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
EMU_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
EMU_INLINE float rcbrtf(float x) { return 1.0f / __builtin_cbrtf(x); }
EMU_INLINE void sincosf(float x, float *s, float *c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }
EMU_INLINE void sincos(double x, double *s, double *c) { *s = __builtin_sin(x), *c = __builtin_cos(x); }
EMU_INLINE float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
EMU_INLINE float frexpf(float x, int *n) { return __builtin_frexpf(x, n); }
EMU_INLINE float normcdff(float x) { return 0.5f * __builtin_erfcf(x * -0.70710678118654752f); }
EMU_INLINE float norm3df(float x, float y, float z) { return __builtin_sqrtf(x * x + y * y + z * z); }
EMU_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

#define EMU_FAST(name)                                                                                            \
    EMU_INLINE float __##name(float x) { return __builtin_##name(x); }
EMU_FAST(expf)
EMU_FAST(exp10f)
EMU_FAST(logf)
EMU_FAST(log2f)
EMU_FAST(log10f)
EMU_FAST(sinf)
EMU_FAST(cosf)
EMU_FAST(tanf)
EMU_INLINE float __powf(float x, float y) { return __builtin_powf(x, y); }
EMU_INLINE void __sincosf(float x, float *s, float *c) { sincosf(x, s, c); }
EMU_INLINE float __fdividef(float x, float y) { return x / y; }
EMU_INLINE float __frsqrt_rn(float x) { return 1.0f / __builtin_sqrtf(x); }

EMU_INLINE int min(int x, int y) { return y < x ? y : x; }
EMU_INLINE int max(int x, int y) { return x < y ? y : x; }
EMU_INLINE int abs(int x) { return x < 0 ? -x : x; }
EMU_INLINE long long llabs(long long x) { return x < 0 ? -x : x; }
#define TUNER_INLINE EMU_INLINE
#include "../../cuda/include/tuner_device_math.h"

template <class To, class From> EMU_INLINE To emu_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}
EMU_INLINE int __float_as_int(float x) { return emu_bits<int>(x); }
EMU_INLINE unsigned __float_as_uint(float x) { return emu_bits<unsigned>(x); }
EMU_INLINE float __int_as_float(int x) { return emu_bits<float>(x); }
EMU_INLINE float __uint_as_float(unsigned x) { return emu_bits<float>(x); }
EMU_INLINE long long __double_as_longlong(double x) { return emu_bits<long long>(x); }
EMU_INLINE double __longlong_as_double(long long x) { return emu_bits<double>(x); }

EMU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EMU_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMU_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
EMU_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
EMU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EMU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
EMU_INLINE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
EMU_INLINE int __mul24(int x, int y) { return (int)((unsigned)(x << 8 >> 8) * (unsigned)(y << 8 >> 8)); }
EMU_INLINE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
EMU_INLINE int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
EMU_INLINE unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
EMU_INLINE unsigned __sad(int x, int y, unsigned z) { return z + (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x); }
EMU_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned by) {
    return (unsigned)((((unsigned long long)hi << 32 | lo) << (by & 31)) >> 32);
}
EMU_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (by & 31));
}

template <class T> static __device__ __forceinline__ T __ldg(const T *at) { return *at; }
template <class T> static __device__ __forceinline__ T __ldcg(const T *at) { return *at; }
template <class T> static __device__ __forceinline__ T __ldca(const T *at) { return *at; }
template <class T> static __device__ __forceinline__ T __ldcs(const T *at) { return *at; }
template <class T> static __device__ __forceinline__ void __stcs(T *at, T value) { *at = value; }
template <class T> static __device__ __forceinline__ void __stcg(T *at, T value) { *at = value; }
template <class... T> static __device__ __forceinline__ int printf(const char *, T...) { return 0; }
#define assert(condition) ((condition) ? (void)0 : emu_assert(__LINE__))
static __device__ __forceinline__ long long clock64() { return 0; }
typedef long clock_t;
static __device__ __forceinline__ clock_t clock() { return 0; }
