typedef uchar4 pixel;
__kernel void tint(__global const pixel *src, __global uchar4 *dst, __global const ushort8 *w, __global uint2 *u, const int n)
{
    int i = get_global_id(0);
    if (i < n) { dst[i] = convert_uchar4_sat(convert_float4(src[i]) * 0.5f); u[i] = convert_uint2(w[i].lo.lo); }
}
