#ifndef LAYOUT_H
#define LAYOUT_H

#define INDEX(i, j, ld) ((i) * (ld) + (j))

typedef double real;

#endif
