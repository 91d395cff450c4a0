/* What lies behind argv: the environment, and the auxiliary vector, as the kernel lays them. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

extern char **environ;

int main(int argc, char **argv, char **envp)
{
    printf("%d arguments, last %s\n", argc, argv[argc - 1]);
    printf("argc in front of them: %d\n", ((long *)argv)[-1] == argc);
    printf("environment behind them: %d %d\n", envp == argv + argc + 1, envp == environ);
    int same = 1, count = 0;
    for (char **one = envp; *one; one++, count++) {
        char *value = strchr(*one, '='), name[256] = "";
        if (value && value - *one < 256) {
            memcpy(name, *one, value - *one);
            same &= getenv(name) && !strcmp(getenv(name), value + 1);
        }
    }
    printf("its variables are those of getenv: %d\n", same && count > 0);
    Elf64_auxv_t *vector = (Elf64_auxv_t *)(envp + count + 1);
    unsigned long page = 0;
    for (; vector->a_type != AT_NULL; vector++)
        if (vector->a_type == AT_PAGESZ)
            page = vector->a_un.a_val;
    printf("auxiliary vector: %d\n", page == getauxval(AT_PAGESZ));
    setenv("START_TEST", "set", 1);
    printf("%s\n", getenv("START_TEST"));
    return 0;
}
