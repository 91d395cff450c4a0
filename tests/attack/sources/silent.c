// A program that says nothing to anybody.
#include <unistd.h>

int main(void) {
  sleep(1000);
  return 0;
}
