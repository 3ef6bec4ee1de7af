void solve(const double *restrict l, double *restrict x, int n)
{
    for (int i = 0; i < n; i++) {
        double s = x[i];
        for (int j = 0; j < i; j++)
            s -= l[i * n + j] * x[j];
        x[i] = s / (l[i * n + i] + 1000.0);
    }
}
