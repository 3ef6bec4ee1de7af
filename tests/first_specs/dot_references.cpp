// What a function gives back through references, beside structures and alone.
struct Vector {
    int length;
    double *values;
};

static inline void add(double &to, double what) { to += what; }

int dot(const int &n, const Vector &x, const Vector &y, double &result, double &most, bool &finished)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        add(sum, x.values[i] * y.values[i]);
        if (x.values[i] > most)
            most = x.values[i];
    }
    result = sum;
    finished = true;
    return 0;
}
