/* A program with a loop of its own, from which it serves a controller's calls: no thread, and nothing that waits but the loop.
 *
 *     poll SOCKET lane|stream */
#include "farcall.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int polls;

/* In the form of LLVM 22: the bytes in reverse, and nothing for none. */
static farcall_buffer reverse(const char *data, size_t size) {
    farcall_buffer result = farcall_buffer_allocate(size);
    char *to = farcall_buffer_data(&result);
    for (size_t at = 0; at < size; at++)
        to[at] = data[size - 1 - at];
    return result;
}

static farcall_buffer refuse(const char *data, size_t size) {
    (void)data;
    (void)size;
    return farcall_buffer_from_out_of_band_error("not today");
}

static void must(farcall_error *error) {
    if (error != NULL) {
        char *message = farcall_error_to_string(error);
        fprintf(stderr, "poll: %s\n", message);
        farcall_text_free(message);
        exit(1);
    }
}

/* The address of a function, as the library takes addresses. */
static void offer(farcall_options *options, const char *name, farcall_buffer (*function)(const char *, size_t)) {
    const void *address;
    memcpy(&address, &function, sizeof address);
    farcall_options_symbol(options, name, address);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    farcall_polled *polled;
    /* What has no meaning without a session is refused, and the socket closed. */
    farcall_options *wrong = farcall_options_create();
    farcall_options_grace_ms(wrong, 1);
    farcall_error *error = farcall_polled_create(wrong, -1, false, &polled);
    if (error == NULL || polled != NULL)
        return 3;
    farcall_error_consume(error);

    farcall_options *options = farcall_options_create();
    offer(options, "reverse", reverse);
    offer(options, "refuse", refuse);
    farcall_options_symbol(options, "polls", &polls);
    bool is_shared = strcmp(argv[2], "lane") == 0;
    must(farcall_polled_create(options, atoi(argv[1]), is_shared, &polled));
    size_t served = 0, calls;
    while (!farcall_polled_has_ended(polled)) {
        struct pollfd ready = {farcall_polled_descriptor(polled), POLLIN, 0};
        if (poll(&ready, 1, 60000) != 1)
            return 4;
        must(farcall_polled_poll(polled, 1000, &calls));
        served += calls;
        polls++;
    }
    must(farcall_polled_poll(polled, 0, &calls));
    farcall_polled_dispose(polled);
    if (calls != 0 || polls == 0)
        return 5;
    printf("served %zu calls\n", served);
    return 0;
}
