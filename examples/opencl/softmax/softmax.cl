/* Softmax of each row; a work-group computes one row.
 *
 * BLOCK      work-items of a work-group
 * WIDTH      elements that a work-item loads at once
 * RECOMPUTE  0: the exponentials are stored and read again; 1: they are computed twice
 * NATIVE     1: the device's fast exponential
 */
#ifndef BLOCK
#define BLOCK 64
#endif
#ifndef WIDTH
#define WIDTH 1
#endif
#ifndef RECOMPUTE
#define RECOMPUTE 0
#endif
#ifndef NATIVE
#define NATIVE 0
#endif

#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)
#if WIDTH == 1
typedef float vec;
#define LOAD(p) (*(p))
#define STORE(v, p) (*(p) = (v))
#else
typedef JOIN(float, WIDTH) vec;
#define LOAD(p) JOIN(vload, WIDTH)(0, p)
#define STORE(v, p) JOIN(vstore, WIDTH)(v, 0, p)
#endif
#if NATIVE
#define EXP native_exp
#else
#define EXP exp
#endif

float sum_of(vec v)
{
    union { vec v; float e[WIDTH]; } u;
    u.v = v;
    float s = u.e[0];
    for (int i = 1; i < WIDTH; i++)
        s += u.e[i];
    return s;
}

float largest_of(vec v)
{
    union { vec v; float e[WIDTH]; } u;
    u.v = v;
    float m = u.e[0];
    for (int i = 1; i < WIDTH; i++)
        m = max(m, u.e[i]);
    return m;
}

__kernel void softmax(__global const float *restrict x, __global float *restrict y, int columns)
{
    __local float shared[BLOCK];
    const int item = get_local_id(0);
    const size_t row = get_group_id(0);
    __global const float *in = x + row * columns;
    __global float *out = y + row * columns;
    const int whole = columns / WIDTH * WIDTH;

    float top = -INFINITY;
    for (int j = item * WIDTH; j < whole; j += BLOCK * WIDTH)
        top = max(top, largest_of(LOAD(in + j)));
    for (int j = whole + item; j < columns; j += BLOCK)
        top = max(top, in[j]);
    shared[item] = top;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int gap = BLOCK / 2; gap > 0; gap /= 2) {
        if (item < gap)
            shared[item] = max(shared[item], shared[item + gap]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    top = shared[0];
    barrier(CLK_LOCAL_MEM_FENCE);

    float sum = 0.0f;
    for (int j = item * WIDTH; j < whole; j += BLOCK * WIDTH) {
        const vec e = EXP(LOAD(in + j) - top);
#if !RECOMPUTE
        STORE(e, out + j);
#endif
        sum += sum_of(e);
    }
    for (int j = whole + item; j < columns; j += BLOCK) {
        const float e = EXP(in[j] - top);
        out[j] = e;
        sum += e;
    }
    shared[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int gap = BLOCK / 2; gap > 0; gap /= 2) {
        if (item < gap)
            shared[item] += shared[item + gap];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float scale = 1.0f / shared[0];

    for (int j = item * WIDTH; j < whole; j += BLOCK * WIDTH) {
#if RECOMPUTE
        STORE(EXP(LOAD(in + j) - top) * scale, out + j);
#else
        STORE(LOAD(out + j) * scale, out + j);
#endif
    }
    for (int j = whole + item; j < columns; j += BLOCK)
        out[j] *= scale;
}
