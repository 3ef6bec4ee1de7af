/* b = alpha * transpose(a) * b: a is m x m, lower triangular with ones on its diagonal; b is m x n. */
void trmm(float alpha, const float *a, float *b, int m, int n)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            for (int k = i + 1; k < m; k++)
                b[i * n + j] += a[k * m + i] * b[k * n + j];
            b[i * n + j] = alpha * b[i * n + j];
        }
}
