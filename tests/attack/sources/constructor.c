// A library that hangs while it is opened, with the loader's lock held.
#include <unistd.h>

__attribute__((constructor)) static void hang(void) { usleep(5000000); }
