// 2-D convolution with zeros outside of the image, from a tile with its border in dynamic shared memory. Each thread
// computes ITEMS rows. The element type and the radius are template arguments.

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif
#ifndef ITEMS
#define ITEMS 1
#endif

// EVOLVE-BLOCK-START
template <typename T, int RADIUS>
__global__ void __launch_bounds__(BLOCK_X *BLOCK_Y)
    conv2d(const T *__restrict__ image, const T *__restrict__ weights, T *__restrict__ out, int height, int width) {
    extern __shared__ float tile[];
    const int side = 2 * RADIUS + 1, rows = BLOCK_Y * ITEMS;
    const int pitch = BLOCK_X + 2 * RADIUS;
    const int left = blockIdx.x * BLOCK_X - RADIUS, top = (int)blockIdx.y * rows - RADIUS;
    for (int y = threadIdx.y; y < rows + 2 * RADIUS; y += BLOCK_Y)
        for (int x = threadIdx.x; x < pitch; x += BLOCK_X) {
            const bool inside = top + y >= 0 && top + y < height && left + x >= 0 && left + x < width;
            tile[y * pitch + x] = inside ? __ldg(&image[(top + y) * width + left + x]) : T(0);
        }
    __syncthreads();
    const int column = blockIdx.x * BLOCK_X + threadIdx.x;
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        const int y = threadIdx.y + item * BLOCK_Y, row = blockIdx.y * rows + y;
        if (row >= height || column >= width) continue;
        T sum = T(0);
        for (int dy = 0; dy < side; dy++)
            for (int dx = 0; dx < side; dx++)
                sum += weights[dy * side + dx] * tile[(y + dy) * pitch + threadIdx.x + dx];
        out[row * width + column] = sum;
    }
}
// EVOLVE-BLOCK-END
