/* bfloat16 under emulation: the types, conversions, arithmetic and comparisons of one and of two. What is not here
   (fused multiplication, mathematical functions, atomic functions, 64-bit integers) does not compile.

   A sum, product or quotient is made in float and rounded once more: float has over twice the bits and two, so that
   the result is the one that a single rounding gives. Source: CUDA Math API, bfloat16 precision intrinsics. */
#pragma once
#define __CUDA_BF16_H__

struct __nv_bfloat16_raw {
    unsigned short x;
};
struct __align__(2) __nv_bfloat16 {
    __nv_bfloat16() = default;
    constexpr EMU_BOTH __nv_bfloat16(const __nv_bfloat16_raw &raw) : tuner_bits(raw.x) {}
    constexpr EMU_BOTH __nv_bfloat16(float value) : tuner_bits(tuner_nearest(value)) {}
    constexpr EMU_BOTH __nv_bfloat16(double value) : tuner_bits(tuner_nearest(tuner_odd(value))) {}
    constexpr EMU_BOTH __nv_bfloat16(int value) : __nv_bfloat16((double)value) {}
    constexpr EMU_BOTH __nv_bfloat16(unsigned value) : __nv_bfloat16((double)value) {}
    constexpr EMU_BOTH __nv_bfloat16(short value) : __nv_bfloat16((float)value) {}
    constexpr EMU_BOTH __nv_bfloat16(unsigned short value) : __nv_bfloat16((float)value) {}
    constexpr EMU_BOTH operator float() const { return __builtin_bit_cast(float, (unsigned)tuner_bits << 16); }
    constexpr EMU_BOTH operator __nv_bfloat16_raw() const { return {tuner_bits}; }

  private:
    unsigned short tuner_bits;
    /* Round to nearest, ties to even. */
    static constexpr EMU_BOTH unsigned short tuner_nearest(float value) {
        unsigned bits = __builtin_bit_cast(unsigned, value);
        if (value != value) return 0x7fff;
        return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
    /* Towards zero, with the last bit set where something is lost: rounding that again is rounding once. */
    static constexpr EMU_BOTH float tuner_odd(double value) {
        float near = (float)value;
        if (value != value || (double)near == value) return near;
        unsigned bits = __builtin_bit_cast(unsigned, near);
        bool over = (near < 0 ? -(double)near : (double)near) > (value < 0 ? -value : value);
        return __builtin_bit_cast(float, (bits - (over ? 1u : 0u)) | 1u);
    }
};
typedef __nv_bfloat16 nv_bfloat16;

struct __align__(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    constexpr EMU_BOTH __nv_bfloat162(const __nv_bfloat16 &x, const __nv_bfloat16 &y) : x(x), y(y) {}
};
typedef __nv_bfloat162 nv_bfloat162;

#define TUNER_BF_ARITHMETIC(sign, name)                                                                           \
    EMU_INLINE __nv_bfloat16 operator sign(const __nv_bfloat16 &a, const __nv_bfloat16 &b) {                      \
        return __nv_bfloat16((float)a sign(float) b);                                                             \
    }                                                                                                             \
    EMU_INLINE __nv_bfloat16 &operator sign##=(__nv_bfloat16 &a, const __nv_bfloat16 &b) { return a = a sign b; } \
    EMU_INLINE __nv_bfloat162 operator sign(const __nv_bfloat162 &a, const __nv_bfloat162 &b) {                   \
        return {a.x sign b.x, a.y sign b.y};                                                                      \
    }                                                                                                             \
    EMU_INLINE __nv_bfloat162 &operator sign##=(__nv_bfloat162 &a, const __nv_bfloat162 &b) {                     \
        return a = a sign b;                                                                                      \
    }                                                                                                             \
    EMU_INLINE __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) { return a sign b; }
TUNER_BF_ARITHMETIC(+, __hadd)
TUNER_BF_ARITHMETIC(-, __hsub)
TUNER_BF_ARITHMETIC(*, __hmul)
TUNER_BF_ARITHMETIC(/, __hdiv)
#undef TUNER_BF_ARITHMETIC

#define TUNER_BF_COMPARED(sign, name)                                                                             \
    EMU_INLINE bool operator sign(const __nv_bfloat16 &a, const __nv_bfloat16 &b) {                               \
        return (float)a sign(float) b;                                                                            \
    }                                                                                                             \
    EMU_INLINE bool name(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a sign(float) b; }
TUNER_BF_COMPARED(==, __heq)
TUNER_BF_COMPARED(<, __hlt)
TUNER_BF_COMPARED(<=, __hle)
TUNER_BF_COMPARED(>, __hgt)
TUNER_BF_COMPARED(>=, __hge)
#undef TUNER_BF_COMPARED
EMU_INLINE bool operator!=(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return (float)a != (float)b; }

EMU_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return ((__nv_bfloat16_raw)x).x; }
EMU_INLINE short __bfloat16_as_short(__nv_bfloat16 x) { return (short)__bfloat16_as_ushort(x); }
EMU_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16_raw{x}; }
EMU_INLINE __nv_bfloat16 __short_as_bfloat16(short x) { return __nv_bfloat16_raw{(unsigned short)x}; }
EMU_INLINE __nv_bfloat16 operator-(const __nv_bfloat16 &x) {
    return __ushort_as_bfloat16(__bfloat16_as_ushort(x) ^ 0x8000u);
}

EMU_INLINE __nv_bfloat16 __float2bfloat16(float x) { return x; }
EMU_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
EMU_INLINE __nv_bfloat16 __double2bfloat16(double x) { return x; }
EMU_INLINE float __bfloat162float(__nv_bfloat16 x) { return x; }

EMU_INLINE __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
EMU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
EMU_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 x) { return {x.x, x.y}; }
EMU_INLINE float2 __bfloat1622float2(__nv_bfloat162 x) { return make_float2(x.x, x.y); }
EMU_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
EMU_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
EMU_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
EMU_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) { return x.x; }
EMU_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) { return x.y; }
EMU_INLINE float __low2float(__nv_bfloat162 x) { return x.x; }
EMU_INLINE float __high2float(__nv_bfloat162 x) { return x.y; }
