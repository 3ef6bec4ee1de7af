/* How often each byte occurs among n bytes.
 *
 * COPIES  histograms counted side by side and added up at the end, so that equal neighbours do not wait for
 *         one another's store
 * WORD    bytes read by one load: 1, 4 or 8
 * UNROLL  0: the compiler decides; else how often the main loop is unrolled
 */
#ifndef COPIES
#define COPIES 1
#endif
#ifndef WORD
#define WORD 1
#endif
#ifndef UNROLL
#define UNROLL 0
#endif

#define BINS 256
#define PRAGMA(text) _Pragma(#text)
#define EXPAND_PRAGMA(text) PRAGMA(text)
#if UNROLL > 0
#define UNROLLED EXPAND_PRAGMA(clang loop unroll_count(UNROLL))
#else
#define UNROLLED
#endif

#if WORD == 8
typedef unsigned long long word;
#elif WORD == 4
typedef unsigned int word;
#endif

void histogram(const unsigned char *data, int *counts, int n)
{
#if COPIES > 1
    int table[COPIES][BINS];
    for (int c = 0; c < COPIES; c++)
        for (int b = 0; b < BINS; b++)
            table[c][b] = 0;
#define COUNT(which, byte) table[(which) % COPIES][byte]++
#else
    for (int b = 0; b < BINS; b++)
        counts[b] = 0;
#define COUNT(which, byte) counts[byte]++
#endif

    int i = 0;
#if WORD > 1
    UNROLLED
    for (; i + WORD <= n; i += WORD) {
        word w;
        __builtin_memcpy(&w, data + i, sizeof w);
        _Pragma("clang loop unroll(full)")
        for (int k = 0; k < WORD; k++)
            COUNT(k, (w >> (8 * k)) & 255u);
    }
#elif COPIES > 1
    UNROLLED
    for (; i + COPIES <= n; i += COPIES) {
        _Pragma("clang loop unroll(full)")
        for (int k = 0; k < COPIES; k++)
            COUNT(k, data[i + k]);
    }
#else
    UNROLLED
    for (; i + 1 <= n; i++)
        COUNT(0, data[i]);
#endif
#if WORD > 1 || COPIES > 1
    for (; i < n; i++)
        COUNT(0, data[i]);
#endif

#if COPIES > 1
    for (int b = 0; b < BINS; b++) {
        int sum = 0;
        for (int c = 0; c < COPIES; c++)
            sum += table[c][b];
        counts[b] = sum;
    }
#endif
}
