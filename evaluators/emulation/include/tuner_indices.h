/* threadIdx, blockIdx, blockDim, gridDim and warpSize as values that are asked for, so that each thread has its own. */
#pragma once

extern "C" {
EMU_CONST __device__ unsigned emu_thread(int axis);
EMU_CONST __device__ unsigned emu_block(int axis);
EMU_CONST __device__ unsigned emu_block_size(int axis);
EMU_CONST __device__ unsigned emu_grid_size(int axis);
EMU_CONST __device__ unsigned emu_lane();
}

#define EMU_INDEX(type, of)                                                                                       \
    struct type {                                                                                                 \
        __declspec(property(get = get_x)) unsigned x;                                                             \
        __declspec(property(get = get_y)) unsigned y;                                                             \
        __declspec(property(get = get_z)) unsigned z;                                                             \
        static __device__ __forceinline__ unsigned get_x() { return of(0); }                                     \
        static __device__ __forceinline__ unsigned get_y() { return of(1); }                                     \
        static __device__ __forceinline__ unsigned get_z() { return of(2); }                                     \
        __device__ __forceinline__ operator uint3() const { return uint3{of(0), of(1), of(2)}; }               \
        __device__ __forceinline__ operator dim3() const { return dim3(of(0), of(1), of(2)); }                 \
    };

EMU_INDEX(emu_thread_index, emu_thread)
EMU_INDEX(emu_block_index, emu_block)
EMU_INDEX(emu_block_extent, emu_block_size)
EMU_INDEX(emu_grid_extent, emu_grid_size)

extern const __device__ emu_thread_index threadIdx;
extern const __device__ emu_block_index blockIdx;
extern const __device__ emu_block_extent blockDim;
extern const __device__ emu_grid_extent gridDim;
static constexpr int warpSize = 32;
