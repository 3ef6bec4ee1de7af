/* d = alpha * a * b * c + beta * d, through tmp = alpha * a * b. */
void two_mm(float alpha, float beta, const float *a, const float *b, const float *c, float *d, float *tmp,
            int ni, int nj, int nk, int nl)
{
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++) {
            tmp[i * nj + j] = 0.0f;
            for (int k = 0; k < nk; k++)
                tmp[i * nj + j] += alpha * a[i * nk + k] * b[k * nj + j];
        }
    for (int i = 0; i < ni; i++)
        for (int l = 0; l < nl; l++) {
            d[i * nl + l] *= beta;
            for (int j = 0; j < nj; j++)
                d[i * nl + l] += tmp[i * nj + j] * c[j * nl + l];
        }
}
