#include <cstddef>

template <typename T>
void axpy(T alpha, const T *x, T *y, std::size_t n)
{
    for (std::size_t i = 0; i < n; ++i)
        y[i] += alpha * x[i];
}
