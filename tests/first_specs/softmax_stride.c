#include <math.h>

void softmax(const float *in, float *out, int batch, int classes)
{
    for (int b = 0; b < batch; b++) {
        const float *x = &in[b * classes];
        float *y = &out[b * classes];
        float top = x[0];
        for (int c = 1; c < classes; c++)
            if (x[c] > top)
                top = x[c];
        float sum = 0;
        for (int c = 0; c < classes; c++) {
            y[c] = expf(x[c] - top);
            sum += y[c];
        }
        for (int c = 0; c < classes; c++)
            y[c] /= sum;
    }
}
