// farcall watch examples/tick.c: change this file and save it.
#include <stdio.h>

static int ticks;

void tick(void) {
  ticks++;
  printf("tick %d\n", ticks);
}
