/* Gravitational accelerations of n bodies by all pairs, softened so that a body does not act on itself.
 *
 * BODIES      bodies whose accelerations are summed together: the others are then read once for all of them
 * INTERLEAVE  0: the compiler decides; else how many vectors of the loop over the others are worked on at once
 */
#include <math.h>

#ifndef BODIES
#define BODIES 1
#endif
#ifndef INTERLEAVE
#define INTERLEAVE 0
#endif

#define PRAGMA(text) _Pragma(#text)
#define EXPAND_PRAGMA(text) PRAGMA(text)
#if INTERLEAVE > 0
#define INTERLEAVED EXPAND_PRAGMA(clang loop interleave_count(INTERLEAVE))
#else
#define INTERLEAVED
#endif

#define SOFTENING 1e-2f

static void one(const float *x, const float *y, const float *z, const float *m, float *ax, float *ay, float *az,
                int n, int i)
{
    float sx = 0.0f, sy = 0.0f, sz = 0.0f;
    INTERLEAVED
    for (int j = 0; j < n; j++) {
        const float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
        const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
        const float pull = m[j] * inverse * inverse * inverse;
        sx += pull * dx;
        sy += pull * dy;
        sz += pull * dz;
    }
    ax[i] = sx;
    ay[i] = sy;
    az[i] = sz;
}

void nbody(const float *x, const float *y, const float *z, const float *m, float *ax, float *ay, float *az, int n)
{
    int i = 0;
#if BODIES > 1
    for (; i + BODIES <= n; i += BODIES) {
        float sx[BODIES] = {0.0f}, sy[BODIES] = {0.0f}, sz[BODIES] = {0.0f};
        INTERLEAVED
        for (int j = 0; j < n; j++) {
            _Pragma("clang loop unroll(full)")
            for (int b = 0; b < BODIES; b++) {
                const float dx = x[j] - x[i + b], dy = y[j] - y[i + b], dz = z[j] - z[i + b];
                const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
                const float pull = m[j] * inverse * inverse * inverse;
                sx[b] += pull * dx;
                sy[b] += pull * dy;
                sz[b] += pull * dz;
            }
        }
        for (int b = 0; b < BODIES; b++) {
            ax[i + b] = sx[b];
            ay[i + b] = sy[b];
            az[i + b] = sz[b];
        }
    }
#endif
    for (; i < n; i++)
        one(x, y, z, m, ax, ay, az, n, i);
}
