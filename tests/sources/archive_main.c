/* Needs one member of an archive, which needs a second one; the third must stay out. */
#include <stdio.h>

int needed(int x);

int main(void) {
    printf("needed %d\n", needed(5));
    return 0;
}
