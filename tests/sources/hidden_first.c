/* Names that only the objects of one library see, and which hidden_second.c uses. */
#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN int hidden_count = 5;
HIDDEN int hidden_next(void) { return ++hidden_count; }
HIDDEN __thread int hidden_of_thread = 7;
HIDDEN __attribute__((weak)) int hidden_shared = 1;

int *first_shared(void) { return &hidden_shared; }
