void rows(float **table, float *sums, int rows, int cols)
{
    for (int r = 0; r < rows; r++) {
        sums[r] = 0;
        for (int c = 0; c < cols; c++)
            sums[r] += table[r][c];
    }
}
