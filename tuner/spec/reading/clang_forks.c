/* Put before clang's own start by LD_PRELOAD: the process waits with everything loaded, and each run is a fork of it that
   goes on into clang's main. Two thirds of a short run are otherwise spent on loading libLLVM and libclang-cpp.

   Standard input is a socket. From there: a length (int) and that many bytes, which are strings with their zeros, the folder to
   run in and the words of the command. To there: one byte as soon as all is loaded, and how each run ended (int, as
   waitpid has it). Ends with the socket. Runs have its standard output and standard error.

   Compiled without headers of the machine, and linked to nothing: what it calls is in the process. */

typedef int main_t(int, char **, char **);
typedef int start_t(main_t *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

extern char **environ;
extern void *dlsym(void *, const char *), *malloc(unsigned long);
extern int fork(void), chdir(const char *), open(const char *, int, ...), close(int);
extern int waitpid(int, int *, int), unsetenv(const char *);
extern long read(int, void *, unsigned long), write(int, const void *, unsigned long);
extern void _exit(int) __attribute__((noreturn)), exit(int) __attribute__((noreturn)), free(void *);

#define NEXT ((void *)-1L)
#define CANNOT_RUN 127

static main_t *real_main;

static int all_read(void *to, unsigned long size) {
    for (char *at = to; size; ) {
        long got = read(0, at, size);
        if (got <= 0)
            return 0;
        at += got;
        size -= got;
    }
    return 1;
}

static char *after(char *text) {
    while (*text++)
        ;
    return text;
}

static void run(int argc, char **argv, char *request, char *end) {
    char *word = after(request);
    int words = 0;
    for (char *at = word; at < end; at = after(at))
        words++;
    /* A script's own words come first: its interpreter and its path. */
    char **all = malloc((argc + words + 1) * sizeof(char *));
    if (!all || chdir(request))
        _exit(CANNOT_RUN);
    for (int i = 0; i < argc; i++)
        all[i] = argv[i];
    for (int i = 0; i < words; i++, word = after(word))
        all[argc + i] = word;
    all[argc + words] = 0;
    close(0);
    if (open("/dev/null", 0) != 0)
        _exit(CANNOT_RUN);
    exit(real_main(argc + words, all, environ));
}

static int waiting(int argc, char **argv, char **variables) {
    int size, ended;
    unsetenv("LD_PRELOAD");
    if (write(0, "", 1) != 1)
        _exit(1);
    while (all_read(&size, sizeof size)) {
        char *request = malloc(size);
        if (!request || !all_read(request, size))
            break;
        int child = fork();
        if (child == 0)
            run(argc, argv, request, request + size);
        free(request);
        if (child < 0 || waitpid(child, &ended, 0) != child || write(0, &ended, sizeof ended) != sizeof ended)
            break;
    }
    _exit(0);
}

__attribute__((visibility("default"))) int __libc_start_main(
    main_t *own, int argc, char **argv, void (*begin)(void), void (*end)(void), void (*loader)(void), void *stack) {
    start_t *next = (start_t *)dlsym(NEXT, "__libc_start_main");
    real_main = own;
    return next(waiting, argc, argv, begin, end, loader, stack);
}
