/* Cooperative groups of one block: the block itself and its static tiles. */
#pragma once

namespace cooperative_groups {

struct thread_block {
    EMU_CONVERGENT __device__ __forceinline__ void sync() const { __syncthreads(); }
    static __device__ __forceinline__ dim3 group_index() { return blockIdx; }
    static __device__ __forceinline__ dim3 thread_index() { return threadIdx; }
    static __device__ __forceinline__ dim3 dim_threads() { return blockDim; }
    static __device__ __forceinline__ dim3 group_dim() { return blockDim; }
    static __device__ __forceinline__ unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static __device__ __forceinline__ unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static __device__ __forceinline__ unsigned size() { return num_threads(); }
};
static __device__ __forceinline__ thread_block this_thread_block() { return {}; }

template <unsigned emu_N, class emu_Parent = thread_block> struct thread_block_tile {
    static_assert(emu_N >= 1 && emu_N <= 32 && (emu_N & (emu_N - 1)) == 0, "a tile has a power of two of at most 32 threads");
    static __device__ __forceinline__ unsigned mask() {
        unsigned rank = thread_block::thread_rank(), first = rank & 31 & ~(emu_N - 1), left = thread_block::size() - (rank & ~31u);
        unsigned lanes = (emu_N == 32 ? ~0u : (1u << emu_N % 32) - 1) << first;
        return left >= 32 ? lanes : lanes & ((1u << left) - 1);
    }
    EMU_CONVERGENT __device__ __forceinline__ void sync() const { __syncwarp(mask()); }
    static __device__ __forceinline__ unsigned thread_rank() { return thread_block::thread_rank() % emu_N; }
    static __device__ __forceinline__ unsigned meta_group_rank() { return emu_Parent::thread_rank() / emu_N; }
    static __device__ __forceinline__ unsigned meta_group_size() { return (emu_Parent::size() + emu_N - 1) / emu_N; }
    static constexpr EMU_BOTH unsigned size() { return emu_N; }
    static constexpr EMU_BOTH unsigned num_threads() { return emu_N; }
    template <class emu_T> EMU_CONVERGENT __device__ __forceinline__ emu_T shfl(emu_T v, int lane) const {
        return __shfl_sync(mask(), v, lane, emu_N);
    }
    template <class emu_T> EMU_CONVERGENT __device__ __forceinline__ emu_T shfl_up(emu_T v, unsigned by) const {
        return __shfl_up_sync(mask(), v, by, emu_N);
    }
    template <class emu_T> EMU_CONVERGENT __device__ __forceinline__ emu_T shfl_down(emu_T v, unsigned by) const {
        return __shfl_down_sync(mask(), v, by, emu_N);
    }
    template <class emu_T> EMU_CONVERGENT __device__ __forceinline__ emu_T shfl_xor(emu_T v, int with) const {
        return __shfl_xor_sync(mask(), v, with, emu_N);
    }
    static __device__ __forceinline__ unsigned own(unsigned lanes) {
        return lanes >> (thread_block::thread_rank() & 31 & ~(emu_N - 1));
    }
    EMU_CONVERGENT __device__ __forceinline__ unsigned ballot(int p) const { return own(__ballot_sync(mask(), p)); }
    template <class emu_T> EMU_CONVERGENT __device__ __forceinline__ unsigned match_any(emu_T v) const {
        return own(__match_any_sync(mask(), v));
    }
    template <class emu_T> EMU_CONVERGENT __device__ __forceinline__ unsigned match_all(emu_T v, int &all) const {
        return own(__match_all_sync(mask(), v, &all));
    }
    EMU_CONVERGENT __device__ __forceinline__ int any(int p) const { return __any_sync(mask(), p); }
    EMU_CONVERGENT __device__ __forceinline__ int all(int p) const { return __all_sync(mask(), p); }
};
template <unsigned emu_N, class emu_Parent>
static __device__ __forceinline__ thread_block_tile<emu_N, emu_Parent> tiled_partition(const emu_Parent &) {
    return {};
}
template <class emu_Group> EMU_CONVERGENT static __device__ __forceinline__ void sync(const emu_Group &group) { group.sync(); }

template <class emu_T> struct plus { __device__ __forceinline__ emu_T operator()(emu_T a, emu_T b) const { return a + b; } };
template <class emu_T> struct bit_and { __device__ __forceinline__ emu_T operator()(emu_T a, emu_T b) const { return a & b; } };
template <class emu_T> struct bit_or { __device__ __forceinline__ emu_T operator()(emu_T a, emu_T b) const { return a | b; } };
template <class emu_T> struct bit_xor { __device__ __forceinline__ emu_T operator()(emu_T a, emu_T b) const { return a ^ b; } };
template <class emu_T> struct less { __device__ __forceinline__ emu_T operator()(emu_T a, emu_T b) const { return b < a ? b : a; } };
template <class emu_T> struct greater { __device__ __forceinline__ emu_T operator()(emu_T a, emu_T b) const { return a < b ? b : a; } };
template <unsigned emu_N, class emu_Parent, class emu_T, class emu_Op>
EMU_CONVERGENT static __device__ __forceinline__ emu_T reduce(const thread_block_tile<emu_N, emu_Parent> &tile, emu_T v, emu_Op op) {
    for (unsigned by = emu_N / 2; by > 0; by /= 2) v = op(v, tile.shfl_xor(v, (int)by));
    return v;
}

}
