/* Conversions of half precision, which the compiler calls where the processor is not known to have them (IEEE 754
   binary16, round to nearest, ties to even). */
#include "runtime.h"

namespace emu_runtime {

template <class To, class From> static To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static float widen(u16 half) {
    u32 sign = (u32)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 31) return bits<float>(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

static u16 narrow(double value) {
    u64 wide = bits<u64>(value);
    u16 sign = (u16)(wide >> 48 & 0x8000);
    double size = value < 0 ? -value : value;
    if (size != size) return sign | 0x7e00;
    if (size >= 65520.0) return sign | 0x7c00;
    /* The unit in the last place of the result, as a power of two; below it the sum with a large number rounds. */
    int exponent = (int)(wide >> 52 & 0x7ff) - 1023;
    if (exponent < -14) exponent = -14;
    double unit = bits<double>((u64)(exponent - 10 + 1023) << 52), shift = unit * 0x1p52;
    volatile double sum = size + shift;
    u32 steps = (u32)((sum - shift) / unit);
    return sign | (u16)(steps < 1024 ? steps : (u32)(exponent + 14) * 1024 + steps);
}

extern "C" {
float __extendhfsf2(_Float16 half) { return widen(bits<u16>(half)); }
_Float16 __truncsfhf2(float value) { return bits<_Float16>(narrow(value)); }
_Float16 __truncdfhf2(double value) { return bits<_Float16>(narrow(value)); }
}

}
