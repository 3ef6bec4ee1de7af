/* The rest of CUDA's mathematics: special functions, roundings, conversions and integer intrinsics.

   A rounding that is asked for by name is kept where it decides a whole number; sums and products round to nearest.
   Source: CUDA Math API. */
#pragma once

#define EMU_ROUND_TO(name, T)                                                                                     \
    EMU_INLINE T name##f(float x) { return __builtin_##name##f(x); }                                              \
    EMU_INLINE T name(float x) { return __builtin_##name##f(x); }                                                 \
    EMU_INLINE T name(double x) { return __builtin_##name(x); }
EMU_ROUND_TO(lround, long)
EMU_ROUND_TO(llround, long long)
EMU_ROUND_TO(lrint, long)
EMU_ROUND_TO(llrint, long long)
EMU_ROUND_TO(ilogb, int)

EMU_INLINE double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
EMU_INLINE float frexp(float x, int *n) { return __builtin_frexpf(x, n); }
EMU_INLINE double frexp(double x, int *n) { return __builtin_frexp(x, n); }
EMU_INLINE float scalbnf(float x, int n) { return __builtin_ldexpf(x, n); }
EMU_INLINE float scalbn(float x, int n) { return __builtin_ldexpf(x, n); }
EMU_INLINE double scalbn(double x, int n) { return __builtin_ldexp(x, n); }
EMU_INLINE int emu_exponent(long n) { return n > 9999 ? 9999 : n < -9999 ? -9999 : (int)n; }
EMU_INLINE float scalblnf(float x, long n) { return __builtin_ldexpf(x, emu_exponent(n)); }
EMU_INLINE double scalbln(double x, long n) { return __builtin_ldexp(x, emu_exponent(n)); }
EMU_INLINE double modf(double x, double *whole) {
    *whole = __builtin_trunc(x);
    return __builtin_copysign(__builtin_isinf(x) ? 0.0 : x - *whole, x);
}
EMU_INLINE float modff(float x, float *whole) {
    *whole = __builtin_truncf(x);
    return __builtin_copysignf(__builtin_isinf(x) ? 0.0f : x - *whole, x);
}
EMU_INLINE float modf(float x, float *whole) { return modff(x, whole); }
EMU_INLINE double remquo(double x, double y, int *quotient) {
    double rest = __builtin_remainder(x, y);
    *quotient = (int)__builtin_fmod(__builtin_rint((x - rest) / y), 8.0);
    return rest;
}
EMU_INLINE float remquof(float x, float y, int *quotient) { return (float)remquo((double)x, (double)y, quotient); }

/* In double, so that the float forms are right to the last place; the double forms to a few. */
EMU_INLINE double emu_erfinv(double p, double q) {
    /* Of p, where q = 1 - p is known better: Giles' approximation, then Newton's steps on the smaller tail. */
    if (p <= -1 || p >= 1) return p == 1 || q == 0 ? __builtin_inf() : p == -1 || q == 2 ? -__builtin_inf() : __builtin_nan("");
    double w = -__builtin_log(q * (2 - q)), x;
    if (w < 5) {
        w -= 2.5;
        x = 2.81022636e-08, x = 3.43273939e-07 + x * w, x = -3.5233877e-06 + x * w, x = -4.39150654e-06 + x * w;
        x = 0.00021858087 + x * w, x = -0.00125372503 + x * w, x = -0.00417768164 + x * w;
        x = 0.246640727 + x * w, x = 1.50140941 + x * w;
    } else {
        w = __builtin_sqrt(w) - 3;
        x = -0.000200214257, x = 0.000100950558 + x * w, x = 0.00134934322 + x * w, x = -0.00367342844 + x * w;
        x = 0.00573950773 + x * w, x = -0.0076224613 + x * w, x = 0.00943887047 + x * w;
        x = 1.00167406 + x * w, x = 2.83297682 + x * w;
    }
    x *= p;
    for (int step = 0; step < 4; step++) {
        double away = p > 0.5 ? q - __builtin_erfc(x) : p < -0.5 ? __builtin_erfc(-x) - (2 - q) : __builtin_erf(x) - p;
        x -= away * 0.88622692545275801 * __builtin_exp(x * x);
    }
    return x;
}
EMU_INLINE double erfinv(double x) { return emu_erfinv(x, 1 - x); }
EMU_INLINE double erfcinv(double x) { return emu_erfinv(1 - x, x); }
EMU_INLINE double normcdf(double x) { return 0.5 * __builtin_erfc(x * -0.70710678118654752440); }
EMU_INLINE double normcdfinv(double x) { return -1.41421356237309504880 * erfcinv(2 * x); }
EMU_INLINE double erfcx(double x) {
    if (x < 25) return __builtin_exp(x * x) * __builtin_erfc(x);
    double s = 1 / (2 * x * x);
    return 0.56418958354775629 / x * (1 - s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s))));
}
EMU_INLINE double rcbrt(double x) { return 1.0 / __builtin_cbrt(x); }
EMU_INLINE double emu_turns(double x) { return 3.14159265358979323846 * __builtin_remainder(x, 2.0); }
EMU_INLINE double sinpi(double x) { return x == __builtin_rint(x) ? __builtin_copysign(0.0, x) : __builtin_sin(emu_turns(x)); }
EMU_INLINE double cospi(double x) {
    return x + 0.5 == __builtin_rint(x + 0.5) && __builtin_fabs(x) < 0x1p51 ? 0.0 : __builtin_cos(emu_turns(x));
}
EMU_INLINE double tanpi(double x) { return sinpi(x) / cospi(x); }
#define EMU_FLOAT_OF(name)                                                                                        \
    EMU_INLINE float name##f(float x) { return (float)name((double)x); }                                          \
    EMU_INLINE float name(float x) { return (float)name((double)x); }
