/* One sweep of the 5-point stencil over the inside of a grid of ny rows of nx columns. */
void stencil5(const float *src, float *dst, int nx, int ny)
{
    for (int y = 1; y < ny - 1; y++)
        for (int x = 1; x < nx - 1; x++)
            dst[y * nx + x] = 0.5f * src[y * nx + x] + 0.125f * (src[y * nx + x - 1] + src[y * nx + x + 1] +
                                                               src[(y - 1) * nx + x] + src[(y + 1) * nx + x]);
}
