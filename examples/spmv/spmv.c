/* y = A x for a sparse matrix in compressed rows (CSR): row r holds the entries start[r] to start[r + 1] - 1.
 *
 * SUMS      partial sums of a row that do not wait for one another
 * UNROLL    0: the compiler decides; else how often the loop over a row's entries is unrolled
 * PREFETCH  0: none; else how many entries ahead values and columns are fetched
 * DISTINCT  1: promise the compiler that y overlaps nothing
 */
#ifndef SUMS
#define SUMS 1
#endif
#ifndef UNROLL
#define UNROLL 0
#endif
#ifndef PREFETCH
#define PREFETCH 0
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

void spmv(const int *start, const int *column, const float *value, const float *x, float *NOALIAS y, int rows)
{
    for (int r = 0; r < rows; r++) {
        const int last = start[r + 1];
        int e = start[r];
        float sum = 0.0f;
#if SUMS > 1
        float partial[SUMS] = {0.0f};
        for (; e + SUMS <= last; e += SUMS) {
#if PREFETCH > 0
            __builtin_prefetch(value + e + PREFETCH);
            __builtin_prefetch(column + e + PREFETCH);
#endif
            _Pragma("clang loop unroll(full)")
            for (int s = 0; s < SUMS; s++)
                partial[s] += value[e + s] * x[column[e + s]];
        }
        for (int s = 0; s < SUMS; s++)
            sum += partial[s];
#endif
        UNROLLED
        for (; e < last; e++) {
#if PREFETCH > 0 && SUMS == 1
            __builtin_prefetch(value + e + PREFETCH);
            __builtin_prefetch(column + e + PREFETCH);
#endif
            sum += value[e] * x[column[e]];
        }
        y[r] = sum;
    }
}
