// Gravitational force on every body, all pairs; bodies (x, y, z, mass) pass through shared memory by tiles of BLOCK.
// A thread computes ITEMS bodies; the loop over a tile is unrolled UNROLL times.

#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef ITEMS
#define ITEMS 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

// EVOLVE-BLOCK-START
extern "C" __global__ void __launch_bounds__(BLOCK)
    nbody(const float4 *__restrict__ bodies, float4 *__restrict__ force, int n) {
    __shared__ float4 tile[BLOCK];
    float3 sum[ITEMS];
    float4 own[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        const int body = (blockIdx.x * ITEMS + i) * BLOCK + threadIdx.x;
        own[i] = body < n ? bodies[body] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum[i] = make_float3(0.0f, 0.0f, 0.0f);
    }
    for (int first = 0; first < n; first += BLOCK) {
        const int other = first + threadIdx.x;
        tile[threadIdx.x] = other < n ? bodies[other] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncthreads();
#pragma unroll UNROLL
        for (int k = 0; k < BLOCK; k++) {
            const float4 it = tile[k];
#pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                const float dx = it.x - own[i].x, dy = it.y - own[i].y, dz = it.z - own[i].z;
                const float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-2f);
                const float pull = it.w * r * r * r;
                sum[i].x += pull * dx;
                sum[i].y += pull * dy;
                sum[i].z += pull * dz;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < ITEMS; i++) {
        const int body = (blockIdx.x * ITEMS + i) * BLOCK + threadIdx.x;
        if (body < n) force[body] = make_float4(sum[i].x, sum[i].y, sum[i].z, 0.0f);
    }
}
// EVOLVE-BLOCK-END
