/* <string.h> for a machine without a C library's headers; searched last, so that real headers win.
   Declarations only, with the standard's prototypes. */
#ifndef TUNER_STRING_H
#define TUNER_STRING_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stddef.h>

void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
int memcmp(const void *, const void *, size_t);
void *memchr(const void *, int, size_t);
size_t strlen(const char *);
int strcmp(const char *, const char *);
int strncmp(const char *, const char *, size_t);
char *strcpy(char *, const char *);
char *strncpy(char *, const char *, size_t);
char *strchr(const char *, int);

#ifdef __cplusplus
}
#endif

#endif
