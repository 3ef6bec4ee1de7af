/* Convolution of an image with a 5 x 5 filter; what lies outside of the image is zero.
 *
 * BLOCK_X, BLOCK_Y  work-items of a work-group
 * PER_X, PER_Y      pixels that a work-item computes
 * STAGED            1: a work-group's part of the image goes through local memory
 * UNROLL            1: the loops over the filter are unrolled
 */
#ifndef BLOCK_X
#define BLOCK_X 16
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif
#ifndef PER_X
#define PER_X 1
#endif
#ifndef PER_Y
#define PER_Y 1
#endif
#ifndef STAGED
#define STAGED 0
#endif
#ifndef UNROLL
#define UNROLL 0
#endif

#define SIDE 5
#define REACH (SIDE / 2)
#define PART_X (BLOCK_X * PER_X)
#define PART_Y (BLOCK_Y * PER_Y)

__kernel void convolution(__global const float *restrict image, __constant const float *restrict filter,
                          __global float *restrict result, int nx, int ny)
{
    const int left = get_group_id(0) * PART_X, top = get_group_id(1) * PART_Y;
    const int tx = get_local_id(0), ty = get_local_id(1);
#if STAGED
    __local float part[PART_Y + SIDE - 1][PART_X + SIDE - 1];
    for (int r = ty; r < PART_Y + SIDE - 1; r += BLOCK_Y)
        for (int c = tx; c < PART_X + SIDE - 1; c += BLOCK_X) {
            const int y = top + r - REACH, x = left + c - REACH;
            part[r][c] = x >= 0 && x < nx && y >= 0 && y < ny ? image[y * nx + x] : 0.0f;
        }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    for (int py = 0; py < PER_Y; py++)
        for (int px = 0; px < PER_X; px++) {
            const int r = ty + py * BLOCK_Y, c = tx + px * BLOCK_X;
            const int y = top + r, x = left + c;
            if (x >= nx || y >= ny)
                continue;
            float sum = 0.0f;
#if UNROLL
#pragma unroll
#endif
            for (int i = 0; i < SIDE; i++)
#if UNROLL
#pragma unroll
#endif
                for (int j = 0; j < SIDE; j++) {
#if STAGED
                    const float value = part[r + i][c + j];
#else
                    const int v = y + i - REACH, u = x + j - REACH;
                    const float value = u >= 0 && u < nx && v >= 0 && v < ny ? image[v * nx + u] : 0.0f;
#endif
                    sum += filter[i * SIDE + j] * value;
                }
            result[y * nx + x] = sum;
        }
}
