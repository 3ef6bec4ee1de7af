/* Gauss-Seidel sweeps over nine neighbours in place: a is n x n. */
void seidel_2d(float *a, int steps, int n)
{
    for (int t = 0; t < steps; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                a[i * n + j] = (a[(i - 1) * n + j - 1] + a[(i - 1) * n + j] + a[(i - 1) * n + j + 1]
                                + a[i * n + j - 1] + a[i * n + j] + a[i * n + j + 1]
                                + a[(i + 1) * n + j - 1] + a[(i + 1) * n + j] + a[(i + 1) * n + j + 1]) / 9.0f;
}
