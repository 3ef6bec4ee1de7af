#include <stddef.h>

static inline float fma_(float a, float b, float c) { return a * b + c; }

float dot(const float *restrict a, const float *restrict b, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; ++i)
        sum = fma_(a[i], b[i], sum);
    return sum;
}
