/* What clang needs to read a whole CUDA program, host code and launches too. Nothing of it is compiled to code. */
#pragma once
#include "tuner_emulation.h"
#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <type_traits>
#include <utility>

#undef __global__
#define __global__ __attribute__((global))
typedef struct CUstream_st *cudaStream_t;
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes = 0, void *stream = 0);
