#define AT(a, z, y, x) a[((z) * ny + (y)) * nx + (x)]

void stencil27(const float *restrict in, float *restrict out, int nx, int ny, int nz)
{
    for (int z = 1; z < nz - 1; z++)
        for (int y = 1; y < ny - 1; y++)
            for (int x = 1; x < nx - 1; x++) {
                float sum = 0.0f;
                for (int dz = -1; dz <= 1; dz++)
                    for (int dy = -1; dy <= 1; dy++)
                        for (int dx = -1; dx <= 1; dx++)
                            sum += AT(in, z + dz, y + dy, x + dx);
                AT(out, z, y, x) = sum / 27.0f;
            }
}
