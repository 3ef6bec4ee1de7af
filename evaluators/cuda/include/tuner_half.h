/* Half precision: the types, conversions, arithmetic, comparisons and functions of one half and of two.

   For every compiler that has _Float16; whoever includes this defines before
     TUNER_INLINE               how functions are declared
     TUNER_BOTH_SIDES           the same of constructors
     TUNER_HALF_FMA(x, y, z)    a fused multiplication and addition that rounds once
     TUNER_HALF_MAX, _MIN       the larger and the smaller one, a number beside what is none
     TUNER_HALF_PACKED          where these also take a vector of two, and a pair is to be computed at once
   and has CUDA's functions of float. Results of functions are rounded once from float.
   Source: CUDA Math API, half precision intrinsics. */
#pragma once
#define __CUDA_FP16_H__

typedef _Float16 __half;
typedef __half half, __nv_half, nv_half;
/* A half by its bits. */
struct __half_raw {
    unsigned short x;
    __half_raw() = default;
    constexpr TUNER_BOTH_SIDES __half_raw(__half value) : x(__builtin_bit_cast(unsigned short, value)) {}
    constexpr TUNER_BOTH_SIDES operator __half() const { return __builtin_bit_cast(__half, x); }
};
struct __align__(4) __half2 {
    __half x, y;
    __half2() = default;
    constexpr TUNER_BOTH_SIDES __half2(__half x, __half y) : x(x), y(y) {}
};
typedef __half2 half2, __nv_half2, nv_half2;

#ifdef TUNER_HALF_PACKED
typedef __half tuner_pair __attribute__((ext_vector_type(2)));
#define TUNER_PAIR(expression, scalar)                                                                            \
    tuner_pair x = __builtin_bit_cast(tuner_pair, a), y = __builtin_bit_cast(tuner_pair, b);                      \
    return __builtin_bit_cast(__half2, (tuner_pair)(expression));
#else
#define TUNER_PAIR(expression, scalar) return {scalar(a.x, b.x), scalar(a.y, b.y)};
#endif

/* A rounding that is asked for by name: the nearest half, or its neighbour where that lies on the wrong side. Whole
   numbers over 2^24, which a float rounds, are beyond the largest half in any case. */
TUNER_INLINE __half tuner_half_beside(__half x, int by) {
    return __builtin_bit_cast(__half, (unsigned short)(__builtin_bit_cast(unsigned short, x) + by));
}
TUNER_INLINE __half tuner_half_rn(float x) { return (__half)x; }
TUNER_INLINE __half tuner_half_rz(float x) {
    __half near = (__half)x;
    return __builtin_fabsf((float)near) > __builtin_fabsf(x) ? tuner_half_beside(near, -1) : near;
}
TUNER_INLINE __half tuner_half_ru(float x) {
    __half near = (__half)x;
    return (float)near < x ? tuner_half_beside(near, x > 0.0f ? 1 : -1) : near;
}
TUNER_INLINE __half tuner_half_rd(float x) {
    __half near = (__half)x;
    return (float)near > x ? tuner_half_beside(near, x > 0.0f ? -1 : 1) : near;
}

#define TUNER_HALF_ROUNDED(r)                                                                                     \
    TUNER_INLINE int __half2int_##r(__half x) { return __float2int_##r((float)x); }                               \
    TUNER_INLINE unsigned __half2uint_##r(__half x) { return __float2uint_##r((float)x); }                        \
    TUNER_INLINE short __half2short_##r(__half x) {                                                               \
        int whole = __float2int_##r((float)x);                                                                    \
        return (short)(whole > 32767 ? 32767 : whole < -32768 ? -32768 : whole);                                  \
    }                                                                                                             \
    TUNER_INLINE unsigned short __half2ushort_##r(__half x) {                                                     \
        unsigned whole = __float2uint_##r((float)x);                                                              \
        return (unsigned short)(whole > 65535u ? 65535u : whole);                                                 \
    }                                                                                                             \
    TUNER_INLINE long long __half2ll_##r(__half x) { return __float2ll_##r((float)x); }                           \
    TUNER_INLINE unsigned long long __half2ull_##r(__half x) { return __float2ull_##r((float)x); }                \
    TUNER_INLINE __half __float2half_##r(float x) { return tuner_half_##r(x); }                                   \
    TUNER_INLINE __half __int2half_##r(int x) { return tuner_half_##r((float)x); }                                \
    TUNER_INLINE __half __uint2half_##r(unsigned x) { return tuner_half_##r((float)x); }                          \
    TUNER_INLINE __half __short2half_##r(short x) { return tuner_half_##r((float)x); }                            \
    TUNER_INLINE __half __ushort2half_##r(unsigned short x) { return tuner_half_##r((float)x); }                  \
    TUNER_INLINE __half __ll2half_##r(long long x) { return tuner_half_##r((float)x); }                           \
    TUNER_INLINE __half __ull2half_##r(unsigned long long x) { return tuner_half_##r((float)x); }
