#ifndef TILE
#define TILE 16
#endif

__kernel void transpose(__global const float *in, __global float *out, int width, int height)
{
    __local float tile[TILE][TILE + 1];
    int x = get_group_id(0) * TILE + get_local_id(0), y = get_group_id(1) * TILE + get_local_id(1);
    if (x < width && y < height)
        tile[get_local_id(1)][get_local_id(0)] = in[y * width + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    int tx = get_group_id(1) * TILE + get_local_id(0), ty = get_group_id(0) * TILE + get_local_id(1);
    if (tx < height && ty < width)
        out[ty * height + tx] = tile[get_local_id(0)][get_local_id(1)];
}
