/* s = transpose(a) * r and q = a * p: a is n x m. */
void bicg(const float *a, const float *p, const float *r, float *s, float *q, int m, int n)
{
    for (int j = 0; j < m; j++)
        s[j] = 0.0f;
    for (int i = 0; i < n; i++) {
        q[i] = 0.0f;
        for (int j = 0; j < m; j++) {
            s[j] += r[i] * a[i * m + j];
            q[i] += a[i * m + j] * p[j];
        }
    }
}
