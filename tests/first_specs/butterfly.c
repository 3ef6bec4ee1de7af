#include <complex.h>

void butterfly(float complex *restrict x, const float complex *restrict w, int half)
{
    for (int k = 0; k < half; k++) {
        float complex t = w[k] * x[k + half];
        float complex u = x[k];
        x[k] = u + t;
        x[k + half] = u - t;
    }
}
