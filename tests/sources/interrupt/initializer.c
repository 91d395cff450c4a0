/* An initializer that does not return. */
static volatile long counter;

static __attribute__((constructor)) void begin(void) {
    for (;;)
        counter = counter + 1;
}

long initializer_turns(void) { return counter; }
