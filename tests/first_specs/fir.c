#include <stdint.h>

#define TAPS 32

void fir(const float *restrict x, const float *restrict h, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n - TAPS + 1; i++) {
        float acc = 0.0f;
        for (int t = 0; t < TAPS; t++)
            acc += h[t] * x[i + t];
        y[i] = acc;
    }
}
