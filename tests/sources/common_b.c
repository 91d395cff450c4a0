/* The other half of common_a.c. */
#include <string.h>

int counter;
char buffer[4096];
int initialised_in_b = 77;

void touch(void) {
    counter += 6;
    memset(buffer, 0, sizeof buffer);
    strcpy(buffer, "larger than the first object thought");
    buffer[4095] = 1;
}
