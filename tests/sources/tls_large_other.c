/* The thread-locals that tls_large.c names, and some of its own. */
int plain;
_Thread_local char large[256 << 10];
_Thread_local long words[5] = {1, 2, 3, 4, 5};
_Thread_local double weights[8] = {0.5, 0.25, 2, 3};
_Thread_local int *pointer = &plain;
static _Thread_local char own[10000];
static _Thread_local long count = 30;

long of_other(void) {
    own[9999]++;
    return count++ + own[9999] + words[1] + (*pointer > 0);
}