TUNER_HALF_ROUNDED(rn)
TUNER_HALF_ROUNDED(rz)
TUNER_HALF_ROUNDED(ru)
TUNER_HALF_ROUNDED(rd)
#undef TUNER_HALF_ROUNDED
TUNER_INLINE __half __float2half(float x) { return (__half)x; }
TUNER_INLINE __half __double2half(double x) { return (__half)x; }
TUNER_INLINE float __half2float(__half x) { return (float)x; }
TUNER_INLINE signed char __half2char_rz(__half x) {
    short whole = __half2short_rz(x);
    return (signed char)(whole > 127 ? 127 : whole < -128 ? -128 : whole);
}
TUNER_INLINE unsigned char __half2uchar_rz(__half x) {
    unsigned short whole = __half2ushort_rz(x);
    return (unsigned char)(whole > 255 ? 255 : whole);
}
TUNER_INLINE short __half_as_short(__half x) { return __builtin_bit_cast(short, x); }
TUNER_INLINE unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x); }
TUNER_INLINE __half __short_as_half(short x) { return __builtin_bit_cast(__half, x); }
TUNER_INLINE __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }

TUNER_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
TUNER_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
TUNER_INLINE __half2 __half2half2(__half x) { return {x, x}; }
TUNER_INLINE __half2 __float2half2_rn(float x) { return {(__half)x, (__half)x}; }
TUNER_INLINE __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
TUNER_INLINE __half2 __float22half2_rn(float2 v) { return {(__half)v.x, (__half)v.y}; }
TUNER_INLINE float2 __half22float2(__half2 v) { return {(float)v.x, (float)v.y}; }
TUNER_INLINE float __low2float(__half2 v) { return (float)v.x; }
TUNER_INLINE float __high2float(__half2 v) { return (float)v.y; }
TUNER_INLINE __half __low2half(__half2 v) { return v.x; }
TUNER_INLINE __half __high2half(__half2 v) { return v.y; }
TUNER_INLINE __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
TUNER_INLINE __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
TUNER_INLINE __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
TUNER_INLINE __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
TUNER_INLINE __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }

TUNER_INLINE __half __hfma(__half x, __half y, __half z) { return TUNER_HALF_FMA(x, y, z); }
#ifdef TUNER_HALF_PACKED
TUNER_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    tuner_pair x = __builtin_bit_cast(tuner_pair, a), y = __builtin_bit_cast(tuner_pair, b);
    return __builtin_bit_cast(__half2, TUNER_HALF_FMA(x, y, __builtin_bit_cast(tuner_pair, c)));
}
#else
TUNER_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
#endif
TUNER_INLINE __half __hfma_relu(__half x, __half y, __half z) {
    __half made = __hfma(x, y, z);
    return made <= (__half)0 ? (__half)0 : made;
}
TUNER_INLINE __half2 __hfma2_relu(__half2 a, __half2 b, __half2 c) {
    return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};
}
#define TUNER_HALF2(name, expression)                                                                             \
    TUNER_INLINE __half name(__half x, __half y) { return (__half)(expression); }                                 \
    TUNER_INLINE __half2 name##2(__half2 a, __half2 b) { TUNER_PAIR(expression, name) }
