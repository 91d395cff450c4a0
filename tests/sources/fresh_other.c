// The other file of the program: its own data, and that of the first.
extern int shared_with_others;

static int steps = 1;

int other(int step) {
  steps += step;
  shared_with_others += step;
  return steps;
}
