namespace blas {

template <class T, int TILE = 16>
void transpose(const T *in, T *out, int rows, int cols)
{
    for (int i0 = 0; i0 < rows; i0 += TILE)
        for (int j0 = 0; j0 < cols; j0 += TILE)
            for (int i = i0; i < i0 + TILE && i < rows; ++i)
                for (int j = j0; j < j0 + TILE && j < cols; ++j)
                    out[j * rows + i] = in[i * cols + j];
}

}  // namespace blas
