/* What CUDA C++ has without any #include, for clang's device side: NVIDIA's own headers cannot be read by clang 23.
   Indices, barriers, shuffles and mathematics come from clang's headers; this file is what those take from a toolkit.
   Source: CUDA C++ Programming Guide, language extensions. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __grid_constant__ __attribute__((grid_constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __maxnreg__(n) __attribute__((maxnreg(n)))
#define __CUDACC__ 1
#define CUDA_VERSION 12080
#define CUDART_VERSION CUDA_VERSION
#define __DEVICE_LAUNCH_PARAMETERS_H__

#define TUNER_INLINE static __device__ __forceinline__
#define TUNER_BOTH static __host__ __device__ __forceinline__

#include "tuner_types.h"

extern "C" {
__device__ int vprintf(const char *, const char *);
__device__ int printf(const char *, ...);
__device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
__device__ void *malloc(size_t) __attribute__((nothrow, malloc));
__device__ void free(void *) __attribute__((nothrow));
}
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()

typedef uint32_t cuuint32_t;
TUNER_INLINE unsigned __isGlobal(const void *p) { return __nvvm_isspacep_global(p); }
TUNER_INLINE unsigned __isShared(const void *p) { return __nvvm_isspacep_shared(p); }
TUNER_INLINE unsigned __isConstant(const void *p) { return __nvvm_isspacep_const(p); }
TUNER_INLINE unsigned __isLocal(const void *p) { return __nvvm_isspacep_local(p); }
TUNER_INLINE size_t __cvta_generic_to_shared(const void *p) {
    return (size_t)(const void __attribute__((address_space(3))) *)p;
}

#include <__clang_cuda_builtin_vars.h>
#include <__clang_cuda_libdevice_declares.h>
#include <__clang_cuda_device_functions.h>
#include <__clang_cuda_math.h>
#include <__clang_cuda_intrinsics.h>

/* Clang's header declares these and leaves them to whoever defines the types. */
#define TUNER_INDEX(name)                                                                                         \
    __device__ inline __cuda_builtin_##name##_t::operator dim3() const { return dim3(x, y, z); }                  \
    __device__ inline __cuda_builtin_##name##_t::operator uint3() const { return uint3{x, y, z}; }
TUNER_INDEX(threadIdx)
TUNER_INDEX(blockIdx)
TUNER_INDEX(blockDim)
TUNER_INDEX(gridDim)
#undef TUNER_INDEX

#include "tuner_device_math.h"
TUNER_INLINE float pow(float x, int y) { return powif(x, y); }
TUNER_INLINE double pow(double x, int y) { return powi(x, y); }
TUNER_INLINE float cospi(float x) { return cospif(x); }
TUNER_INLINE float erfinv(float x) { return erfinvf(x); }
TUNER_INLINE float normcdf(float x) { return normcdff(x); }
TUNER_INLINE float rcbrt(float x) { return rcbrtf(x); }
TUNER_INLINE float rsqrt(float x) { return rsqrtf(x); }
TUNER_INLINE float sinpi(float x) { return sinpif(x); }
#include "tuner_device_atomics.h"
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
#endif
