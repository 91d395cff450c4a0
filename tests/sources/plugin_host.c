/* Finds names of its own by dlsym, also as a library does that it opens, and the next definition behind its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int program_variable = 40;
static int hidden_by_static = 1;
__attribute__((visibility("hidden"))) int hidden_by_option = 2;

int program_function(int argument) { return argument * 10 + hidden_by_static + hidden_by_option; }
__attribute__((weak)) int weak_function(void) { return 5; }
size_t strlen_calls;

/* Stands before the C library's. */
int atoi(const char *text)
{
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
    return next && next != atoi ? next(text) + 1000 : -1;
}

static void find(const char *what, void *handle, const char *name, void *expected)
{
    void *found = dlsym(handle, name);
    printf("%s: %s %s\n", what, name, !found ? "missing" : found == expected ? "found" : "another");
}

int main(int argc, char **argv)
{
    void *program = dlopen(NULL, RTLD_NOW);
    void *handles[] = {RTLD_DEFAULT, program};
    const char *names[] = {"default", "program"};
    for (int i = 0; i < 2; i++) {
        find(names[i], handles[i], "program_function", (void *)program_function);
        find(names[i], handles[i], "program_variable", &program_variable);
        find(names[i], handles[i], "weak_function", (void *)weak_function);
        find(names[i], handles[i], "main", (void *)main);
        find(names[i], handles[i], "atoi", (void *)atoi);
        find(names[i], handles[i], "hidden_by_static", &hidden_by_static);
        find(names[i], handles[i], "hidden_by_option", &hidden_by_option);
        find(names[i], handles[i], "no_such_name", NULL);
    }
    find("next", RTLD_NEXT, "program_function", (void *)program_function);
    printf("atoi: %d\n", atoi("7"));
    if (argc > 1) {
        void *plugin = dlopen(argv[1], RTLD_NOW);
        if (!plugin) {
            printf("%s\n", dlerror());
            return 1;
        }
        int (*run)(void) = (int (*)(void))dlsym(plugin, "plugin_run");
        printf("plugin: %d, variable %d\n", run(), program_variable);
        find("plugin", plugin, "program_function", (void *)program_function);
        dlclose(plugin);
    }
    return 0;
}
