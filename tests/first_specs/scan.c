#include <stddef.h>

void scan(const long *restrict in, long *restrict out, size_t n)
{
    long sum = 0;
    for (size_t i = 0; i < n; ++i) {
        out[i] = sum;
        sum += in[i];
    }
}
