void scale(const _Float16 *in, _Float16 *out, float factor, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = (_Float16)(factor * (float)in[i]);
}
