#ifndef GRID_H
#define GRID_H
struct grid {
    int nx, ny, steps;
    double dt;
    double *u;         /* ny * nx */
    double *next;
    const double *k;
    double change;
};
void diffuse(struct grid *g);
#endif
