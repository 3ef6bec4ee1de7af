/* c = alpha * a * b + beta * c: a is ni x nk, b is nk x nj, c is ni x nj. */
void gemm(float alpha, float beta, const float *a, const float *b, float *c, int ni, int nj, int nk)
{
    for (int i = 0; i < ni; i++) {
        for (int j = 0; j < nj; j++)
            c[i * nj + j] *= beta;
        for (int k = 0; k < nk; k++)
            for (int j = 0; j < nj; j++)
                c[i * nj + j] += alpha * a[i * nk + k] * b[k * nj + j];
    }
}
