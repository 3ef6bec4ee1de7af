#include <stdio.h>

void saxpy(float a, const float *x, float *y, int n);

int main(void)
{
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {1, 1, 1, 1, 1};
    saxpy(2.0f, x, y, 5);
    for (int i = 0; i < 5; i++)
        printf("%g ", y[i]);
    printf("\n");
    return 0;
}
