/* What CUDA C++ has beyond C++, for device code that is compiled for this machine's processor.

   Included before every emulated kernel. Needs no C or C++ library header; functions that begin with emu_ are
   defined by runtime.cc. Semantics follow the CUDA C++ Programming Guide (language extensions). */
#pragma once

#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
/* A kernel is an ordinary device function here, as the emulated launch calls it. */
#define __global__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define CUDART_VERSION 13000
#ifndef NULL
#define NULL 0
#endif

#define EMU_INLINE static __device__ __host__ __forceinline__
#define EMU_BOTH __device__ __host__
#define EMU_CONST __attribute__((const, nothrow))
#define EMU_CONVERGENT __attribute__((convergent, nothrow))

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

#define TUNER_BOTH EMU_INLINE
#include "../../cuda/include/tuner_types.h"
#include "tuner_indices.h"
#ifndef TUNER_READING
#include "tuner_sync.h"
#include "tuner_atomics.h"
#include "tuner_math.h"
#include "tuner_more_math.h"
#include "tuner_launch.h"
#endif
