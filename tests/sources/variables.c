// Versions of a program whose variables stay, as far as they have the same size.
#include <stdint.h>

static int32_t own = 100;
int32_t shared;
static int32_t resized[SIZE];
static int32_t *pointer = &own;

int32_t step(void) {
  static int32_t turns;
  turns++;
  own += STEP;
  shared += turns;
  resized[0] += 1000;
  return *pointer + shared + resized[0];
}
