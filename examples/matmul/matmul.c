/* c = a * b for square row-major matrices: the three loops that everyone writes first.
 *
 * ORDER   0: i, j, k (a dot product for each element); 1: i, k, j (rows of b added up)
 * TILE    0: whole rows; else columns of c in blocks of so many, which stay in the first-level cache
 * ROWS    rows of c computed together, so that each row of b is read once for all of them (ORDER 1 only)
 * UNROLL  0: the compiler decides; else how often the innermost loop is unrolled
 */
#ifndef ORDER
#define ORDER 0
#endif
#ifndef TILE
#define TILE 0
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef UNROLL
#define UNROLL 0
#endif

#define PRAGMA(text) _Pragma(#text)
#define EXPAND_PRAGMA(text) PRAGMA(text)
#if UNROLL > 0
#define UNROLLED EXPAND_PRAGMA(clang loop unroll_count(UNROLL))
#else
#define UNROLLED
#endif

#if ORDER == 0

static void columns(const float *a, const float *b, float *c, int n, int first, int last)
{
    for (int i = 0; i < n; i++) {
        for (int j = first; j < last; j++) {
            float sum = 0.0f;
            UNROLLED
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
}

#else

static void columns(const float *a, const float *b, float *c, int n, int first, int last)
{
    int i = 0;
    for (; i + ROWS <= n; i += ROWS) {
        for (int r = 0; r < ROWS; r++)
            for (int j = first; j < last; j++)
                c[(i + r) * n + j] = 0.0f;
        for (int k = 0; k < n; k++) {
            UNROLLED
            for (int j = first; j < last; j++) {
                _Pragma("clang loop unroll(full)")
                for (int r = 0; r < ROWS; r++)
                    c[(i + r) * n + j] += a[(i + r) * n + k] * b[k * n + j];
            }
        }
    }
    for (; i < n; i++) {
        for (int j = first; j < last; j++)
            c[i * n + j] = 0.0f;
        for (int k = 0; k < n; k++)
            for (int j = first; j < last; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}

#endif

void matmul(const float *a, const float *b, float *c, int n)
{
#if TILE > 0
    for (int first = 0; first < n; first += TILE)
        columns(a, b, c, n, first, first + TILE < n ? first + TILE : n);
#else
    columns(a, b, c, n, 0, n);
#endif
}
