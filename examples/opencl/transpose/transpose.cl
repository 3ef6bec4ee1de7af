/* Transpose of a matrix, in square tiles through local memory or directly.
 *
 * TILE     rows and columns of a tile
 * ROWS     work-items along y; each copies TILE / ROWS rows
 * STAGED   1: through local memory, so that both sides are read and written along rows
 * PAD      1: a row of the tile is one element longer, so that columns lie in different banks
 * SWAP     1: neighbouring work-groups go down the columns of x
 */
#ifndef TILE
#define TILE 16
#endif
#ifndef ROWS
#define ROWS 16
#endif
#ifndef STAGED
#define STAGED 0
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef SWAP
#define SWAP 0
#endif

__kernel void transpose(__global const float *restrict x, __global float *restrict y, int rows, int columns)
{
    const int tx = get_local_id(0), ty = get_local_id(1);
#if SWAP
    const int across = (columns + TILE - 1) / TILE, down = (rows + TILE - 1) / TILE;
    const int number = get_group_id(1) * across + get_group_id(0);
    const int left = number / down * TILE, top = number % down * TILE;
#else
    const int left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
#endif
#if STAGED
    __local float tile[TILE][TILE + PAD];
    for (int r = ty; r < TILE; r += ROWS)
        if (top + r < rows && left + tx < columns)
            tile[r][tx] = x[(top + r) * columns + left + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int r = ty; r < TILE; r += ROWS)
        if (left + r < columns && top + tx < rows)
            y[(left + r) * rows + top + tx] = tile[tx][r];
#else
    for (int r = ty; r < TILE; r += ROWS)
        if (top + r < rows && left + tx < columns)
            y[(left + tx) * rows + top + r] = x[(top + r) * columns + left + tx];
#endif
}
