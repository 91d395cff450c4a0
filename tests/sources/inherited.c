/* Copies to standard output what can be read from the descriptor that its argument names. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char bytes[256];
    ssize_t count;
    if (argc < 2) return 2;
    while ((count = read(atoi(argv[1]), bytes, sizeof bytes)) > 0)
        if (write(1, bytes, count) != count) return 3;
    return count < 0;
}
