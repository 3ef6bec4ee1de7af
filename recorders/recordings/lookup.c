/* Names that the application looks up for itself are answered with what stands before them. Follows all the others. */

static const Name *known_name(const char *name)
{
    if (name[0] == 'c' && name[1] == 'l') {
        for (size_t i = 0; i < NAMES; i++)
            if (names[i].wrapper && !strcmp(names[i].name, name)) return &names[i];
    } else if ((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v')) {
        const Name *found = cu_name(name);
        return found && found->wrapper ? found : NULL;
    }
    return NULL;
}

static void follow(void);

EXPORT void *dlsym(void *handle, const char *name)
{
    begin();
    if (!inside) follow();
    const Name *known = inside ? NULL : known_name(name);
    if (known) {
        void *found = real_dlsym(handle, name);
        if (found && found != known->wrapper && !*known->slot) *known->slot = found;
        return found ? known->wrapper : NULL;
    }
    __attribute__((musttail)) return next_dlsym(handle, name);
}
