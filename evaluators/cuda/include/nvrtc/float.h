/* A source may have defined one of the last itself. */
#pragma once
#ifndef FLT_RADIX
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MAX_EXP 128
#define FLT_MIN_EXP (-125)
#define FLT_TRUE_MIN 1.401298464324817071e-45f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MAX_EXP 1024
#define DBL_MIN_EXP (-1021)
#define DBL_TRUE_MIN 4.9406564584124654e-324
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466385288598e+38f
#endif
#ifndef FLT_MIN
#define FLT_MIN 1.175494350822287508e-38f
#endif
#ifndef FLT_EPSILON
#define FLT_EPSILON 1.192092895507812500e-07f
#endif
#ifndef DBL_MAX
#define DBL_MAX 1.7976931348623157e+308
#endif
#ifndef DBL_MIN
#define DBL_MIN 2.2250738585072014e-308
#endif
#ifndef DBL_EPSILON
#define DBL_EPSILON 2.2204460492503131e-16
#endif
