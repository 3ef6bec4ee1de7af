/* What host code of CUDA programs calls most, so that clang can follow sizes through it. Declarations only: the headers
   of the C++ library and of NVIDIA's runtime need not be there, and are slow to read where they are. */
#pragma once
#include "../../cuda/include/tuner_functions.h"

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

cudaError_t cudaPeekAtLastError();
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset = 0);
typedef struct CUevent_st *cudaEvent_t;
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end);

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#define EOF (-1)
extern "C" {
typedef struct _IO_FILE FILE;
extern FILE *stderr, *stdout;
int fprintf(FILE *file, const char *format, ...);
int printf(const char *format, ...);
FILE *fopen(const char *path, const char *mode);
int fclose(FILE *file);
int fscanf(FILE *file, const char *format, ...);
size_t fread(void *to, size_t size, size_t count, FILE *file);
int sprintf(char *to, const char *format, ...);
int strcmp(const char *a, const char *b);
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
TUNER_OF_ONE(TUNER_MATH)
#define TUNER_MATH2(name)                                                                                         \
    double name(double x, double y);                                                                              \
    float name(float x, float y);                                                                                 \
    float name##f(float x, float y);
TUNER_OF_TWO(TUNER_MATH2) TUNER_MATH2(nextafter)
double fma(double x, double y, double z);
float fmaf(float x, float y, float z);
double frexp(double x, int *exponent);
double ldexp(double x, int exponent);
double modf(double x, double *whole);
double scalbn(double x, int exponent);
int ilogb(double x);
long lrint(double x);
long lround(double x);
long long llrint(double x);
long long llround(double x);
bool isfinite(double x);
bool isinf(double x);
bool isnan(double x);
bool signbit(double x);
#define assert(condition) ((void)(condition))
void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int abs(int x);
template <class T> EMU_BOTH T min(T x, T y);
template <class T> EMU_BOTH T max(T x, T y);

namespace std {
using ::abs;
using ::atoi;
using ::exit;
using ::fabs;
using ::free;
using ::malloc;
using ::rand;
using ::sqrt;
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
struct string {
    string();
    string(const char *text);
    const char *c_str() const;
    size_t size() const;
};
struct ostream {
    template <class T> ostream &operator<<(const T &value);
    ostream &operator<<(ostream &(*change)(ostream &));
};
extern ostream cout, cerr;
ostream &endl(ostream &to);
namespace chrono {
struct nanoseconds {
    long count() const;
};
using microseconds = nanoseconds;
using milliseconds = nanoseconds;
using seconds = nanoseconds;
template <class T, class P = void> struct duration {
    template <class D> duration(D other);
    T count() const;
};
struct time_point {
    nanoseconds operator-(const time_point &other) const;
};
struct steady_clock {
    static chrono::time_point now();
};
using high_resolution_clock = steady_clock;
using system_clock = steady_clock;
template <class T, class D> T duration_cast(D given);
} // namespace chrono
template <long N, long M = 1> struct ratio {};
using milli = ratio<1, 1000>;
using micro = ratio<1, 1000000>;
} // namespace std
