/* x1 += a * y1 and x2 += transpose(a) * y2: a is n x n. */
void mvt(const float *a, const float *y1, const float *y2, float *x1, float *x2, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x1[i] += a[i * n + j] * y1[j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x2[i] += a[j * n + i] * y2[j];
}
