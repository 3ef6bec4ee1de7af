#include <math.h>

#define SOFTENING 1e-3f

void nbody(const float *restrict px, const float *restrict py, const float *restrict pz, const float *restrict m,
           float *restrict ax, float *restrict ay, float *restrict az, unsigned n)
{
    for (unsigned i = 0; i < n; ++i) {
        float x = 0, y = 0, z = 0;
        for (unsigned j = 0; j < n; ++j) {
            const float dx = px[j] - px[i], dy = py[j] - py[i], dz = pz[j] - pz[i];
            const float r2 = dx * dx + dy * dy + dz * dz + SOFTENING;
            const float w = m[j] / (r2 * sqrtf(r2));
            x += w * dx;
            y += w * dy;
            z += w * dz;
        }
        ax[i] = x;
        ay[i] = y;
        az[i] = z;
    }
}
