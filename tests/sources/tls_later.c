/* Refers to the thread-locals of tls_late.c, which is linked before. */
extern __thread long value;

long twice(void) { return value * 2; }
