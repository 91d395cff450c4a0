/* Walks of the stack, in C and C++: through functions in assembly with unwind information and without, and with the
   names of functions. */
#include "table.h"

#include <execinfo.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

C_NAMES

int main(int argc, char **argv);

static _Unwind_Reason_Code is_main(struct _Unwind_Context *context, void *found) {
    void *function = _Unwind_FindEnclosingFunction((void *)(_Unwind_GetIP(context) - 1));
    *(int *)found |= function == (void *)main;
    return _URC_NO_REASON;
}
APART static void look_for_main(void) {
    int found = 0;
    _Unwind_Reason_Code end = _Unwind_Backtrace(is_main, &found);
    printf("main %s, %d\n", found ? "is below" : "is not found", end == _URC_END_OF_STACK);
}
void feature_frames(void) {
    call_with_cfi(look_for_main);
    call_without_cfi(look_for_main);
}

/* Of glibc, which declares it for programs that ask for all of GNU's. */
struct place {
    const char *file;
    void *base;
    const char *name;
    void *address;
};
int dladdr(const void *address, struct place *place);

static volatile int counter;
int traced_inner(void), traced_middle(void), traced_outer(void);
APART int traced_inner(void) {
    void *frames[8];
    int count = backtrace(frames, 8);
    for (int i = 0; i < count && i < 3; i++) {
        struct place place = {0};
        int found = dladdr((char *)frames[i] - 1, &place);
        printf("%s %d\n", found && place.name ? place.name : "nameless", found && place.address <= frames[i]);
    }
    return ++counter;
}
APART int traced_middle(void) { return traced_inner() + counter; }
APART int traced_outer(void) { return traced_middle() + counter; }
void feature_names(void) { printf("%d\n", traced_outer()); }

C_NAMES_END
