typedef struct {
    float4 position;
    float4 velocity;
} particle;

__kernel void move(__global particle *p, float dt, int n)
{
    int i = get_global_id(0);
    if (i < n)
        p[i].position += dt * p[i].velocity;
}
