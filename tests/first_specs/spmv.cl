__kernel void spmv(__global const int *row_ptr, __global const int *cols, __global const float *vals,
                   __global const float *x, __global float *y, int rows)
{
    int r = get_global_id(0);
    if (r >= rows)
        return;
    float s = 0;
    for (int k = row_ptr[r]; k < row_ptr[r + 1]; k++)
        s += vals[k] * x[cols[k]];
    y[r] = s;
}
