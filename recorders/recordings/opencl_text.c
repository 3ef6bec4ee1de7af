/* OpenCL C: whether a source has variables in global memory, for drivers that do not tell. Follows opencl_api.c.
 *
 * Looks at what is outside of braces and parentheses: a declaration with `global` that is no function and no type.
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

static int has_variables(const char *text)
{
    static const char *const global[] = {"__global", "global", NULL}, *const types[] = {"typedef", NULL};
    int depth = 0, named = 0, type = 0;
    for (const char *at = text; *at;) {
        if (*at == '/' && (at[1] == '/' || at[1] == '*')) { at = after_comment(at); continue; }
        if (*at == '#') { at = after_line(at); continue; }
        if (*at == '"' || *at == '\'') { at = after_text(at); continue; }
        if (is_word(*at)) {
            const char *word = at;
            while (is_word(*at)) at++;
            if (!depth && is_one_of(word, (size_t)(at - word), global)) named = 1;
            if (!depth && is_one_of(word, (size_t)(at - word), types)) type = 1;
            continue;
        }
        /* What follows a name tells: a function's parameters, or an end, a value or a length. */
        if (!depth && *at == '(') named = 0;
        if (!depth && named && !type && (*at == ';' || *at == '=' || *at == '[')) return 1;
        if (*at == '{' || *at == '(') depth++;
        if ((*at == '}' || *at == ')') && depth) depth--;
        if (!depth && (*at == ';' || *at == '}')) named = type = 0;
        at++;
    }
    return 0;
}
