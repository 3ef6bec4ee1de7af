struct Particle {
    float3 position;
    float3 velocity;
};

__global__ void move(Particle *particles, float dt, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    particles[i].position.x += dt * particles[i].velocity.x;
    particles[i].position.y += dt * particles[i].velocity.y;
    particles[i].position.z += dt * particles[i].velocity.z;
}
