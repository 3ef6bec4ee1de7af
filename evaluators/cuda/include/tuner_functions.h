/* The mathematical functions of one and of two numbers that CUDA has for float and double alike: F(name) for each. */
#pragma once

#define TUNER_OF_ONE(F)                                                                                           \
    F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(cbrt) F(ceil) F(cos) F(cosh) F(erf) F(erfc) F(exp)       \
    F(exp10) F(exp2) F(expm1) F(fabs) F(floor) F(lgamma) F(log) F(log10) F(log1p) F(log2) F(logb)                 \
    F(nearbyint) F(rint) F(round) F(sin) F(sinh) F(sqrt) F(tan) F(tanh) F(tgamma) F(trunc)
#define TUNER_OF_TWO(F)                                                                                           \
    F(atan2) F(copysign) F(fdim) F(fmax) F(fmin) F(fmod) F(hypot) F(pow) F(remainder)
