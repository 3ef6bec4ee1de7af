#include <stdint.h>

void to_gray(const uint8_t *restrict rgb, uint8_t *restrict gray, int width, int height)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const uint8_t *p = rgb + 3 * (y * width + x);
            gray[y * width + x] = (uint8_t)((77 * p[0] + 150 * p[1] + 29 * p[2]) >> 8);
        }
}
