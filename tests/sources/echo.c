/* Copies standard input to standard output and leaves with the number of lines. */
#include <stdio.h>

int main(void) {
    int lines = 0;
    for (int c; (c = getc(stdin)) != EOF;) {
        lines += c == '\n';
        putc(c, stdout);
    }
    return lines & 0x7f;
}
