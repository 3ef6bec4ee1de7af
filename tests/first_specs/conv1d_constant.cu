#define RADIUS 4

__constant__ float weights[2 * RADIUS + 1];

__global__ void conv1d(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0.0f;
    for (int k = -RADIUS; k <= RADIUS; ++k)
        if (i + k >= 0 && i + k < n)
            sum += weights[k + RADIUS] * in[i + k];
    out[i] = sum;
}
