"""Products of matrices by GSL, which leaves them to the CBLAS beside it: product.py SIZE TIMES."""

import ctypes
import sys

size, times = int(sys.argv[1]), int(sys.argv[2])
cblas = ctypes.CDLL("libgslcblas.so.0", mode=ctypes.RTLD_GLOBAL)
gsl = ctypes.CDLL("libgsl.so.27")
gsl.gsl_matrix_calloc.restype = ctypes.c_void_p
gsl.gsl_matrix_calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
gsl.gsl_matrix_set.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_double]
gsl.gsl_matrix_get.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
gsl.gsl_matrix_get.restype = ctypes.c_double
gsl.gsl_blas_dgemm.argtypes = [
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_double,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_double,
    ctypes.c_void_p,
]
a, b, c = (gsl.gsl_matrix_calloc(size, size) for _ in range(3))
for i in range(size):
    for j in range(size):
        gsl.gsl_matrix_set(a, i, j, (i * 7 + j * 3) % 11 - 5)
        gsl.gsl_matrix_set(b, i, j, (i * 5 + j * 2) % 13 - 6)
for _ in range(times):
    gsl.gsl_blas_dgemm(111, 111, 1.0, a, b, 0.5, c)
print(sum(gsl.gsl_matrix_get(c, i, (i * 31) % size) for i in range(size)))
