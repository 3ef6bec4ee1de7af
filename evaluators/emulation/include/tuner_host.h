/* What host code of CUDA programs calls most, so that clang can follow sizes through it. Declarations only: the headers
   of the C++ library and of NVIDIA's runtime need not be there, and are slow to read where they are. */
#pragma once

typedef enum cudaError { cudaSuccess = 0 } cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
/* A pointer to any pointer. */
cudaError_t cudaMalloc(void *pointer, size_t size);
cudaError_t cudaMallocManaged(void *pointer, size_t size, unsigned flags = 1);
cudaError_t cudaMallocHost(void *pointer, size_t size, unsigned flags = 0);
cudaError_t cudaMallocAsync(void *pointer, size_t size, cudaStream_t stream);
cudaError_t cudaHostAlloc(void *pointer, size_t size, unsigned flags);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemset(void *to, int value, size_t size);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t error);

extern "C" {
typedef struct _IO_FILE FILE;
extern FILE *stderr, *stdout;
int fprintf(FILE *file, const char *format, ...);
int printf(const char *format, ...);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
void free(void *pointer);
int atoi(const char *text);
long atol(const char *text);
double atof(const char *text);
int rand();
void srand(unsigned seed);
void exit(int status);
}

#define TUNER_MATH(name)                                                                                          \
    double name(double x);                                                                                        \
    float name(float x);                                                                                          \
    float name##f(float x);
TUNER_MATH(ceil)
TUNER_MATH(fabs)
TUNER_MATH(floor)
TUNER_MATH(log2)
TUNER_MATH(sqrt)
double pow(double x, double y);
int abs(int x);
template <class T> EMU_BOTH T min(T x, T y);
template <class T> EMU_BOTH T max(T x, T y);

namespace std {
using ::exit;
using ::free;
using ::malloc;
using ::rand;
template <class T> struct vector {
    vector();
    vector(size_t size);
    vector(size_t size, const T &value);
    T *data();
    const T *data() const;
    T *begin();
    T *end();
    size_t size() const;
    void resize(size_t size);
    void push_back(const T &value);
    T &operator[](size_t place);
    const T &operator[](size_t place) const;
};
} // namespace std
