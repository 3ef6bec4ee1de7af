/* <stdio.h> for a machine without a C library's headers; searched last, so that real headers win.
   Declarations only, with the standard's prototypes. */
#ifndef TUNER_STDIO_H
#define TUNER_STDIO_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stddef.h>

#define EOF (-1)

typedef struct tuner_file FILE;

int printf(const char *, ...) __attribute__((format(printf, 1, 2)));
int snprintf(char *, size_t, const char *, ...) __attribute__((format(printf, 3, 4)));
int puts(const char *);

#ifdef __cplusplus
}
#endif

#endif
