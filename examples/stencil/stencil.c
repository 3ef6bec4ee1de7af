/* One sweep of the 5-point stencil over a grid of ny rows of nx columns; the border is copied.
 *
 * TILE      0: whole rows; else columns in blocks of so many, so that three rows of a block stay in cache
 * UNROLL    0: the compiler decides; else how often the loop over columns is unrolled
 * ROWS      rows updated together: each row of src is then read by fewer passes
 * DISTINCT  1: promise the compiler that src and dst do not overlap
 */
#ifndef TILE
#define TILE 0
#endif
#ifndef UNROLL
#define UNROLL 0
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef DISTINCT
#define DISTINCT 0
#endif

#define PRAGMA(text) _Pragma(#text)
#define EXPAND_PRAGMA(text) PRAGMA(text)
#if UNROLL > 0
#define UNROLLED EXPAND_PRAGMA(clang loop unroll_count(UNROLL))
#else
#define UNROLLED
#endif
#if DISTINCT
#define NOALIAS restrict
#else
#define NOALIAS
#endif

static void block(const float *NOALIAS src, float *NOALIAS dst, int nx, int ny, int first, int last)
{
    int y = 1;
    for (; y + ROWS <= ny - 1; y += ROWS) {
        UNROLLED
        for (int x = first; x < last; x++) {
            _Pragma("clang loop unroll(full)")
            for (int r = 0; r < ROWS; r++) {
                const int p = (y + r) * nx + x;
                dst[p] = 0.5f * src[p] + 0.125f * (src[p - 1] + src[p + 1] + src[p - nx] + src[p + nx]);
            }
        }
    }
    for (; y < ny - 1; y++) {
        for (int x = first; x < last; x++) {
            const int p = y * nx + x;
            dst[p] = 0.5f * src[p] + 0.125f * (src[p - 1] + src[p + 1] + src[p - nx] + src[p + nx]);
        }
    }
}

void stencil5(const float *NOALIAS src, float *NOALIAS dst, int nx, int ny)
{
    for (int x = 0; x < nx; x++) {
        dst[x] = src[x];
        dst[(ny - 1) * nx + x] = src[(ny - 1) * nx + x];
    }
    for (int y = 1; y < ny - 1; y++) {
        dst[y * nx] = src[y * nx];
        dst[y * nx + nx - 1] = src[y * nx + nx - 1];
    }
#if TILE > 0
    for (int first = 1; first < nx - 1; first += TILE)
        block(src, dst, nx, ny, first, first + TILE < nx - 1 ? first + TILE : nx - 1);
#else
    block(src, dst, nx, ny, 1, nx - 1);
#endif
}
