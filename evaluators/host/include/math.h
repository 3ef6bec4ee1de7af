/* <math.h> for a machine without a C library's headers; searched last, so that real headers win.
   Declarations only, with the standard's prototypes. */
#ifndef TUNER_MATH_H
#define TUNER_MATH_H

#ifdef __cplusplus
extern "C" {
#endif

#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define HUGE_VALL __builtin_huge_vall()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4
#define fpclassify(x) __builtin_fpclassify(FP_NAN, FP_INFINITE, FP_NORMAL, FP_SUBNORMAL, FP_ZERO, x)
#define isfinite(x) __builtin_isfinite(x)
#define isinf(x) __builtin_isinf(x)
#define isnan(x) __builtin_isnan(x)
#define isnormal(x) __builtin_isnormal(x)
#define signbit(x) __builtin_signbit(x)
#define isgreater(x, y) __builtin_isgreater(x, y)
#define isgreaterequal(x, y) __builtin_isgreaterequal(x, y)
#define isless(x, y) __builtin_isless(x, y)
#define islessequal(x, y) __builtin_islessequal(x, y)
#define islessgreater(x, y) __builtin_islessgreater(x, y)
#define isunordered(x, y) __builtin_isunordered(x, y)

typedef float float_t;
typedef double double_t;

/* What each of the three floating types has, with the suffix of the type's names. */
#define __TUNER_MATH(T, s)                                                                                        \
    T acos##s(T); T acosh##s(T); T asin##s(T); T asinh##s(T); T atan##s(T); T atanh##s(T); T cbrt##s(T);          \
    T ceil##s(T); T cos##s(T); T cosh##s(T); T erf##s(T); T erfc##s(T); T exp##s(T); T exp2##s(T);                \
    T expm1##s(T); T fabs##s(T); T floor##s(T); T lgamma##s(T); T log##s(T); T log10##s(T); T log1p##s(T);        \
    T log2##s(T); T logb##s(T); T nearbyint##s(T); T rint##s(T); T round##s(T); T sin##s(T); T sinh##s(T);        \
    T sqrt##s(T); T tan##s(T); T tanh##s(T); T tgamma##s(T); T trunc##s(T); T atan2##s(T, T);                     \
    T copysign##s(T, T); T fdim##s(T, T); T fmax##s(T, T); T fmin##s(T, T); T fmod##s(T, T);                      \
    T hypot##s(T, T); T nextafter##s(T, T); T pow##s(T, T); T remainder##s(T, T); T fma##s(T, T, T);              \
    T frexp##s(T, int *); T ldexp##s(T, int); T scalbn##s(T, int); T scalbln##s(T, long); T modf##s(T, T *);      \
    T remquo##s(T, T, int *); int ilogb##s(T); long lrint##s(T); long lround##s(T); long long llrint##s(T);       \
    long long llround##s(T); T nan##s(const char *);
__TUNER_MATH(double, )
__TUNER_MATH(float, f)
__TUNER_MATH(long double, l)
#undef __TUNER_MATH

#ifdef __cplusplus
}
#endif

#endif
