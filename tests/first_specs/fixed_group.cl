#define WG 64

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void block_sum(__global const float *in, __global float *sums, int n)
{
    __local float part[WG];
    const int lid = get_local_id(0), gid = get_global_id(0);
    part[lid] = gid < n ? in[gid] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = WG / 2; s > 0; s /= 2) {
        if (lid < s)
            part[lid] += part[lid + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid == 0)
        sums[get_group_id(0)] = part[0];
}
