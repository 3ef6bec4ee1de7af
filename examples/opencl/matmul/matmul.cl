/* Matrix product of square matrices. A work-group computes TILE_Y x TILE_X elements of c, each work-item ROWS x COLS of
 * them; strips of a and b that are DEPTH wide go through local memory.
 *
 * TILE_Y, TILE_X  elements of c that a work-group computes
 * ROWS, COLS      elements of c that a work-item computes
 * DEPTH           columns of a, rows of b in local memory at once
 * UNROLL          how often the innermost loop is unrolled
 * STRIDED         1: a work-item's columns lie a work-group apart; 0: they are neighbours
 */
#ifndef TILE_Y
#define TILE_Y 16
#endif
#ifndef TILE_X
#define TILE_X 16
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef COLS
#define COLS 1
#endif
#ifndef DEPTH
#define DEPTH 8
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef STRIDED
#define STRIDED 0
#endif

#define ITEMS_X (TILE_X / COLS)
#define ITEMS_Y (TILE_Y / ROWS)
#define ITEMS (ITEMS_X * ITEMS_Y)
#if STRIDED
#define COLUMN(c) (tx + (c) * ITEMS_X)
#else
#define COLUMN(c) (tx * COLS + (c))
#endif

__kernel void matmul(__global const float *restrict a, __global const float *restrict b, __global float *restrict c,
                     int n)
{
    __local float left[TILE_Y * DEPTH];
    __local float right[DEPTH * TILE_X];
    const int tx = get_local_id(0), ty = get_local_id(1);
    const int item = ty * ITEMS_X + tx;
    const int first_row = get_group_id(1) * TILE_Y, first_column = get_group_id(0) * TILE_X;
    float sum[ROWS][COLS];
    for (int r = 0; r < ROWS; r++)
        for (int s = 0; s < COLS; s++)
            sum[r][s] = 0.0f;

    for (int k = 0; k < n; k += DEPTH) {
        for (int e = item; e < TILE_Y * DEPTH; e += ITEMS) {
            const int row = first_row + e / DEPTH, column = k + e % DEPTH;
            left[e] = row < n && column < n ? a[row * n + column] : 0.0f;
        }
        for (int e = item; e < DEPTH * TILE_X; e += ITEMS) {
            const int row = k + e / TILE_X, column = first_column + e % TILE_X;
            right[e] = row < n && column < n ? b[row * n + column] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll UNROLL
        for (int d = 0; d < DEPTH; d++)
            for (int r = 0; r < ROWS; r++)
                for (int s = 0; s < COLS; s++)
                    sum[r][s] += left[(ty * ROWS + r) * DEPTH + d] * right[d * TILE_X + COLUMN(s)];
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    for (int r = 0; r < ROWS; r++)
        for (int s = 0; s < COLS; s++) {
            const int row = first_row + ty * ROWS + r, column = first_column + COLUMN(s);
            if (row < n && column < n)
                c[row * n + column] = sum[r][s];
        }
}
