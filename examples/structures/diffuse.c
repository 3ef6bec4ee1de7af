#include <math.h>

#include "grid.h"

void diffuse(struct grid *g)
{
    double change = 0;
    for (int i = 1; i < g->nx - 1; i++)
        for (int j = 1; j < g->ny - 1; j++) {
            double sum = g->u[j * g->nx + i - 1] + g->u[j * g->nx + i + 1] + g->u[(j - 1) * g->nx + i] +
                         g->u[(j + 1) * g->nx + i] - 4 * g->u[j * g->nx + i];
            g->next[j * g->nx + i] = g->u[j * g->nx + i] + g->dt * g->k[j * g->nx + i] * sum;
        }
    for (int j = 1; j < g->ny - 1; j++)
        for (int i = 1; i < g->nx - 1; i++)
            change += fabs(g->next[j * g->nx + i] - g->u[j * g->nx + i]);
    g->change = change;
}
