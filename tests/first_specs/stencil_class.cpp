#include <algorithm>
#include <cstdint>

namespace {
struct Grid {
    const float *data;
    int nx, ny;
    float at(int x, int y) const { return data[std::clamp(y, 0, ny - 1) * nx + std::clamp(x, 0, nx - 1)]; }
};
}  // namespace

extern "C" void blur(const float *in, float *out, std::int32_t nx, std::int32_t ny)
{
    Grid grid{in, nx, ny};
    for (int y = 0; y < ny; ++y)
        for (int x = 0; x < nx; ++x)
            out[y * nx + x] = 0.2f * (grid.at(x, y) + grid.at(x - 1, y) + grid.at(x + 1, y) + grid.at(x, y - 1) + grid.at(x, y + 1));
}
