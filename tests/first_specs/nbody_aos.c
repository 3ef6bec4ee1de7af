#include <math.h>

typedef struct {
    float x, y, z, mass;
} body;

typedef struct {
    float x, y, z;
} vec3;

void accelerate(const body *restrict bodies, vec3 *restrict acc, int n)
{
    for (int i = 0; i < n; i++) {
        vec3 a = {0.0f, 0.0f, 0.0f};
        for (int j = 0; j < n; j++) {
            float dx = bodies[j].x - bodies[i].x;
            float dy = bodies[j].y - bodies[i].y;
            float dz = bodies[j].z - bodies[i].z;
            float d2 = dx * dx + dy * dy + dz * dz + 1e-4f;
            float inv = 1.0f / sqrtf(d2);
            float s = bodies[j].mass * inv * inv * inv;
            a.x += s * dx;
            a.y += s * dy;
            a.z += s * dz;
        }
        acc[i] = a;
    }
}
