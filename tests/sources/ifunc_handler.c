/* The resolver of an ifunc calls a handler of the controller before it chooses. */
#include <farcall/linked.h>

extern char handler_tag[];

static int three(void) { return 3; }
static int four(void) { return 4; }

static int (*resolve(void))(void) {
    struct farcall_result answer = farcall_call_controller((uintptr_t)handler_tag, NULL, 0);
    return answer.size == 0 && farcall_result_message(&answer) == NULL ? three : four;
}

int chosen(void) __attribute__((ifunc("resolve")));
