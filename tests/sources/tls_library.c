/* A shared library with thread-locals that programs name. */
__thread int library_counter = 30;
__thread long library_zero[4];
int *address_of_counter(void) { return &library_counter; }
