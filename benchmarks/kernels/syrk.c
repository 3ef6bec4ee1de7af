/* The lower triangle of c = alpha * a * transpose(a) + beta * c: a is n x m. */
void syrk(float alpha, float beta, const float *a, float *c, int n, int m)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            c[i * n + j] *= beta;
        for (int k = 0; k < m; k++)
            for (int j = 0; j <= i; j++)
                c[i * n + j] += alpha * a[i * m + k] * a[j * m + k];
    }
}
