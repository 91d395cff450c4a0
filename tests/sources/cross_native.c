/* What cross.c needs of others: data of another object and, in a native run, the handler of the host. */
#include <farcall/linked.h>

int shared_count = 12;

#ifdef NATIVE
struct farcall_result farcall_call_controller(uint64_t tag, const char *data, size_t size) {
    long numbers[2];
    if (tag != 7 || size != sizeof numbers) return farcall_result_failure("no such handler");
    memcpy(numbers, data, size);
    numbers[0] += numbers[1];
    return farcall_result_of(numbers, sizeof *numbers);
}
#endif
