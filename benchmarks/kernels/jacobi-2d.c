/* Sweeps of the 5-point stencil, from a to b and back: both are n x n. */
void jacobi_2d(float *a, float *b, int steps, int n)
{
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                b[i * n + j] = 0.2f * (a[i * n + j] + a[i * n + j - 1] + a[i * n + j + 1]
                                       + a[(i + 1) * n + j] + a[(i - 1) * n + j]);
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                a[i * n + j] = 0.2f * (b[i * n + j] + b[i * n + j - 1] + b[i * n + j + 1]
                                       + b[(i + 1) * n + j] + b[(i - 1) * n + j]);
    }
}
