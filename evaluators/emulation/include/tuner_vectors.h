/* Vector types with CUDA's alignments (Programming Guide, built-in vector types), make_ functions and dim3. */
#pragma once

#define EMU_VECTORS(T, name, a2, a4)                                                                              \
    struct name##1 { T x; };                                                                                      \
    struct __align__(a2) name##2 { T x, y; };                                                                     \
    struct name##3 { T x, y, z; };                                                                                \
    struct __align__(a4) name##4 { T x, y, z, w; };                                                               \
    EMU_INLINE name##1 make_##name##1(T x) { return {x}; }                                                        \
    EMU_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }                                                \
    EMU_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                        \
    EMU_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

EMU_VECTORS(signed char, char, 2, 4)
EMU_VECTORS(unsigned char, uchar, 2, 4)
EMU_VECTORS(short, short, 4, 8)
EMU_VECTORS(unsigned short, ushort, 4, 8)
EMU_VECTORS(int, int, 8, 16)
EMU_VECTORS(unsigned int, uint, 8, 16)
EMU_VECTORS(long, long, 16, 16)
EMU_VECTORS(unsigned long, ulong, 16, 16)
EMU_VECTORS(long long, longlong, 16, 16)
EMU_VECTORS(unsigned long long, ulonglong, 16, 16)
EMU_VECTORS(float, float, 8, 16)
EMU_VECTORS(double, double, 16, 16)

struct dim3 {
    unsigned int x, y, z;
    constexpr EMU_BOTH dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr EMU_BOTH dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr EMU_BOTH operator uint3() const { return uint3{x, y, z}; }
};
