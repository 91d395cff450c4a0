/* Takes main out of an archive, as the C library's start files do. */
int main(void);
int (*rust_main)(void) = main;
