void gather(const float *table, const int *index, float *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = table[index[i]];
}
