/* y = a x + y, UNROLL elements at a time. */
#ifndef UNROLL
#define UNROLL 1
#endif

void saxpy(float a, const float *restrict x, float *restrict y, int n)
{
    int i = 0;
#if UNROLL > 1
    for (; i + UNROLL <= n; i += UNROLL)
#pragma clang loop unroll(full)
        for (int j = 0; j < UNROLL; j++)
            y[i + j] += a * x[i + j];
#endif
    for (; i < n; i++)
        y[i] += a * x[i];
}
