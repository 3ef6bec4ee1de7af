// Numbers by reference in a function without structures.
static void add(double &to, const float &what) { to += what; }

static void raise(float &to, float by) { to += by; }

void axpy(const int &n, const float &a, const float *x, float *y, double &sum)
{
    for (int i = 0; i < n; i++) {
        raise(y[i], a * x[i]);
        add(sum, y[i]);
    }
}
