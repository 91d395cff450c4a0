/* The resolver of an ifunc calls a handler of the controller before it chooses. */
#include <stddef.h>
#include <stdint.h>

struct farcall_buffer {
    union { char *pointer; char bytes[8]; } value;
    size_t size;
};

extern struct farcall_buffer farcall_call_controller(uint64_t tag, const char *data, size_t size);
extern char handler_tag[];

static int three(void) { return 3; }
static int four(void) { return 4; }

static int (*resolve(void))(void) {
    struct farcall_buffer answer = farcall_call_controller((uintptr_t)handler_tag, NULL, 0);
    /* An out-of-band error has a pointer and no size. */
    return answer.size == 0 && answer.value.pointer == NULL ? three : four;
}

int chosen(void) __attribute__((ifunc("resolve")));
