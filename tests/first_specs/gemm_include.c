#include "layout.h"

#ifndef BLOCK
#define BLOCK 32
#endif

void gemm(const real *restrict a, const real *restrict b, real *restrict c, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            c[INDEX(i, j, n)] = 0;
    for (int kk = 0; kk < k; kk += BLOCK)
        for (int i = 0; i < m; i++)
            for (int p = kk; p < kk + BLOCK && p < k; p++)
                for (int j = 0; j < n; j++)
                    c[INDEX(i, j, n)] += a[INDEX(i, p, k)] * b[INDEX(p, j, n)];
}
