/* Needs two functions and a variable that nobody defines. */
int missing_first(int x);
int missing_second(int x);
extern int missing_variable;

int main(void) { return missing_first(1) + missing_second(2) + missing_variable; }
