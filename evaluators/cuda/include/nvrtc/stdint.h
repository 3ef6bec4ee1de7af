/* The types that nvcc has on 64-bit Linux; CCCL has its own for NVRTC, and then those are the ones. */
#pragma once

#ifndef _CUDA_STD_CSTDINT
typedef signed char int8_t, int_fast8_t, int_least8_t;
typedef unsigned char uint8_t, uint_fast8_t, uint_least8_t;
typedef short int16_t, int_least16_t;
typedef unsigned short uint16_t, uint_least16_t;
typedef long int_fast16_t, int_fast32_t, int64_t, int_fast64_t, int_least64_t, intptr_t, intmax_t;
typedef unsigned long uint_fast16_t, uint_fast32_t, uint64_t, uint_fast64_t, uint_least64_t, uintptr_t, uintmax_t;
typedef int int32_t, int_least32_t;
typedef unsigned int uint32_t, uint_least32_t;

#define INT8_MAX 127
#define INT8_MIN (-INT8_MAX - 1)
#define UINT8_MAX 255
#define INT16_MAX 32767
#define INT16_MIN (-INT16_MAX - 1)
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807l
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX 18446744073709551615ul
#define INTPTR_MAX INT64_MAX
#define INTPTR_MIN INT64_MIN
#define UINTPTR_MAX UINT64_MAX
#define INTMAX_MAX INT64_MAX
#define INTMAX_MIN INT64_MIN
#define UINTMAX_MAX UINT64_MAX
#define PTRDIFF_MAX INT64_MAX
#define PTRDIFF_MIN INT64_MIN
#define SIZE_MAX UINT64_MAX

#define INT8_C(value) value
#define UINT8_C(value) value
#define INT16_C(value) value
#define UINT16_C(value) value
#define INT32_C(value) value
#define UINT32_C(value) value##u
#define INT64_C(value) value##l
#define UINT64_C(value) value##ul
#define INTMAX_C(value) value##l
#define UINTMAX_C(value) value##ul
#endif
