/* Asks the host, which calls this process again. */
extern long ask(long question);

static volatile long calls;

long outer(long question) {
    long answer = ask(question);
    calls = calls + 1;
    return answer + 1000;
}

long outer_calls(void) { return calls; }

static _Thread_local long turns;

/* Counts the calls on its thread. */
long turn(void) { return turns = turns + 1; }

/* Is hardly ever outside of the host. */
void ask_without_end(void) {
    for (;;)
        calls = ask(calls);
}
