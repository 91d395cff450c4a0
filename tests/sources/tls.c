/* Thread-local variables, initialised and zeroed, in the first thread and in others. */
#include <pthread.h>
#include <stdio.h>

__thread int initialised = 5;
static __thread int local_to_object = 7;
static __thread char zeroed[100];

static void *work(void *argument) {
    initialised += *(int *)argument;
    local_to_object++;
    zeroed[50]++;
    *(int *)argument = initialised * 100 + local_to_object * 10 + zeroed[50];
    return NULL;
}

int main(void) {
    int results[] = {1, 2, 3};
    work(&results[0]);
    work(&results[0]);
    for (int i = 1; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, &results[i]);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 3; i++) printf("%d\n", results[i]);
    printf("%d %d %d\n", initialised, local_to_object, zeroed[50]);
    return 0;
}
