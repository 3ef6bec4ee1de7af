// C = A B for square row-major matrices, by tiles in shared memory. Each thread computes WORK_Y rows of one column;
// rows of tiles are PAD elements longer against bank conflicts, the inner loop is unrolled UNROLL times.

#ifndef TILE
#define TILE 16
#endif
#ifndef WORK_Y
#define WORK_Y 1
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

// EVOLVE-BLOCK-START
extern "C" __global__ void __launch_bounds__(TILE *TILE / WORK_Y)
    matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
    __shared__ float left[TILE][TILE + PAD];
    __shared__ float right[TILE][TILE + PAD];
    const int rows = TILE / WORK_Y;
    const int column = blockIdx.x * TILE + threadIdx.x;
    const int first = blockIdx.y * TILE + threadIdx.y;
    float sum[WORK_Y];
    for (int w = 0; w < WORK_Y; w++) sum[w] = 0.0f;
    for (int at = 0; at < n; at += TILE) {
        for (int w = 0; w < WORK_Y; w++) {
            const int y = threadIdx.y + w * rows, row = first + w * rows;
            left[y][threadIdx.x] = row < n && at + threadIdx.x < n ? a[row * n + at + threadIdx.x] : 0.0f;
            right[y][threadIdx.x] = at + y < n && column < n ? b[(at + y) * n + column] : 0.0f;
        }
        __syncthreads();
#pragma unroll UNROLL
        for (int k = 0; k < TILE; k++)
            for (int w = 0; w < WORK_Y; w++) sum[w] += left[threadIdx.y + w * rows][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    for (int w = 0; w < WORK_Y; w++) {
        const int row = first + w * rows;
        if (row < n && column < n) c[row * n + column] = sum[w];
    }
}
// EVOLVE-BLOCK-END
