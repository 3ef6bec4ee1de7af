/* Overloads over the matching functions that clang's header for CUDA defines before it includes this name.
   Source: CUDA C++ Programming Guide, warp match functions. */
#pragma once

#define TUNER_MATCH(T, bits, B)                                                                                   \
    TUNER_INLINE unsigned __match_any_sync(unsigned mask, T value) {                                              \
        return __match##bits##_any_sync(mask, __builtin_bit_cast(B, value));                                      \
    }                                                                                                             \
    TUNER_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all) {                                    \
        return __match##bits##_all_sync(mask, __builtin_bit_cast(B, value), all);                                 \
    }
TUNER_MATCH(int, 32, unsigned)
TUNER_MATCH(unsigned, 32, unsigned)
TUNER_MATCH(float, 32, unsigned)
TUNER_MATCH(long, 64, unsigned long long)
TUNER_MATCH(unsigned long, 64, unsigned long long)
TUNER_MATCH(long long, 64, unsigned long long)
TUNER_MATCH(unsigned long long, 64, unsigned long long)
TUNER_MATCH(double, 64, unsigned long long)
#undef TUNER_MATCH
