/* y = transpose(a) * (a * x): a is m x n. */
void atax(const float *a, const float *x, float *y, float *tmp, int m, int n)
{
    for (int j = 0; j < n; j++)
        y[j] = 0.0f;
    for (int i = 0; i < m; i++) {
        tmp[i] = 0.0f;
        for (int j = 0; j < n; j++)
            tmp[i] += a[i * n + j] * x[j];
        for (int j = 0; j < n; j++)
            y[j] += a[i * n + j] * tmp[i];
    }
}
