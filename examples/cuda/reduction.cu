// Sum of an array: every block reduces a part of it, by shared memory and warp shuffles, and adds it with one atomic
// operation.

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef VECTOR
#define VECTOR 1
#endif

// EVOLVE-BLOCK-START
extern "C" __global__ void __launch_bounds__(BLOCK) reduce_sum(const float *__restrict__ x, float *total, int n) {
    __shared__ float partial[BLOCK / 32];
    float sum = 0.0f;
    const int step = gridDim.x * BLOCK;
#if VECTOR == 4
    const float4 *whole = reinterpret_cast<const float4 *>(x);
    for (int at = blockIdx.x * BLOCK + threadIdx.x; at < n / 4; at += step) {
        const float4 v = whole[at];
        sum += (v.x + v.y) + (v.z + v.w);
    }
#elif VECTOR == 2
    const float2 *whole = reinterpret_cast<const float2 *>(x);
    for (int at = blockIdx.x * BLOCK + threadIdx.x; at < n / 2; at += step) {
        const float2 v = whole[at];
        sum += v.x + v.y;
    }
#else
    for (int at = blockIdx.x * BLOCK + threadIdx.x; at < n; at += step) sum += x[at];
#endif
    for (int at = n / VECTOR * VECTOR + blockIdx.x * BLOCK + threadIdx.x; at < n; at += step) sum += x[at];
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < BLOCK / 32 ? partial[threadIdx.x] : 0.0f;
        for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
}
// EVOLVE-BLOCK-END
