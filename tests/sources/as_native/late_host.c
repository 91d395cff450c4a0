/* A host of plugins, with its own allocator (allocator.c). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int host_number = 3;

void host_log(const char *text, int number) { printf("log: %s, %d\n", text, number); }
int both(void) { return 2; }

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int round = 0; round < 3 && count == 2; round++) {
        void *guest = dlopen(arguments[1], round == 1 ? RTLD_LAZY : RTLD_NOW | RTLD_GLOBAL);
        printf("opened: %d, %d\n", guest != NULL, dlerror() != NULL);
        if (!guest)
            return 1;
        char *(*take)(void) = (char *(*)(void))dlsym(guest, "guest_take");
        int (*guest_both)(void) = (int (*)(void))dlsym(guest, "guest_both");
        char *text = take();
        printf("%s, both: %d\n", text, guest_both());
        free(text);
        host_number++;
        void *again = dlopen(arguments[1], RTLD_LAZY | RTLD_NOLOAD);
        printf("the same: %d\n", guest == again);
        printf("closed: %d %d\n", dlclose(again), dlclose(guest));
        printf("there: %d\n", dlopen(arguments[1], RTLD_LAZY | RTLD_NOLOAD) != NULL);
    }
    printf("missing: %d, %d\n", dlopen("libnot_there.so", RTLD_NOW) != NULL, dlerror() != NULL);
    return 0;
}
