// Asks for the names of the functions it is in, in the ways that C has.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int depth;

/// Prints what stands between the bracket and the plus sign of a line.
static int print_name(const char *line) {
    const char *from = strchr(line, '('), *to = from ? strchr(from, '+') : NULL;
    if (!to || to == from + 1) return 0;
    printf("%.*s\n", (int)(to - from - 1), from + 1);
    return memcmp(from + 1, "main", 4) == 0;
}

static int holds_me(struct dl_phdr_info *info, size_t size, void *found) {
    for (int at = 0; at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[at];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (uintptr_t)holds_me - start < segment->p_memsz) ++*(int *)found;
    }
    return size < sizeof *info;
}

__attribute__((noinline)) int inner_one(void) {
    void *frames[16];
    int count = backtrace(frames, 16), ended = 0;

    puts("backtrace_symbols");
    char **lines = backtrace_symbols(frames, count);
    for (int at = 0; at < count && !ended; at++) ended = print_name(lines[at]);
    free(lines);

    puts("backtrace_symbols_fd");
    char buffer[8192] = "";
    int ends[2];
    if (pipe(ends)) return -1;
    backtrace_symbols_fd(frames, count, ends[1]);
    close(ends[1]);
    for (size_t all = 0, got = 1; got > 0 && all < sizeof buffer - 1; all += got) {
        got = read(ends[0], buffer + all, sizeof buffer - 1 - all);
    }
    close(ends[0]);
    ended = 0;
    for (char *line = strtok(buffer, "\n"); line && !ended; line = strtok(NULL, "\n")) ended = print_name(line);

    puts("dladdr");
    ended = 0;
    for (int at = 0; at < count && !ended; at++) {
        Dl_info info;
        if (!dladdr(frames[at], &info) || !info.dli_sname) continue;
        puts(info.dli_sname);
        ended = !strcmp(info.dli_sname, "main");
    }
    Dl_info info;
    if (!dladdr((void *)inner_one, &info) || info.dli_saddr != (void *)inner_one) return -2;
    // An address of its own would be that of a stub in code that holds it in 32 bits.
    if (!dladdr(dlsym(RTLD_DEFAULT, "puts"), &info) || !strstr(info.dli_fname, "libc")) return -3;

    int found = 0;
    dl_iterate_phdr(holds_me, &found);
    printf("found in %d segment\n", found);
    return ++depth;
}

// What is done behind the calls keeps their frames.
__attribute__((noinline)) int middle_two(void) {
    int result = inner_one();
    return result + depth;
}

__attribute__((noinline)) int outer_three(void) {
    int result = middle_two();
    return result + depth;
}

// With an argument it is silent.
int main(int argc, char **argv) {
    if (argc > 1 && !freopen(argv[1], "w", stdout)) return -4;
    int result = outer_three();
    return result + depth;
}
