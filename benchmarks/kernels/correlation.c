/* Correlation of the columns of data, which is n x m and is normalised in place. */
#include <math.h>

void correlation(float *data, float *corr, float *mean, float *stddev, int m, int n)
{
    for (int j = 0; j < m; j++) {
        mean[j] = 0.0f;
        for (int i = 0; i < n; i++)
            mean[j] += data[i * m + j];
        mean[j] /= (float)n;
    }
    for (int j = 0; j < m; j++) {
        stddev[j] = 0.0f;
        for (int i = 0; i < n; i++)
            stddev[j] += (data[i * m + j] - mean[j]) * (data[i * m + j] - mean[j]);
        stddev[j] = sqrtf(stddev[j] / (float)n);
        stddev[j] = stddev[j] <= 0.1f ? 1.0f : stddev[j];
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            data[i * m + j] = (data[i * m + j] - mean[j]) / (sqrtf((float)n) * stddev[j]);
    for (int i = 0; i < m - 1; i++) {
        corr[i * m + i] = 1.0f;
        for (int j = i + 1; j < m; j++) {
            corr[i * m + j] = 0.0f;
            for (int k = 0; k < n; k++)
                corr[i * m + j] += data[k * m + i] * data[k * m + j];
            corr[j * m + i] = corr[i * m + j];
        }
    }
    corr[(m - 1) * m + m - 1] = 1.0f;
}
