// A wrapper function: bytes in, bytes out; up to 8 bytes of the result lie in the buffer itself.
struct buffer { unsigned long data, size; };

struct buffer twice(const unsigned long *number, unsigned long size) {
    return (struct buffer){*number * 2, size};
}
