/* Names thread-locals of a shared library, beside its own. */
#include <pthread.h>
#include <stdio.h>

extern __thread int library_counter;
extern __thread long library_zero[4];
int *address_of_counter(void);
static __thread int own = 2;

static void *work(void *argument) {
    long *result = argument;
    library_counter += *result;
    library_zero[3] += own++;
    *result = library_counter * 100 + library_zero[3] * 10 + (address_of_counter() == &library_counter);
    return NULL;
}

int main(void) {
    long results[4] = {1, 2, 3, 4};
    work(&results[0]);
    for (int i = 1; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, &results[i]);
        pthread_join(thread, NULL);
    }
    work(&results[3]);
    for (int i = 0; i < 4; i++) printf("%ld\n", results[i]);
    return library_counter;
}
