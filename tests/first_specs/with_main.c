#include <stdio.h>
#include <stdlib.h>

static void fill(double *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = i * 0.5;
}

void triad(double *a, const double *b, const double *c, double s, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    fill(b, n);
    fill(c, n);
    triad(a, b, c, 3.0, n);
    printf("%f\n", a[n - 1]);
    return 0;
}
