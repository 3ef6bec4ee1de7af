void heat(int ny, int nx, float in[ny][nx], float out[ny][nx], float k)
{
    for (int y = 1; y < ny - 1; ++y)
        for (int x = 1; x < nx - 1; ++x)
            out[y][x] = in[y][x] + k * (in[y - 1][x] + in[y + 1][x] + in[y][x - 1] + in[y][x + 1] - 4.0f * in[y][x]);
}
