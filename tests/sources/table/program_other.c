/* The other half of program.c. */
#include "table.h"

#include <stddef.h>

int others[4] = {10, 20, 30, 40};
int of_other(int x) { return x + others[0]; }

int plain_tentative[20];
int tentative __attribute__((common));
long tentative_array[100] __attribute__((common));
int *of_tentative(void) {
    static int both[2];
    both[0] = tentative;
    both[1] = tentative_array[99];
    return both;
}
int weak_of_both(void) { return 3; }
int weak_data __attribute__((weak)) = 4;

void through_other(void (*function)(void *), void *argument) {
    function(argument);
    note_letter('u');
}

__attribute__((constructor)) static void other_start(void) { note_letter('o'); }
__attribute__((destructor)) static void other_end(void) { end_letter('q'); }
extern void *__dso_handle;
int __cxa_atexit(void (*function)(void *), void *argument, void *handle);
static void handler_of(void *letter) { end_letter((int)(long)letter); }
void handle_other(void) { __cxa_atexit(handler_of, (void *)'d', &__dso_handle); }

__thread long of_others = 100;
long next_of_others(void) { return ++of_others; }

static int plus(int x) { return x + 30; }
void *choose_other(void) { return (void *)plus; }
int choice_of_other(int x) __attribute__((ifunc("choose_other")));