TUNER_HALF2(__hadd, x + y)
TUNER_HALF2(__hsub, x - y)
TUNER_HALF2(__hmul, x * y)
TUNER_HALF2(__hmax, TUNER_HALF_MAX(x, y))
TUNER_HALF2(__hmin, TUNER_HALF_MIN(x, y))
#define TUNER_SATURATED(x) __saturatef((float)(x))
TUNER_INLINE __half __hadd_sat(__half x, __half y) { return (__half)TUNER_SATURATED(x + y); }
TUNER_INLINE __half __hmul_sat(__half x, __half y) { return (__half)TUNER_SATURATED(x * y); }
TUNER_INLINE __half __hsub_sat(__half x, __half y) { return (__half)TUNER_SATURATED(x - y); }
TUNER_INLINE __half __hmax_nan(__half x, __half y) { return x != x || y != y ? x + y : __hmax(x, y); }
TUNER_INLINE __half __hmin_nan(__half x, __half y) { return x != x || y != y ? x + y : __hmin(x, y); }
/* Never one operation with another: that is what they are for. */
#define TUNER_HALF_ALONE(name, op)                                                                                \
    TUNER_INLINE __half name(__half x, __half y) {                                                                \
        _Pragma("clang fp contract(off)") return x op y;                                                          \
    }
/* By their own names: of a pair the 2 stands before the suffix. */
#define TUNER_HALF2_SUFFIXED(stem, suffix, operation)                                                             \
    TUNER_INLINE __half2 stem##2_##suffix(__half2 a, __half2 b) { return {operation(a.x, b.x), operation(a.y, b.y)}; }
TUNER_HALF_ALONE(__hadd_rn, +)
TUNER_HALF_ALONE(__hsub_rn, -)
TUNER_HALF_ALONE(__hmul_rn, *)
TUNER_HALF2_SUFFIXED(__hadd, rn, __hadd_rn)
TUNER_HALF2_SUFFIXED(__hsub, rn, __hsub_rn)
TUNER_HALF2_SUFFIXED(__hmul, rn, __hmul_rn)
TUNER_HALF2_SUFFIXED(__hadd, sat, __hadd_sat)
TUNER_HALF2_SUFFIXED(__hsub, sat, __hsub_sat)
TUNER_HALF2_SUFFIXED(__hmul, sat, __hmul_sat)
TUNER_HALF2_SUFFIXED(__hmax, nan, __hmax_nan)
TUNER_HALF2_SUFFIXED(__hmin, nan, __hmin_nan)
#undef TUNER_HALF2_SUFFIXED
#undef TUNER_HALF_ALONE
TUNER_INLINE __half __hfma_sat(__half x, __half y, __half z) { return (__half)TUNER_SATURATED(__hfma(x, y, z)); }
TUNER_INLINE __half2 __hfma2_sat(__half2 a, __half2 b, __half2 c) {
    return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};
}
TUNER_INLINE __half __hdiv(__half x, __half y) { return x / y; }
TUNER_INLINE __half2 __h2div(__half2 a, __half2 b) { return {a.x / b.x, a.y / b.y}; }
TUNER_INLINE __half __hneg(__half x) { return -x; }
TUNER_INLINE __half __habs(__half x) { return (__half)__builtin_fabsf((float)x); }
TUNER_INLINE __half2 __hneg2(__half2 v) { return {-v.x, -v.y}; }
TUNER_INLINE __half2 __habs2(__half2 v) { return {__habs(v.x), __habs(v.y)}; }
TUNER_INLINE bool __hisnan(__half x) { return x != x; }
TUNER_INLINE __half2 __hisnan2(__half2 v) { return {(__half)(v.x != v.x), (__half)(v.y != v.y)}; }
TUNER_INLINE int __hisinf(__half x) { return __builtin_isinf((float)x) ? (x > (__half)0 ? 1 : -1) : 0; }

/* Nothing is equal, unequal or ordered beside what is no number; with `u` everything is. */
#define TUNER_HALF_COMPARED(name, expression)                                                                     \
    TUNER_INLINE bool __h##name(__half x, __half y) { return expression; }                                        \
    TUNER_INLINE bool __hb##name##2(__half2 a, __half2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }  \
    TUNER_INLINE __half2 __h##name##2(__half2 a, __half2 b) {                                                     \
        return {(__half)__h##name(a.x, b.x), (__half)__h##name(a.y, b.y)};                                        \
    }                                                                                                             \
    TUNER_INLINE unsigned __h##name##2_mask(__half2 a, __half2 b) {                                               \
        return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);                   \
    }