EMU_FLOAT_OF(erfinv)
EMU_FLOAT_OF(erfcinv)
EMU_FLOAT_OF(normcdfinv)
EMU_FLOAT_OF(erfcx)
EMU_FLOAT_OF(sinpi)
EMU_FLOAT_OF(cospi)
EMU_FLOAT_OF(tanpi)
EMU_INLINE float normcdf(float x) { return normcdff(x); }
EMU_INLINE float rcbrt(float x) { return rcbrtf(x); }
EMU_INLINE void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
EMU_INLINE void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }

EMU_INLINE double norm(int count, const double *v) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += v[i] * v[i];
    return __builtin_sqrt(sum);
}
EMU_INLINE float normf(int count, const float *v) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += (double)v[i] * v[i];
    return (float)__builtin_sqrt(sum);
}
EMU_INLINE double rnorm(int count, const double *v) { return 1 / norm(count, v); }
EMU_INLINE float rnormf(int count, const float *v) { return 1 / normf(count, v); }
EMU_INLINE double norm3d(double x, double y, double z) { return __builtin_sqrt(x * x + y * y + z * z); }
EMU_INLINE double norm4d(double x, double y, double z, double w) { return __builtin_sqrt(x * x + y * y + z * z + w * w); }
EMU_INLINE float norm4df(float x, float y, float z, float w) { return (float)norm4d(x, y, z, w); }
EMU_INLINE double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
EMU_INLINE double rnorm4d(double x, double y, double z, double w) { return 1 / norm4d(x, y, z, w); }
EMU_INLINE float rnorm3df(float x, float y, float z) { return (float)rnorm3d(x, y, z); }
EMU_INLINE float rnorm4df(float x, float y, float z, float w) { return (float)rnorm4d(x, y, z, w); }
EMU_INLINE double rhypot(double x, double y) { return 1 / __builtin_hypot(x, y); }
EMU_INLINE float rhypotf(float x, float y) { return 1 / __builtin_hypotf(x, y); }
EMU_INLINE float fdividef(float x, float y) { return x / y; }
EMU_FAST(tanhf)

