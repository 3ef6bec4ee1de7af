#include <stdint.h>
#include <string.h>

#define BINS 256

void histogram(const uint8_t *data, uint32_t *bins, size_t n)
{
    memset(bins, 0, BINS * sizeof *bins);
    for (size_t i = 0; i < n; i++)
        bins[data[i]]++;
}
