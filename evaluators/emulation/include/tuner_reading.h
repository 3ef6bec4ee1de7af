/* What clang needs to read a whole CUDA program, host code and launches too. Nothing of it is compiled to code, and what
   is wrong inside of a kernel does not count: most device functions are left out, as they are slow to read. */
#pragma once
#define TUNER_READING
#include "tuner_emulation.h"
#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <type_traits>
#include <utility>

#undef __global__
#define __global__ __attribute__((global))
#define __managed__
#undef __launch_bounds__
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
typedef struct CUstream_st *cudaStream_t;
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes = 0, void *stream = 0);
#include "tuner_host.h"