#define EMU_ARITHMETIC(r)                                                                                         \
    EMU_INLINE double __dsub_##r(double x, double y) { return x - y; }                                            \
    EMU_INLINE double __ddiv_##r(double x, double y) { return x / y; }                                            \
    EMU_INLINE double __drcp_##r(double x) { return 1 / x; }                                                      \
    EMU_INLINE double __dsqrt_##r(double x) { return __builtin_sqrt(x); }                                         \
    EMU_INLINE double __fma_##r(double x, double y, double z) { return __builtin_fma(x, y, z); }                        \
    EMU_INLINE double __dadd_##r(double x, double y) { return x + y; }                                            \
    EMU_INLINE double __dmul_##r(double x, double y) { return x * y; }                                            \
    EMU_INLINE float __fadd_##r(float x, float y) { return x + y; }                                               \
    EMU_INLINE float __fsub_##r(float x, float y) { return x - y; }                                               \
    EMU_INLINE float __fmul_##r(float x, float y) { return x * y; }                                               \
    EMU_INLINE float __fdiv_##r(float x, float y) { return x / y; }                                               \
    EMU_INLINE float __frcp_##r(float x) { return 1 / x; }                                                        \
    EMU_INLINE float __fsqrt_##r(float x) { return __builtin_sqrtf(x); }                                          \
    EMU_INLINE float __fmaf_##r(float x, float y, float z) { return __builtin_fmaf(x, y, z); }                    \
    EMU_INLINE float __double2float_##r(double x) { return (float)x; }                                            \
    EMU_INLINE float __int2float_##r(int x) { return (float)x; }                                                  \
    EMU_INLINE float __uint2float_##r(unsigned x) { return (float)x; }
EMU_ARITHMETIC(rn)
EMU_ARITHMETIC(rz)
EMU_ARITHMETIC(ru)
EMU_ARITHMETIC(rd)

/* As the device does it: what does not fit becomes the nearest that does. NaN becomes zero on the way from a float to 32
   bits, else the number of which only the highest bit is set (PTX ISA, cvt). */
template <class T> EMU_INLINE T emu_fit(double x, T none = (T)(1ull << (sizeof(T) * 8 - 1))) {
    const T least = (T)-1 < 0 ? (T)(1ull << (sizeof(T) * 8 - 1)) : 0, most = (T)~(unsigned long long)least;
    if (!(x == x)) return none;
    return x <= (double)least ? least : x >= (double)most ? most : (T)x;
}
#define EMU_TO_WHOLE(r, rounded)                                                                                  \
    EMU_INLINE unsigned __double2uint_##r(double x) { return emu_fit<unsigned>(rounded(x)); }                     \
    EMU_INLINE int __double2int_##r(double x) { return emu_fit<int>(rounded(x)); }                                \
    EMU_INLINE long long __double2ll_##r(double x) { return emu_fit<long long>(rounded(x)); }                     \
    EMU_INLINE unsigned long long __double2ull_##r(double x) { return emu_fit<unsigned long long>(rounded(x)); }  \
    EMU_INLINE unsigned __float2uint_##r(float x) { return emu_fit<unsigned>(rounded((double)x), 0); }               \
    EMU_INLINE int __float2int_##r(float x) { return emu_fit<int>(rounded((double)x), 0); }                          \
    EMU_INLINE long long __float2ll_##r(float x) { return emu_fit<long long>(rounded((double)x)); }               \
    EMU_INLINE unsigned long long __float2ull_##r(float x) { return emu_fit<unsigned long long>(rounded((double)x)); } \
    EMU_INLINE float __ll2float_##r(long long x) { return (float)x; }                                             \
    EMU_INLINE float __ull2float_##r(unsigned long long x) { return (float)x; }                                   \
    EMU_INLINE double __ll2double_##r(long long x) { return (double)x; }                                          \
    EMU_INLINE double __ull2double_##r(unsigned long long x) { return (double)x; }
