/* Potential at every charge from all those before it, and the energy of all pairs, by a team of OpenMP's threads.
 *
 * Row i has i terms, so that equal shares of rows are unequal shares of work.
 *
 * SCHEDULE  static, dynamic or guided: how rows are dealt out
 * CHUNK     rows that a thread takes at once
 * BATCH     rows of one piece: their charges stay in cache while further ones are added
 */
#include <math.h>

#ifndef SCHEDULE
#define SCHEDULE static
#endif
#ifndef CHUNK
#define CHUNK 64
#endif
#ifndef BATCH
#define BATCH 1
#endif

static float row(const float *restrict x, const float *restrict y, const float *restrict charge, int i)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < i; j++) {
        const float dx = x[i] - x[j], dy = y[i] - y[j];
        sum += charge[j] / sqrtf(dx * dx + dy * dy + 0.01f);
    }
    return sum;
}

void pairs(const float *x, const float *y, const float *charge, float *potential, double *energy, int n)
{
    double total = 0.0;
#pragma omp parallel for schedule(SCHEDULE, CHUNK) reduction(+ : total)
    for (int first = 0; first < n; first += BATCH) {
        const int last = first + BATCH < n ? first + BATCH : n;
        for (int i = first; i < last; i++) {
            potential[i] = row(x, y, charge, i);
            total += charge[i] * potential[i];
        }
    }
    *energy = total;
}
