/* Says which signals come, and when it is ready for them. The first argument says what it does with them:
   `handles` ends with the first one, `leaves` handles none, `stops` stops itself by the signal of the second one. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t came;
static void note(int number) { came = number; }

int main(int argc, char **argv) {
    static const int all[] = {SIGTERM, SIGHUP,  SIGINT,   SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGALRM, SIGWINCH, SIGCONT, SIGTSTP};
    const char *what = argc > 1 ? argv[1] : "nothing";
    if (!strcmp(what, "handles"))
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) signal(all[i], note);
    puts("ready");
    fflush(stdout);
    if (!strcmp(what, "stops")) {
        raise(atoi(argv[2]));
        puts("goes on");
        return 3;
    }
    while (!came) usleep(1000);
    printf("signal %d\n", came);
    return 7;
}
