// Transpose of a matrix by square tiles in shared memory; each thread moves TILE / ROWS elements. Rows of
// the tile are PAD elements longer against bank conflicts.

#ifndef TILE
#define TILE 32
#endif
#ifndef ROWS
#define ROWS 8
#endif
#ifndef PAD
#define PAD 0
#endif

// EVOLVE-BLOCK-START
extern "C" __global__ void __launch_bounds__(TILE *ROWS)
    transpose(const float *__restrict__ in, float *__restrict__ out, int height, int width) {
    __shared__ float tile[TILE][TILE + PAD];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    const int tx = blockIdx.y * TILE + threadIdx.x, ty = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (tx < height && ty + j < width) out[(ty + j) * height + tx] = tile[threadIdx.x][threadIdx.y + j];
}
// EVOLVE-BLOCK-END
