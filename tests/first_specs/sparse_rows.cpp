// A sparse matrix with a row's entries at an address of its own, and a sweep over them, as in conjugate gradients.
#include <assert.h>

typedef int index_type;

struct Matrix {
    const char *title;
    index_type rows, columns;
    char *length;
    index_type **column;
    double **entry;
    double **diagonal;
};

struct Vector {
    index_type length;
    double *values;
};

static double product(const double *entry, const index_type *column, int length, const double *x)
{
    double sum = 0;
    for (int k = 0; k < length; k++)
        sum += entry[k] * x[column[k]];
    return sum;
}

int sweep(const Matrix &A, const Vector &right, Vector &x)
{
    assert(x.length == A.columns);
    assert(right.length >= A.rows);
    double **diagonal = A.diagonal;
    for (index_type i = 0; i < A.rows; i++) {
        const double *const entry = A.entry[i];
        const index_type *const column = A.column[i];
        const int length = A.length[i];
        double sum = right.values[i];
        for (int k = 0; k < length; k++)
            sum -= entry[k] * x.values[column[k]];
        x.values[i] += sum / (64 * diagonal[i][0]);
    }
    for (index_type i = A.rows - 1; i >= 0; i--)
        x.values[i] -= product(A.entry[i], A.column[i], A.length[i], x.values) / (64 * diagonal[i][0]);
    return 0;
}
