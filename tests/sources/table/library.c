/* The shared library of the table's programs. */
int library_number = 1;
int library_array[100];
const char *library_name = "a library";
int library_next(void) { return ++library_number; }
int library_sum(void) { return library_number + library_array[99]; }
int library_calls(int (*function)(int), int x) { return function(x) + 1; }
int *library_place(void) { return &library_number; }
