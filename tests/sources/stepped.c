/* Functions for a debugger: one to step into, one that calls it. */
int inner_step(int number) {
    int doubled = number + number;
    return doubled;
}
int outer_step(int number) {
    int sum = inner_step(number);
    sum += 1;
    return sum;
}
