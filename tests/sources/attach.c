/* A program that attaches clients to sessions that it has not started: here sessions of its own, over a socket, two pipes and a
 * lane in shared memory. It prints the name of each way that works. */
#define _GNU_SOURCE
#include "farcall.h"
/* Twice, as headers of others may. */
#include "farcall.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "attach.c:%d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

#define MUST(call) FAILS(call, FARCALL_OK)
#define FAILS(call, code) fails((call), (code), #call, __LINE__)

static void fails(farcall_error *error, farcall_error_code code, const char *call, int line) {
    if (farcall_error_code_of(error) != code) {
        fprintf(stderr, "attach.c:%d: %s: code %d: %s\n", line, call, (int)farcall_error_code_of(error),
                farcall_error_message(error));
        exit(1);
    }
    farcall_error_consume(error);
}

static void doze_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Functions that a session of this program offers: a number doubled, what the controller answers, and a pause. */
static void doubled(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    uint64_t number = 0;
    memcpy(&number, farcall_buffer_const_data(&args), sizeof number);
    farcall_buffer_dispose(&args);
    number *= 2;
    answer(session, farcall_buffer_from_range(&number, sizeof number), call_id);
}

static void asks(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    answer(session, farcall_session_call_controller_and_wait(session, 77, args), call_id);
}

static void dozes(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    doze_ms(200);
    answer(session, args, call_id);
}

struct client_seen {
    uint64_t address;
    int calls;
    bool fails;
};

/* Calls the executor in turn. */
static farcall_buffer on_client_tag(farcall_client *client, uint64_t tag, farcall_buffer args, void *context) {
    struct client_seen *seen = context;
    CHECK(tag == 77);
    seen->calls++;
    FAILS(farcall_client_close(client), FARCALL_INVALID);
    FAILS(farcall_client_attend(client, 1, NULL), FARCALL_INVALID);
    farcall_buffer result;
    MUST(farcall_client_call(client, seen->address, farcall_buffer_const_data(&args), 8, 0, &result));
    farcall_buffer_dispose(&args);
    if (!seen->fails)
        return result;
    farcall_buffer_dispose(&result);
    return farcall_buffer_from_out_of_band_error("not now");
}

struct attaching {
    farcall_session *session;
    int descriptors[2];
    enum { OVER_SOCKET, OVER_PIPES, OVER_LANE } way;
};

static void *attach_session(void *context) {
    struct attaching *one = context;
    switch (one->way) {
    case OVER_SOCKET: MUST(farcall_session_attach_socket(one->session, one->descriptors[0])); break;
    case OVER_PIPES: MUST(farcall_session_attach_pipes(one->session, one->descriptors[0], one->descriptors[1])); break;
    default: MUST(farcall_session_attach_shared(one->session, one->descriptors[0])); break;
    }
    return NULL;
}

static void *use_elsewhere(void *client) {
    char *triple = NULL;
    FAILS(farcall_client_triple(client, &triple), FARCALL_INVALID);
    return NULL;
}

static atomic_int client_answers;

static void on_client_answer(farcall_session *session, farcall_buffer result, void *context) {
    (void)session, (void)context;
    CHECK(farcall_buffer_size(&result) == 8);
    farcall_buffer_dispose(&result);
    atomic_fetch_add(&client_answers, 1);
}

static uint64_t client_call(farcall_client *client, uint64_t function, uint64_t argument) {
    farcall_buffer result;
    MUST(farcall_client_call(client, function, &argument, sizeof argument, 0, &result));
    CHECK(farcall_buffer_size(&result) == sizeof argument);
    memcpy(&argument, farcall_buffer_const_data(&result), sizeof argument);
    farcall_buffer_dispose(&result);
    return argument;
}

int main(void) {
    for (int way = OVER_SOCKET; way <= OVER_LANE; way++) {
        farcall_options *options = farcall_options_create();
        farcall_options_function(options, "doubled", doubled);
        farcall_options_function(options, "asks", asks);
        farcall_options_function(options, "dozes", dozes);
        struct attaching one = {.way = way};
        MUST(farcall_session_create(options, &one.session));
        int ours[2] = {-1, -1}, pair[2];
        if (way == OVER_PIPES) {
            CHECK(pipe(pair) == 0);
            one.descriptors[0] = pair[0], ours[1] = pair[1];
            CHECK(pipe(pair) == 0);
            ours[0] = pair[0], one.descriptors[1] = pair[1];
        } else {
            CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
            ours[0] = pair[0], one.descriptors[0] = pair[1];
        }
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, attach_session, &one) == 0);
        farcall_client *client = NULL;
        if (way == OVER_PIPES)
            MUST(farcall_client_attach_pipes(ours[0], ours[1], 0, &client));
        else
            MUST(farcall_client_attach(ours[0], way == OVER_LANE, 20000, &client));
        CHECK(pthread_join(thread, NULL) == 0);

        char *triple = NULL;
        MUST(farcall_client_triple(client, &triple));
        CHECK(strstr(triple, "linux") != NULL);
        farcall_text_free(triple);
        uint64_t function = 0, slow = 0;
        struct client_seen seen = {0, 0, false};
        MUST(farcall_client_symbol(client, "doubled", &seen.address));
        MUST(farcall_client_symbol(client, "asks", &function));
        MUST(farcall_client_symbol(client, "dozes", &slow));
        FAILS(farcall_client_symbol(client, "nothing", &slow), FARCALL_SYMBOLS);
        CHECK(slow == 0);
        MUST(farcall_client_symbol(client, "dozes", &slow));
        CHECK(client_call(client, seen.address, 21) == 42);

        /* Back, and there again. */
        farcall_buffer result;
        uint64_t number = 4;
        FAILS(farcall_client_call(client, function, &number, sizeof number, 0, &result), FARCALL_REMOTE);
        MUST(farcall_client_register_handler(client, 77, on_client_tag, &seen));
        CHECK(client_call(client, function, 4) == 8 && seen.calls == 1);
        seen.fails = true;
        farcall_error *error = farcall_client_call(client, function, &number, sizeof number, 0, &result);
        CHECK(strstr(farcall_error_message(error), "not now") != NULL);
        FAILS(error, FARCALL_REMOTE);
        seen.fails = false;

        FAILS(farcall_client_call(client, slow, &number, sizeof number, 20, &result), FARCALL_TIMEOUT);
        MUST(farcall_client_call(client, slow, &number, sizeof number, 20000, &result));
        farcall_buffer_dispose(&result);

        /* The session calls by itself. */
        int before = atomic_load(&client_answers);
        farcall_session_call_controller(one.session, 77, farcall_buffer_from_range(&number, sizeof number), on_client_answer, NULL);
        uint64_t served = 0;
        for (int turn = 0; served == 0 && turn < 200; turn++)
            MUST(farcall_client_attend(client, 100, &served));
        CHECK(served == 1);
        for (int turn = 0; atomic_load(&client_answers) == before; turn++) {
            CHECK(turn < 20000);
            doze_ms(1);
        }

        CHECK(pthread_create(&thread, NULL, use_elsewhere, client) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        MUST(farcall_client_close(client));
        MUST(farcall_session_dispose(one.session));
        printf("%s\n", (const char *const[]){"socket", "pipes", "lane"}[way]);
    }
    MUST(farcall_client_close(NULL));

    /* Nobody speaks. */
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    farcall_client *none = NULL;
    FAILS(farcall_client_attach(pair[0], false, 50, &none), FARCALL_TIMEOUT);
    CHECK(none == NULL);
    close(pair[1]);
    return 0;
}

