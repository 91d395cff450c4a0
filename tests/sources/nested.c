/* A nested function of GNU C whose address is taken: its code is on the stack, on this thread's and on others'. */
#include <pthread.h>
#include <stdio.h>

static int apply(int (*function)(int), int n)
{
    return function(n);
}

static void *add_on_a_thread(void *argument)
{
    int base = *(int *)argument;
    int add(int n) { return base + n; }
    *(int *)argument = apply(add, 40);
    return 0;
}

int main(void)
{
    int base = 2;
    int add(int n) { return base + n; }
    printf("%d\n", apply(add, 40));
    pthread_t thread;
    pthread_create(&thread, 0, add_on_a_thread, &base);
    pthread_join(thread, 0);
    printf("%d\n", base);
    return 0;
}
