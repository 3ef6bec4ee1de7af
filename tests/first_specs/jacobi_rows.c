#include <stddef.h>

/* One step of Jacobi's method on a plate of fixed size. */
#define N 1024

void jacobi(const double a[N][N], double b[N][N])
{
    for (size_t i = 1; i + 1 < N; i++)
        for (size_t j = 1; j + 1 < N; j++)
            b[i][j] = 0.25 * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]);
}
