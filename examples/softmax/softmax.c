/* Softmax of each row in three passes: the largest value, the sum of the exponentials, the quotients.
 *
 * RECOMPUTE   0: the second pass stores the exponentials and the third scales them; 1: the third computes them
 *             again and the second stores nothing
 * RECIPROCAL  1: one division for each row and a multiplication for each element
 * INTERLEAVE  0: the compiler decides; else how many vectors of each loop are worked on at once
 */
#include <math.h>

#ifndef RECOMPUTE
#define RECOMPUTE 0
#endif
#ifndef RECIPROCAL
#define RECIPROCAL 0
#endif
#ifndef INTERLEAVE
#define INTERLEAVE 0
#endif

#define PRAGMA(text) _Pragma(#text)
#define EXPAND_PRAGMA(text) PRAGMA(text)
#if INTERLEAVE > 0
#define INTERLEAVED EXPAND_PRAGMA(clang loop interleave_count(INTERLEAVE))
#else
#define INTERLEAVED
#endif

void softmax(const float *x, float *y, int rows, int columns)
{
    for (int r = 0; r < rows; r++) {
        const float *in = x + r * columns;
        float *out = y + r * columns;

        float largest = in[0];
        INTERLEAVED
        for (int j = 1; j < columns; j++)
            if (in[j] > largest)
                largest = in[j];

        float sum = 0.0f;
        INTERLEAVED
        for (int j = 0; j < columns; j++) {
            const float e = expf(in[j] - largest);
#if !RECOMPUTE
            out[j] = e;
#endif
            sum += e;
        }

#if RECIPROCAL
        const float scale = 1.0f / sum;
#endif
        INTERLEAVED
        for (int j = 0; j < columns; j++) {
#if RECOMPUTE
            const float e = expf(in[j] - largest);
#else
            const float e = out[j];
#endif
#if RECIPROCAL
            out[j] = e * scale;
#else
            out[j] = e / sum;
#endif
        }
    }
}
