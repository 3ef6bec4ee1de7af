/* Names that the application looks up for itself are answered with what stands before them. Follows all the others. */

EXPORT void *dlsym(void *handle, const char *name)
{
    begin();
    if (name[0] == 'c' && name[1] == 'l' && !inside)
        for (size_t i = 0; i < NAMES; i++)
            if (names[i].wrapper && !strcmp(names[i].name, name)) {
                void *found = real_dlsym(handle, name);
                if (found && found != names[i].wrapper && !*names[i].slot) *names[i].slot = found;
                return found ? names[i].wrapper : NULL;
            }
    __attribute__((musttail)) return real_dlsym(handle, name);
}

