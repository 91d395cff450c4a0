/* A member nobody needs: pulled in, it would print, and its undefined symbol would fail the link. */
#include <stdio.h>

void nobody_defines_this(void);
void unused(void) { nobody_defines_this(); }
__attribute__((constructor)) static void would_print(void) { puts("the unused member is here"); }
