/* c += a * b for matrices of a size known to the compiler: what passes alone make of the three loops. */
#define N 160

void matmul(const float a[restrict N][N], const float b[restrict N][N], float c[restrict N][N])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                c[i][j] += a[i][k] * b[k][j];
}
