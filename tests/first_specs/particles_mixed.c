struct particle {
    double position[3];
    double velocity[3];
    int cell;
};

void advance(struct particle *p, double dt, int n)
{
    for (int i = 0; i < n; i++)
        for (int d = 0; d < 3; d++)
            p[i].position[d] += dt * p[i].velocity[d];
}
