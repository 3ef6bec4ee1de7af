// Softmax over the rows of a matrix; ROWS rows of THREADS threads in each block, sums by warp shuffles. A thread
// takes VECTOR elements at once; FAST exponentials are the approximate ones of the device.

#ifndef THREADS
#define THREADS 128
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef FAST
#define FAST 0
#endif

static __device__ float exponential(float x) { return FAST ? __expf(x) : expf(x); }

template <bool MAX> static __device__ float across(float value, float *scratch) {
    for (int by = 16; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, by);
        value = MAX ? fmaxf(value, other) : value + other;
    }
    const int warps = THREADS / 32;
    if (warps == 1) return value;
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = scratch[0];
    for (int w = 1; w < warps; w++) value = MAX ? fmaxf(value, scratch[w]) : value + scratch[w];
    return value;
}

// EVOLVE-BLOCK-START
extern "C" __global__ void __launch_bounds__(THREADS *ROWS)
    softmax(const float *__restrict__ x, float *__restrict__ y, int rows, int columns) {
    __shared__ float scratch[ROWS][THREADS / 32];
    const int row = blockIdx.x * ROWS + threadIdx.y;
    const bool inside = row < rows;
    const float *from = x + (size_t)(inside ? row : 0) * columns;
    float *to = y + (size_t)(inside ? row : 0) * columns;
    // The last row of vectors may be incomplete: those elements are taken one by one.
    const int whole = columns % VECTOR == 0 ? columns : 0;
    float largest = -3.4e38f, sum = 0.0f;
    for (int at = threadIdx.x * VECTOR; at < whole; at += THREADS * VECTOR)
        for (int v = 0; v < VECTOR; v++) largest = fmaxf(largest, from[at + v]);
    for (int at = whole + threadIdx.x; at < columns; at += THREADS) largest = fmaxf(largest, from[at]);
    largest = across<true>(largest, scratch[threadIdx.y]);
    for (int at = threadIdx.x * VECTOR; at < whole; at += THREADS * VECTOR)
        for (int v = 0; v < VECTOR; v++) sum += exponential(from[at + v] - largest);
    for (int at = whole + threadIdx.x; at < columns; at += THREADS) sum += exponential(from[at] - largest);
    sum = across<false>(sum, scratch[threadIdx.y]);
    if (!inside) return;
    for (int at = threadIdx.x * VECTOR; at < whole; at += THREADS * VECTOR)
        for (int v = 0; v < VECTOR; v++) to[at + v] = exponential(from[at + v] - largest) / sum;
    for (int at = whole + threadIdx.x; at < columns; at += THREADS) to[at] = exponential(from[at] - largest) / sum;
}
// EVOLVE-BLOCK-END
