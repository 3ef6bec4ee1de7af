/* Cooperative groups of one block: the block itself and its static tiles. */
#pragma once

namespace cooperative_groups {

struct thread_block {
    EMU_CONVERGENT __device__ __forceinline__ void sync() const { __syncthreads(); }
    static __device__ __forceinline__ dim3 group_index() { return blockIdx; }
    static __device__ __forceinline__ dim3 thread_index() { return threadIdx; }
    static __device__ __forceinline__ dim3 dim_threads() { return blockDim; }
    static __device__ __forceinline__ unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static __device__ __forceinline__ unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static __device__ __forceinline__ unsigned size() { return num_threads(); }
};
static __device__ __forceinline__ thread_block this_thread_block() { return {}; }

template <unsigned N, class Parent = thread_block> struct thread_block_tile {
    static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, "a tile has a power of two of at most 32 threads");
    static __device__ __forceinline__ unsigned mask() {
        unsigned rank = thread_block::thread_rank(), first = rank & 31 & ~(N - 1), left = thread_block::size() - (rank & ~31u);
        unsigned lanes = (N == 32 ? ~0u : (1u << N % 32) - 1) << first;
        return left >= 32 ? lanes : lanes & ((1u << left) - 1);
    }
    EMU_CONVERGENT __device__ __forceinline__ void sync() const { __syncwarp(mask()); }
    static __device__ __forceinline__ unsigned thread_rank() { return thread_block::thread_rank() % N; }
    static __device__ __forceinline__ unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
    static __device__ __forceinline__ unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
    static constexpr EMU_BOTH unsigned size() { return N; }
    static constexpr EMU_BOTH unsigned num_threads() { return N; }
    template <class T> EMU_CONVERGENT __device__ __forceinline__ T shfl(T v, int lane) const {
        return __shfl_sync(mask(), v, lane, N);
    }
    template <class T> EMU_CONVERGENT __device__ __forceinline__ T shfl_up(T v, unsigned by) const {
        return __shfl_up_sync(mask(), v, by, N);
    }
    template <class T> EMU_CONVERGENT __device__ __forceinline__ T shfl_down(T v, unsigned by) const {
        return __shfl_down_sync(mask(), v, by, N);
    }
    template <class T> EMU_CONVERGENT __device__ __forceinline__ T shfl_xor(T v, int with) const {
        return __shfl_xor_sync(mask(), v, with, N);
    }
    EMU_CONVERGENT __device__ __forceinline__ unsigned ballot(int p) const {
        return __ballot_sync(mask(), p) >> (thread_block::thread_rank() & 31 & ~(N - 1));
    }
    EMU_CONVERGENT __device__ __forceinline__ int any(int p) const { return __any_sync(mask(), p); }
    EMU_CONVERGENT __device__ __forceinline__ int all(int p) const { return __all_sync(mask(), p); }
};
template <unsigned N, class Parent>
static __device__ __forceinline__ thread_block_tile<N, Parent> tiled_partition(const Parent &) {
    return {};
}
template <class Group> EMU_CONVERGENT static __device__ __forceinline__ void sync(const Group &group) { group.sync(); }

template <class T> struct plus { __device__ __forceinline__ T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { __device__ __forceinline__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { __device__ __forceinline__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <unsigned N, class Parent, class T, class Op>
EMU_CONVERGENT static __device__ __forceinline__ T reduce(const thread_block_tile<N, Parent> &tile, T v, Op op) {
    for (unsigned by = N / 2; by > 0; by /= 2) v = op(v, tile.shfl_xor(v, (int)by));
    return v;
}

}
