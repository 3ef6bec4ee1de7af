/* Sweeps of the 7-point heat equation, from a to b and back: both are n x n x n. */
void heat_3d(float *a, float *b, int steps, int n)
{
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                for (int k = 1; k < n - 1; k++)
                    b[(i * n + j) * n + k] =
                        0.125f * (a[((i + 1) * n + j) * n + k] - 2.0f * a[(i * n + j) * n + k] + a[((i - 1) * n + j) * n + k])
                        + 0.125f * (a[(i * n + j + 1) * n + k] - 2.0f * a[(i * n + j) * n + k] + a[(i * n + j - 1) * n + k])
                        + 0.125f * (a[(i * n + j) * n + k + 1] - 2.0f * a[(i * n + j) * n + k] + a[(i * n + j) * n + k - 1])
                        + a[(i * n + j) * n + k];
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                for (int k = 1; k < n - 1; k++)
                    a[(i * n + j) * n + k] =
                        0.125f * (b[((i + 1) * n + j) * n + k] - 2.0f * b[(i * n + j) * n + k] + b[((i - 1) * n + j) * n + k])
                        + 0.125f * (b[(i * n + j + 1) * n + k] - 2.0f * b[(i * n + j) * n + k] + b[(i * n + j - 1) * n + k])
                        + 0.125f * (b[(i * n + j) * n + k + 1] - 2.0f * b[(i * n + j) * n + k] + b[(i * n + j) * n + k - 1])
                        + b[(i * n + j) * n + k];
    }
}
