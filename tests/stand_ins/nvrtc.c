// A stand-in for libnvrtc: a "cubin" is a shared object that this host's compiler makes of the source as C, with the
// options that begin with -D. Its kernels are what the stand-in driver calls.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char *text, *code; size_t size; char name[256]; } Program;

int nvrtcCreateProgram(Program **program, const char *text, const char *name, int count, const char *const *headers,
                       const char *const *names) {
    *program = calloc(1, sizeof **program);
    (*program)->text = strdup(text);
    return 0;
}
int nvrtcAddNameExpression(Program *program, const char *expression) {
    snprintf(program->name, sizeof program->name, "%s", expression);
    return 0;
}
int nvrtcGetLoweredName(Program *program, const char *expression, const char **symbol) {
    // As if mangled: the part before the template's arguments.
    static char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(expression, "<"), expression);
    *symbol = name;
    return 0;
}
int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    // One name for all sources: what is made of equal ones is equal.
    char folder[] = "/tmp/nvrtc-XXXXXX", source[64], object[64], command[4096];
    if (!mkdtemp(folder)) return 6;
    snprintf(source, sizeof source, "%s/k.c", folder);
    snprintf(object, sizeof object, "%s/k.so", folder);
    snprintf(command, sizeof command, "cd %s && cc -O1 -w -shared -fPIC", folder);
    FILE *written = fopen(source, "w");
    fputs(program->text, written);
    fclose(written);
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], "-D", 2) && options[i][2]) strcat(strcat(command, " "), options[i]);
    snprintf(command + strlen(command), sizeof command - strlen(command), " -o k.so k.c");
    // What is preloaded into this process is none of the compiler's business.
    unsetenv("LD_PRELOAD");
    int failed = system(command);
    FILE *made = failed ? NULL : fopen(object, "rb");
    if (made) {
        fseek(made, 0, SEEK_END);
        program->size = ftell(made);
        rewind(made);
        program->code = malloc(program->size);
        program->size = fread(program->code, 1, program->size, made);
        fclose(made);
    }
    unlink(source);
    unlink(object);
    rmdir(folder);
    return made ? 0 : 6;
}
int nvrtcGetCUBINSize(Program *program, size_t *size) { *size = program->size; return 0; }
int nvrtcGetCUBIN(Program *program, char *code) { memcpy(code, program->code, program->size); return 0; }
int nvrtcDestroyProgram(Program **program) { free((*program)->text); free((*program)->code); free(*program); return 0; }
