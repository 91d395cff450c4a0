/* A library whose only version of a name is an old one, not the default. */
int other_getppid(void);
__asm__(".symver other_getppid, getppid@GLIBC_2.2.5");
int other_getppid(void) { return 4711; }
