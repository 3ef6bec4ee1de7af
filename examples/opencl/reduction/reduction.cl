/* The sum of each row; a work-group adds up one row. The partial sums are in local memory that the launch gives.
 *
 * BLOCK    work-items of a work-group
 * WIDTH    elements that a work-item loads at once
 * CHAINS   independent sums of a work-item
 * TREE     1: partial sums are added in a tree; 0: one work-item adds them up
 */
#ifndef BLOCK
#define BLOCK 64
#endif
#ifndef WIDTH
#define WIDTH 1
#endif
#ifndef CHAINS
#define CHAINS 1
#endif
#ifndef TREE
#define TREE 1
#endif

#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)
#if WIDTH == 1
typedef float vec;
#define LOAD(p) (*(p))
#else
typedef JOIN(float, WIDTH) vec;
#define LOAD(p) JOIN(vload, WIDTH)(0, p)
#endif

__kernel void reduction(__global const float *restrict x, __global float *restrict sums, int columns,
                        __local float *partial)
{
    const int item = get_local_id(0);
    __global const float *row = x + (size_t)get_group_id(0) * columns;
    union { vec v[CHAINS]; float e[CHAINS * WIDTH]; } sum;
    for (int c = 0; c < CHAINS * WIDTH; c++)
        sum.e[c] = 0.0f;
    const int step = BLOCK * WIDTH * CHAINS, whole = columns / step * step;
    for (int j = item * WIDTH; j < whole; j += step)
        for (int c = 0; c < CHAINS; c++)
            sum.v[c] += LOAD(row + j + c * BLOCK * WIDTH);
    float total = 0.0f;
    for (int j = whole + item; j < columns; j += BLOCK)
        total += row[j];
    for (int c = 0; c < CHAINS * WIDTH; c++)
        total += sum.e[c];
    partial[item] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
#if TREE
    for (int gap = BLOCK / 2; gap > 0; gap /= 2) {
        if (item < gap)
            partial[item] += partial[item + gap];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0)
        sums[get_group_id(0)] = partial[0];
#else
    if (item == 0) {
        float all = 0.0f;
        for (int i = 0; i < BLOCK; i++)
            all += partial[i];
        sums[get_group_id(0)] = all;
    }
#endif
}
