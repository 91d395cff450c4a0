/* A function that is redirected from one version to the next, and its caller. */
#include <unistd.h>

#ifdef CALLER

extern int step(void); /* redirected by the host */

static int first;

__attribute__((constructor)) static void call_early(void) { first = step(); }

int first_answer(void) { return first; }

int twice(void) { return 2 * step(); }

int stop(void) { _exit(3); }

#else

int version(void) { return VERSION; }

#endif
