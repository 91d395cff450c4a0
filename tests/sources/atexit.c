/* Handlers of atexit run in reverse order, one registered by a handler runs next, then the destructors.
   exit is called by a function far below main. */
#include <stdio.h>
#include <stdlib.h>

static void say(const char *what) { puts(what); }

static void first(void) { say("atexit: registered first"); }
static void nested(void) { say("atexit: registered by a handler"); }
static void second(void) {
    say("atexit: registered second");
    atexit(nested);
}

__attribute__((constructor)) static void early(void) { say("constructor"); }
__attribute__((destructor)) static void late(void) { say("destructor, default priority"); }
__attribute__((destructor(200))) static void later(void) { say("destructor, priority 200"); }
__attribute__((destructor(150))) static void latest(void) { say("destructor, priority 150"); }

__attribute__((noinline)) static void leave(int depth) {
    if (depth > 0) leave(depth - 1);
    say("exit from a nested function");
    exit(7);
}

int main(void) {
    atexit(first);
    atexit(second);
    leave(5);
    return 0;
}
