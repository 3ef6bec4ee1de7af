/* Half precision: the types, conversions, arithmetic, comparisons and functions of one half and of two.

   Results of functions are rounded once from float. Source: CUDA Math API, half precision intrinsics. */
#pragma once

typedef _Float16 __half;
typedef __half half;
struct __align__(4) __half2 {
    __half x, y;
    __half2() = default;
    constexpr EMU_BOTH __half2(__half x, __half y) : x(x), y(y) {}
};
typedef __half2 half2;

#define EMU_HALF_ROUNDED(r, rounded)                                                                              \
    EMU_INLINE int __half2int_##r(__half x) { return emu_fit<int>(rounded((double)x)); }                          \
    EMU_INLINE unsigned __half2uint_##r(__half x) { return emu_fit<unsigned>(rounded((double)x)); }               \
    EMU_INLINE short __half2short_##r(__half x) { return emu_fit<short>(rounded((double)x)); }                    \
    EMU_INLINE unsigned short __half2ushort_##r(__half x) { return emu_fit<unsigned short>(rounded((double)x)); } \
    EMU_INLINE long long __half2ll_##r(__half x) { return emu_fit<long long>(rounded((double)x)); }               \
    EMU_INLINE __half __float2half_##r(float x) { return (__half)x; }                                             \
    EMU_INLINE __half __int2half_##r(int x) { return (__half)x; }                                                 \
    EMU_INLINE __half __uint2half_##r(unsigned x) { return (__half)x; }                                           \
    EMU_INLINE __half __short2half_##r(short x) { return (__half)x; }                                             \
    EMU_INLINE __half __ushort2half_##r(unsigned short x) { return (__half)x; }                                   \
    EMU_INLINE __half __ll2half_##r(long long x) { return (__half)x; }
EMU_HALF_ROUNDED(rn, __builtin_rint)
EMU_HALF_ROUNDED(rz, __builtin_trunc)
EMU_HALF_ROUNDED(ru, __builtin_ceil)
EMU_HALF_ROUNDED(rd, __builtin_floor)
EMU_INLINE __half __float2half(float x) { return (__half)x; }
EMU_INLINE __half __double2half(double x) { return (__half)x; }
EMU_INLINE float __half2float(__half x) { return (float)x; }
EMU_INLINE short __half_as_short(__half x) { return emu_bits<short>(x); }
EMU_INLINE unsigned short __half_as_ushort(__half x) { return emu_bits<unsigned short>(x); }
EMU_INLINE __half __short_as_half(short x) { return emu_bits<__half>(x); }
EMU_INLINE __half __ushort_as_half(unsigned short x) { return emu_bits<__half>(x); }

EMU_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
EMU_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
EMU_INLINE __half2 __half2half2(__half x) { return {x, x}; }
EMU_INLINE __half2 __float2half2_rn(float x) { return {(__half)x, (__half)x}; }
EMU_INLINE __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
EMU_INLINE __half2 __float22half2_rn(float2 v) { return {(__half)v.x, (__half)v.y}; }
EMU_INLINE float2 __half22float2(__half2 v) { return {(float)v.x, (float)v.y}; }
EMU_INLINE float __low2float(__half2 v) { return (float)v.x; }
EMU_INLINE float __high2float(__half2 v) { return (float)v.y; }
EMU_INLINE __half __low2half(__half2 v) { return v.x; }
EMU_INLINE __half __high2half(__half2 v) { return v.y; }
EMU_INLINE __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
EMU_INLINE __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
EMU_INLINE __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
EMU_INLINE __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
EMU_INLINE __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }

EMU_INLINE __half __hfma(__half x, __half y, __half z) { return (__half)((double)x * (double)y + (double)z); }
EMU_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
EMU_INLINE __half __hfma_relu(__half x, __half y, __half z) {
    __half made = __hfma(x, y, z);
    return made < (__half)0 ? (__half)0 : made;
}
EMU_INLINE __half2 __hfma2_relu(__half2 a, __half2 b, __half2 c) {
    return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};
}
#define EMU_HALF2(name, expression)                                                                               \
    EMU_INLINE __half name(__half x, __half y) { return (__half)(expression); }                                   \
    EMU_INLINE __half2 name##2(__half2 a, __half2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
