#include <math.h>
void softmax(const float *x, float *y, int rows, int columns)
{
    for (int r = 0; r < rows; r++) {
        const float *in = x + r * columns;
        float *out = y + r * columns;
        float largest = in[0];
        for (int j = 1; j < columns; j++)
            if (in[j] > largest)
                largest = in[j];
        float sum = 0.0f;
        for (int j = 0; j < columns; j++) {
            out[j] = expf(in[j] - largest);
            sum += out[j];
        }
        for (int j = 0; j < columns; j++)
            out[j] /= sum;
    }
}
