// A program that shows where it runs: variables, thread-locals, handlers, initializers and finalizers.
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

int64_t counter = 5;
static __thread int64_t own = 7;
static int64_t *at_end;
static int64_t begun;

int64_t thread_of_handler(int64_t);
int64_t refuses(int64_t);

__attribute__((constructor)) static void begin(void) { begun = 1; }
__attribute__((destructor)) static void end(void) {
    // Long enough for a host that does not wait.
    usleep(2000);
    if (at_end) *at_end += 1;
}

int64_t has_begun(void) { return begun; }
int64_t next(void) { return ++counter; }
int64_t own_next(void) { return ++own; }
int64_t ask(int64_t number) { return thread_of_handler(number); }
int64_t fail(int64_t number) { return refuses(number); }
void tell_end(int64_t *where) { at_end = where; }
void wait_for(const int64_t *word) {
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) sched_yield();
}
