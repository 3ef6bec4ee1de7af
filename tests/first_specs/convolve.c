#ifndef RADIUS
#define RADIUS 3
#endif

void convolve(const float *restrict image, const float *restrict weights, float *restrict out, int width, int height)
{
    for (int y = RADIUS; y < height - RADIUS; y++)
        for (int x = RADIUS; x < width - RADIUS; x++) {
            float sum = 0.0f;
            for (int dy = -RADIUS; dy <= RADIUS; dy++)
                for (int dx = -RADIUS; dx <= RADIUS; dx++)
                    sum += weights[(dy + RADIUS) * (2 * RADIUS + 1) + dx + RADIUS] * image[(y + dy) * width + x + dx];
            out[y * width + x] = sum;
        }
}
