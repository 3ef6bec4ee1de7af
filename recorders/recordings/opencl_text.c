/* OpenCL C: whether a source has variables in global memory, for drivers that do not tell. Follows opencl_api.c.
 *
 * Looks at what is outside of braces and parentheses: a declaration that is no function, no type and no constant.
 */

static const char *after_line(const char *at)
{
    for (; *at && *at != '\n'; at++)
        if (*at == '\\' && at[1]) at++;
    return at;
}

static const char *after_comment(const char *at)
{
    if (at[1] == '/') return after_line(at);
    const char *end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

static const char *after_text(const char *at)
{
    char quote = *at++;
    for (; *at && *at != quote; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

static int is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int is_one_of(const char *word, size_t length, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == length && !memcmp(word, *words, length)) return 1;
    return 0;
}

/* What is known of the declaration at hand outside of braces. */
typedef struct { int words, global, none, aggregate, closed, called; } Declaration;

/* `none`: a type, or what no launch writes to. */
static void take_word(Declaration *declaration, const char *word, size_t length)
{
    static const char *const global[] = {"__global", "global", NULL}, *const aggregates[] = {"struct", "union", "enum", NULL};
    static const char *const none[] = {"typedef", "__constant", "constant", "const", "sampler_t", "extern", NULL};
    declaration->words++;
    if (is_one_of(word, length, global)) declaration->global = 1;
    if (is_one_of(word, length, none)) declaration->none = 1;
    if (is_one_of(word, length, aggregates)) declaration->aggregate = 1;
}

/* Global, or of OpenCL 2.0 with no address space, which means the same: `int counter;`. */
static int is_variable(const Declaration *d)
{
    if (d->none || (d->called && !d->global)) return 0;
    return d->global || d->closed ? d->words > 0 : d->words > (d->aggregate ? 2 : 1);
}

static int has_variables(const char *text)
{
    Declaration d = {0};
    int depth = 0;
    for (const char *at = text; *at;) {
        if (*at == '/' && (at[1] == '/' || at[1] == '*')) { at = after_comment(at); continue; }
        if (*at == '#') { at = after_line(at); continue; }
        if (*at == '"' || *at == '\'') { at = after_text(at); continue; }
        if (is_word(*at)) {
            const char *word = at;
            while (is_word(*at)) at++;
            if (!depth) take_word(&d, word, (size_t)(at - word));
            continue;
        }
        /* What follows a name tells: a function's parameters, or an end, a value or a length. */
        if (!depth && *at == '(') { d.called = 1; d.global = 0; }
        if (!depth && (*at == ';' || *at == '=' || *at == '[') && is_variable(&d)) return 1;
        if (*at == '{' || *at == '(') depth++;
        if ((*at == '}' || *at == ')') && depth) depth--;
        if (!depth && *at == '}') d = d.aggregate && !d.called ? (Declaration){0, d.global, d.none, 0, 1, 0} : (Declaration){0};
        if (!depth && *at == ';') d = (Declaration){0};
        at++;
    }
    return 0;
}

/* SPIR-V: a variable of the storage class CrossWorkgroup. Source: the SPIR-V specification (physical layout, OpVariable). */
static int module_has_variables(const char *module, size_t size)
{
    enum { WORD = 4, HEADER = 5 * WORD, VARIABLE = 59, CROSS_WORKGROUP = 5 };
    for (size_t at = HEADER; at + WORD <= size;) {
        uint32_t first, storage;
        memcpy(&first, module + at, WORD);
        size_t length = (size_t)(first >> 16) * WORD;
        if (!length) return 0;
        if ((first & 0xFFFF) == VARIABLE && length >= 4 * WORD && at + 4 * WORD <= size) {
            memcpy(&storage, module + at + 3 * WORD, WORD);
            if (storage == CROSS_WORKGROUP) return 1;
        }
        at += length;
    }
    return 0;
}
