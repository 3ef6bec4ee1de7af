/* Half precision: the type, conversions and arithmetic. */
#pragma once

typedef _Float16 __half;
typedef __half half;
struct __align__(4) __half2 { __half x, y; };
typedef __half2 half2;

EMU_INLINE __half __float2half(float x) { return (__half)x; }
EMU_INLINE __half __float2half_rn(float x) { return (__half)x; }
EMU_INLINE __half __double2half(double x) { return (__half)x; }
EMU_INLINE __half __int2half_rn(int x) { return (__half)x; }
EMU_INLINE float __half2float(__half x) { return (float)x; }
EMU_INLINE __half __hadd(__half x, __half y) { return (__half)(x + y); }
EMU_INLINE __half __hsub(__half x, __half y) { return (__half)(x - y); }
EMU_INLINE __half __hmul(__half x, __half y) { return (__half)(x * y); }
EMU_INLINE __half __hfma(__half x, __half y, __half z) { return (__half)((float)x * (float)y + (float)z); }
EMU_INLINE __half __hmax(__half x, __half y) { return x < y ? y : x; }
EMU_INLINE __half __hmin(__half x, __half y) { return y < x ? y : x; }
EMU_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
EMU_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
EMU_INLINE __half2 __float2half2_rn(float x) { return {(__half)x, (__half)x}; }
EMU_INLINE __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
EMU_INLINE float2 __half22float2(__half2 v) { return {(float)v.x, (float)v.y}; }
EMU_INLINE float __low2float(__half2 v) { return (float)v.x; }
EMU_INLINE float __high2float(__half2 v) { return (float)v.y; }
EMU_INLINE __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
EMU_INLINE __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
EMU_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
