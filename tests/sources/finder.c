/* Finds names of other links by dlsym. */
#define _GNU_SOURCE
#include <dlfcn.h>

long find_first(void) { return (long)dlsym(RTLD_DEFAULT, "first"); }
long find_last(void) { return (long)dlsym(RTLD_DEFAULT, "last"); }