TUNER_HALF_COMPARED(eq, x == y)
TUNER_HALF_COMPARED(ne, x < y || x > y)
TUNER_HALF_COMPARED(lt, x < y)
TUNER_HALF_COMPARED(le, x <= y)
TUNER_HALF_COMPARED(gt, x > y)
TUNER_HALF_COMPARED(ge, x >= y)
TUNER_HALF_COMPARED(equ, !(x < y || x > y))
TUNER_HALF_COMPARED(neu, x != y)
TUNER_HALF_COMPARED(ltu, !(x >= y))
TUNER_HALF_COMPARED(leu, !(x > y))
TUNER_HALF_COMPARED(gtu, !(x <= y))
TUNER_HALF_COMPARED(geu, !(x < y))
#undef TUNER_HALF_COMPARED

#define TUNER_HALF_FUNCTION(name, of)                                                                             \
    TUNER_INLINE __half h##name(__half x) { return (__half)of((float)x); }                                        \
    TUNER_INLINE __half2 h2##name(__half2 v) { return {h##name(v.x), h##name(v.y)}; }
TUNER_HALF_FUNCTION(sqrt, sqrtf)
TUNER_HALF_FUNCTION(rsqrt, rsqrtf)
TUNER_HALF_FUNCTION(rcp, 1.0f /)
TUNER_HALF_FUNCTION(exp, expf)
TUNER_HALF_FUNCTION(exp2, exp2f)
TUNER_HALF_FUNCTION(exp10, exp10f)
TUNER_HALF_FUNCTION(log, logf)
TUNER_HALF_FUNCTION(log2, log2f)
TUNER_HALF_FUNCTION(log10, log10f)
TUNER_HALF_FUNCTION(sin, sinf)
TUNER_HALF_FUNCTION(cos, cosf)
TUNER_HALF_FUNCTION(tanh, tanhf)
TUNER_HALF_FUNCTION(floor, floorf)
TUNER_HALF_FUNCTION(ceil, ceilf)
TUNER_HALF_FUNCTION(trunc, truncf)
TUNER_HALF_FUNCTION(rint, rintf)

#define TUNER_HALF_OPERATOR(op, function)                                                                         \
    TUNER_INLINE __half2 operator op(const __half2 &a, const __half2 &b) { return function(a, b); }               \
    TUNER_INLINE __half2 &operator op##=(__half2 &a, const __half2 &b) { return a = function(a, b); }
TUNER_HALF_OPERATOR(+, __hadd2)
TUNER_HALF_OPERATOR(-, __hsub2)
TUNER_HALF_OPERATOR(*, __hmul2)
TUNER_HALF_OPERATOR(/, __h2div)
#undef TUNER_HALF_OPERATOR
TUNER_INLINE __half2 &operator++(__half2 &v) { return v += __half2half2(1); }
TUNER_INLINE __half2 &operator--(__half2 &v) { return v -= __half2half2(1); }
TUNER_INLINE __half2 operator++(__half2 &v, int) {
    __half2 before = v;
    ++v;
    return before;
}
TUNER_INLINE __half2 operator--(__half2 &v, int) {
    __half2 before = v;
    --v;
    return before;
}
TUNER_INLINE __half2 operator+(const __half2 &v) { return v; }
TUNER_INLINE bool operator<(const __half2 &a, const __half2 &b) { return __hblt2(a, b); }
TUNER_INLINE bool operator<=(const __half2 &a, const __half2 &b) { return __hble2(a, b); }
TUNER_INLINE bool operator>(const __half2 &a, const __half2 &b) { return __hbgt2(a, b); }
TUNER_INLINE bool operator>=(const __half2 &a, const __half2 &b) { return __hbge2(a, b); }
TUNER_INLINE __half2 operator-(const __half2 &v) { return {-v.x, -v.y}; }
TUNER_INLINE bool operator==(const __half2 &a, const __half2 &b) { return a.x == b.x && a.y == b.y; }
TUNER_INLINE bool operator!=(const __half2 &a, const __half2 &b) { return __hbneu2(a, b); }