EMU_HALF2(__hadd, x + y)
EMU_HALF2(__hsub, x - y)
EMU_HALF2(__hmul, x *y)
EMU_HALF2(__hmax, __builtin_fmaxf((float)x, (float)y))
EMU_HALF2(__hmin, __builtin_fminf((float)x, (float)y))
#define EMU_SATURATED(x) __saturatef((float)(x))
EMU_HALF2(__hadd_sat, EMU_SATURATED(x + y))
EMU_HALF2(__hmul_sat, EMU_SATURATED(x *y))
EMU_HALF2(__hadd_rn, x + y)
EMU_HALF2(__hmul_rn, x *y)
EMU_INLINE __half __hdiv(__half x, __half y) { return x / y; }
EMU_INLINE __half2 __h2div(__half2 a, __half2 b) { return {a.x / b.x, a.y / b.y}; }
EMU_INLINE __half __hneg(__half x) { return -x; }
EMU_INLINE __half __habs(__half x) { return (__half)__builtin_fabsf((float)x); }
EMU_INLINE __half2 __hneg2(__half2 v) { return {-v.x, -v.y}; }
EMU_INLINE __half2 __habs2(__half2 v) { return {__habs(v.x), __habs(v.y)}; }
EMU_INLINE bool __hisnan(__half x) { return x != x; }
EMU_INLINE int __hisinf(__half x) { return __builtin_isinf((float)x) ? (x > (__half)0 ? 1 : -1) : 0; }

#define EMU_HALF_COMPARED(name, op)                                                                               \
    EMU_INLINE bool __h##name(__half x, __half y) { return x op y; }                                              \
    EMU_INLINE bool __hb##name##2(__half2 a, __half2 b) { return a.x op b.x && a.y op b.y; }                      \
    EMU_INLINE __half2 __h##name##2(__half2 a, __half2 b) { return {(__half)(a.x op b.x), (__half)(a.y op b.y)}; }
EMU_HALF_COMPARED(eq, ==)
EMU_HALF_COMPARED(ne, !=)
EMU_HALF_COMPARED(lt, <)
EMU_HALF_COMPARED(le, <=)
EMU_HALF_COMPARED(gt, >)
EMU_HALF_COMPARED(ge, >=)

#define EMU_HALF_FUNCTION(name, of)                                                                               \
    EMU_INLINE __half h##name(__half x) { return (__half)of((float)x); }                                          \
    EMU_INLINE __half2 h2##name(__half2 v) { return {h##name(v.x), h##name(v.y)}; }
EMU_HALF_FUNCTION(sqrt, sqrtf)
EMU_HALF_FUNCTION(rsqrt, rsqrtf)
EMU_HALF_FUNCTION(rcp, 1.0f /)
EMU_HALF_FUNCTION(exp, expf)
EMU_HALF_FUNCTION(exp2, exp2f)
EMU_HALF_FUNCTION(exp10, exp10f)
EMU_HALF_FUNCTION(log, logf)
EMU_HALF_FUNCTION(log2, log2f)
EMU_HALF_FUNCTION(log10, log10f)
EMU_HALF_FUNCTION(sin, sinf)
EMU_HALF_FUNCTION(cos, cosf)
EMU_HALF_FUNCTION(tanh, tanhf)
EMU_HALF_FUNCTION(floor, floorf)
EMU_HALF_FUNCTION(ceil, ceilf)
EMU_HALF_FUNCTION(trunc, truncf)
EMU_HALF_FUNCTION(rint, rintf)

#define EMU_HALF_OPERATOR(op)                                                                                     \
    EMU_INLINE __half2 operator op(const __half2 &a, const __half2 &b) {                                          \
        return {(__half)(a.x op b.x), (__half)(a.y op b.y)};                                                      \
    }                                                                                                             \
    EMU_INLINE __half2 &operator op##=(__half2 &a, const __half2 &b) { return a = a op b; }
EMU_HALF_OPERATOR(+)
EMU_HALF_OPERATOR(-)
EMU_HALF_OPERATOR(*)
EMU_HALF_OPERATOR(/)
EMU_INLINE __half2 operator-(const __half2 &v) { return {-v.x, -v.y}; }
EMU_INLINE bool operator==(const __half2 &a, const __half2 &b) { return a.x == b.x && a.y == b.y; }
EMU_INLINE bool operator!=(const __half2 &a, const __half2 &b) { return !(a == b); }

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