EMU_TO_WHOLE(rn, __builtin_rint)
EMU_TO_WHOLE(rz, __builtin_trunc)
EMU_TO_WHOLE(ru, __builtin_ceil)
EMU_TO_WHOLE(rd, __builtin_floor)
EMU_INLINE double __int2double_rn(int x) { return (double)x; }
EMU_INLINE double __uint2double_rn(unsigned x) { return (double)x; }
EMU_INLINE int __double2hiint(double x) { return (int)(emu_bits<unsigned long long>(x) >> 32); }
EMU_INLINE int __double2loint(double x) { return (int)(unsigned)emu_bits<unsigned long long>(x); }
EMU_INLINE double __hiloint2double(int high, int low) {
    return emu_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

EMU_INLINE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
EMU_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned made = 0;
    for (int i = 0; i < 4; i++) made |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return made;
}
EMU_INLINE unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned by) {
    return (unsigned)((((unsigned long long)hi << 32 | lo) << (by < 32 ? by : 32)) >> 32);
}
EMU_INLINE unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned by) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (by < 32 ? by : 32));
}
EMU_INLINE int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
EMU_INLINE int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
EMU_INLINE unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
EMU_INLINE unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
EMU_INLINE long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
EMU_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
EMU_INLINE unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
EMU_INLINE int __dp4a(int x, int y, int sum) {
    for (int i = 0; i < 4; i++)
        sum = (int)((unsigned)sum + (unsigned)((signed char)((unsigned)x >> 8 * i) * (signed char)((unsigned)y >> 8 * i)));
    return sum;
}
EMU_INLINE unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 4; i++) sum += (x >> 8 * i & 255) * (y >> 8 * i & 255);
    return sum;
}
EMU_INLINE int __dp4a(char4 x, char4 y, int sum) { return __dp4a(emu_bits<int>(x), emu_bits<int>(y), sum); }
EMU_INLINE unsigned __dp4a(uchar4 x, uchar4 y, unsigned sum) {
    return __dp4a(emu_bits<unsigned>(x), emu_bits<unsigned>(y), sum);
}
#define EMU_DP2A(name, first)                                                                                     \
    EMU_INLINE int name(int x, int y, int sum) {                                                                  \
        for (int i = 0; i < 2; i++)                                                                               \
            sum = (int)((unsigned)sum + (unsigned)((short)((unsigned)x >> 16 * i) * (signed char)((unsigned)y >> 8 * (first + i)))); \
        return sum;                                                                                               \
    }                                                                                                             \
    EMU_INLINE unsigned name(unsigned x, unsigned y, unsigned sum) {                                              \
        for (int i = 0; i < 2; i++) sum += (x >> 16 * i & 0xffff) * (y >> 8 * (first + i) & 255);                 \
        return sum;                                                                                               \
    }                                                                                                             \
    EMU_INLINE int name(short2 x, char4 y, int sum) { return name(emu_bits<int>(x), emu_bits<int>(y), sum); }     \
    EMU_INLINE unsigned name(ushort2 x, uchar4 y, unsigned sum) {                                                 \
        return name(emu_bits<unsigned>(x), emu_bits<unsigned>(y), sum);                                           \
    }
EMU_DP2A(__dp2a_lo, 0)
EMU_DP2A(__dp2a_hi, 2)
EMU_INLINE double nan(const char *) { return __builtin_nan(""); }
EMU_INLINE float nanf(const char *) { return __builtin_nanf(""); }
EMU_INLINE unsigned umin(unsigned x, unsigned y) { return min(x, y); }
EMU_INLINE unsigned umax(unsigned x, unsigned y) { return max(x, y); }
EMU_INLINE long long llmin(long long x, long long y) { return min(x, y); }
EMU_INLINE long long llmax(long long x, long long y) { return max(x, y); }
EMU_INLINE unsigned long long ullmin(unsigned long long x, unsigned long long y) { return min(x, y); }
EMU_INLINE unsigned long long ullmax(unsigned long long x, unsigned long long y) { return max(x, y); }
EMU_INLINE long labs(long x) { return x < 0 ? -x : x; }

template <class T> static __device__ __forceinline__ T __ldlu(const T *at) { return *at; }
template <class T> static __device__ __forceinline__ T __ldcv(const T *at) { return *at; }
template <class T> static __device__ __forceinline__ void __stwb(T *at, T value) { *at = value; }
template <class T> static __device__ __forceinline__ void __stwt(T *at, T value) { *at = value; }
EMU_INLINE void *memcpy(void *to, const void *from, size_t size) { return __builtin_memcpy(to, from, size); }
EMU_INLINE void *memset(void *to, int value, size_t size) { return __builtin_memset(to, value, size); }
#define __assume(condition) __builtin_assume(condition)
EMU_INLINE void __brkpt() {}
EMU_INLINE void __prof_trigger(int) {}
