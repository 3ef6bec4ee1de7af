void spmv(int rows, const int *restrict row_ptr, const int *restrict col, const double *restrict val,
          const double *restrict x, double *restrict y)
{
    for (int r = 0; r < rows; r++) {
        double sum = 0.0;
        for (int k = row_ptr[r]; k < row_ptr[r + 1]; k++)
            sum += val[k] * x[col[k]];
        y[r] = sum;
    }
}
