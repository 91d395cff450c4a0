/* Small objects that refer to each other: PART says which one this is. */
#include <stdio.h>

#if PART == 1
int odd(int n);
int even(int n) { return n == 0 ? 1 : odd(n - 1); }
#elif PART == 2
int even(int n);
int odd(int n) { return n == 0 ? 0 : even(n - 1); }
#elif PART == 3
__attribute__((weak)) int which(void) { return 3; }
int third(void) { return which(); }
#elif PART == 4
__attribute__((weak)) int which(void) { return 4; }
int fourth(void) { return which(); }
#elif PART == 5
int which(void) { return 5; }
#elif PART == 6
int digits(int n) { char text[32]; return snprintf(text, sizeof text, "%d", n); }
#elif PART == 7
static int value;
__attribute__((constructor)) static void set(void) { value += 41; }
int initialized(void) { return value; }
#elif PART == 8
__thread int per_thread = 5;
#elif PART == 9
extern __thread int per_thread;
int bump(void) { return ++per_thread; }
#elif PART == 10
int missing_one(void);
int missing_two(void);
int broken(void) { return missing_one() + missing_two(); }
#elif PART == 11
static int count;
int constant(void) { return 42 + count++; }
#elif PART == 12
int constant(void);
int twice(void) { return 2 * constant(); }
#elif PART == 13
__attribute__((visibility("hidden"))) int secret(void) { return 13; }
int open_secret(void) { return secret(); }
#elif PART == 14
int secret(void);
int tell(void) { return secret(); }
#elif PART == 15
extern int maybe(void) __attribute__((weak));
int has_maybe(void) { return maybe ? maybe() : -1; }
#elif PART == 17
int slow(void);
int quick(void) { return 1; }
int needs(void) { return slow(); }
#elif PART == 18
extern int shared_count;
int *const place = &shared_count;
int bump_shared(void) { return ++*place + shared_count; }
int standard_output(void) { return fileno(stdout); }
#elif PART == 19
int shared_count = 10;
#elif PART == 16
int low(void);
int (*const pointer)(void) = low;
#endif
