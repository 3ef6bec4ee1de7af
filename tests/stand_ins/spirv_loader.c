/* OpenCL's loader with one function of its own, for devices that take no SPIR-V: a module stands for the OpenCL C in the
 * file of its size, $TUNER_TEST_MODULES/SIZE.cl. What else is called goes to the loader that this is linked with.
 */

#include <stdio.h>
#include <stdlib.h>

void *clCreateProgramWithSource(void *context, unsigned count, const char **texts, const size_t *sizes, int *error);

void *clCreateProgramWithIL(void *context, const void *code, size_t size, int *error)
{
    char path[4096];
    static char text[1 << 16];
    (void)code;
    snprintf(path, sizeof path, "%s/%zu.cl", getenv("TUNER_TEST_MODULES"), size);
    FILE *file = fopen(path, "r");
    if (!file) {
        if (error) *error = -59;
        return NULL;
    }
    size_t length = fread(text, 1, sizeof text - 1, file);
    const char *source = text;
    fclose(file);
    return clCreateProgramWithSource(context, 1, &source, &length, error);
}
