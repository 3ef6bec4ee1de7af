#define TILE 16
#define MIN(a, b) ((a) < (b) ? (a) : (b))

void transpose(const double *restrict in, double *restrict out, int rows, int cols)
{
    for (int ii = 0; ii < rows; ii += TILE)
        for (int jj = 0; jj < cols; jj += TILE)
            for (int i = ii; i < MIN(ii + TILE, rows); ++i)
                for (int j = jj; j < MIN(jj + TILE, cols); ++j)
                    out[j * rows + i] = in[i * cols + j];
}
