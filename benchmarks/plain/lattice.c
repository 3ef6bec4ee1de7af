/* One step of a lattice Boltzmann method (D2Q9, BGK) on a torus of ny rows of nx columns, as everyone first writes it. */
#include <stddef.h>

static const double weight[9] = {4.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36};
static const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
static const int cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};

void lattice(const double *restrict f, double *restrict g, int nx, int ny, double omega)
{
    for (int y = 0; y < ny; y++) {
        for (int x = 0; x < nx; x++) {
            double rho = 0.0, ux = 0.0, uy = 0.0;
            for (int k = 0; k < 9; k++) {
                double v = f[((size_t)k * ny + y) * nx + x];
                rho += v;
                ux += v * cx[k];
                uy += v * cy[k];
            }
            ux /= rho;
            uy /= rho;
            double u2 = ux * ux + uy * uy;
            for (int k = 0; k < 9; k++) {
                double cu = cx[k] * ux + cy[k] * uy;
                double eq = weight[k] * rho * (1.0 + 3.0 * cu + 4.5 * cu * cu - 1.5 * u2);
                int xn = (x + cx[k] + nx) % nx;
                int yn = (y + cy[k] + ny) % ny;
                g[((size_t)k * ny + yn) * nx + xn] =
                    (1.0 - omega) * f[((size_t)k * ny + y) * nx + x] + omega * eq;
            }
        }
    }
}
