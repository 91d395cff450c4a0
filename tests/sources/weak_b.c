/* The other half of weak_a.c. */
int replaced(void) { return 2; }
__attribute__((weak)) int first_of_two(void) { return 20; }
int weak_data = 200;
__attribute__((weak)) int strong_here(void) { return 2000; }

int call_from_b(void) { return replaced() + first_of_two() + weak_data + strong_here(); }
