/* A program that embeds a session, is attached by a controller, serves its calls, calls it back, and shuts down.
 *
 *     embed SOCKET [lane]       the number of a connected socket, or the name of one that a controller listens on; over which
 *                               the controller sends a lane */
#include "farcall.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDLER 7

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int disconnected, everything = 42, shut_down;

static void fail(farcall_error *error) {
    char *message = farcall_error_to_string(error);
    fprintf(stderr, "embed: %s\n", message);
    farcall_text_free(message);
    exit(1);
}

static void must(farcall_error *error) {
    if (error != NULL)
        fail(error);
}

static void note(int *what) {
    pthread_mutex_lock(&lock);
    *what += 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Answers at once: the sum of the bytes, in eight bytes. */
static void sum(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    uint64_t total = 0;
    const char *bytes = farcall_buffer_const_data(&args);
    for (size_t at = 0; at < farcall_buffer_size(&args); at++)
        total += (unsigned char)bytes[at];
    farcall_buffer_dispose(&args);
    answer(session, farcall_buffer_from_range(&total, sizeof total), call_id);
}

struct later {
    farcall_session *session;
    farcall_buffer text;
    farcall_return answer;
    uint64_t call_id;
};

static void *answer_later(void *argument) {
    struct later *later = argument;
    char *text = farcall_buffer_data(&later->text);
    for (size_t from = 0, to = farcall_buffer_size(&later->text); from + 1 < to; from++) {
        char last = text[--to];
        text[to] = text[from];
        text[from] = last;
    }
    later->answer(later->session, later->text, later->call_id);
    free(later);
    return NULL;
}

/* Answers from another thread, after it has returned: the bytes in reverse. */
static void reverse(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    struct later *later = malloc(sizeof *later);
    pthread_t thread;
    *later = (struct later){session, args, answer, call_id};
    if (later == NULL || pthread_create(&thread, NULL, answer_later, later) != 0)
        abort();
    pthread_detach(thread);
}

/* Asks the controller, waits for its answer, and answers with that. */
static void ask(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    answer(session, farcall_session_call_controller_and_wait(session, HANDLER, args), call_id);
}

struct asked {
    farcall_return answer;
    uint64_t call_id;
};

static void asked(farcall_session *session, farcall_buffer result, void *context) {
    struct asked *call = context;
    call->answer(session, result, call->call_id);
    free(call);
}

/* The same without waiting. */
static void ask_later(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    struct asked *call = malloc(sizeof *call);
    if (call == NULL)
        abort();
    *call = (struct asked){answer, call_id};
    farcall_session_call_controller(session, HANDLER, args, asked, call);
}

/* Says no. */
static void refuse(farcall_session *session, farcall_buffer args, farcall_return answer, uint64_t call_id) {
    farcall_buffer_dispose(&args);
    answer(session, farcall_buffer_from_out_of_band_error("not today"), call_id);
}

static void on_disconnect(farcall_session *session, farcall_error *error, void *context) {
    (void)session;
    if (error != NULL)
        fail(error);
    note(context);
}

static void on_detach(farcall_done *done, bool shutdown_requested, void *context) {
    (void)shutdown_requested;
    note(context);
    farcall_done_complete(done);
}

static void on_shutdown(farcall_done *done, void *context) {
    note(context);
    farcall_done_complete(done);
}

static int serviced[2];

static void service_detached(farcall_done *done, bool shutdown_requested, void *context) {
    on_detach(done, shutdown_requested, context);
}

static void service_shut_down(farcall_done *done, void *context) {
    on_shutdown(done, (int *)context + 1);
}

static void on_session_shut_down(farcall_session *session, void *context) {
    (void)session;
    note(context);
}

int main(int argc, char **argv) {
    if (argc != 2 && !(argc == 3 && strcmp(argv[2], "lane") == 0)) {
        fprintf(stderr, "usage: embed SOCKET [lane]\n");
        return 2;
    }
    farcall_options *options = farcall_options_create();
    farcall_options_function(options, "sum", sum);
    farcall_options_function(options, "reverse", reverse);
    farcall_options_function(options, "ask", ask);
    farcall_options_function(options, "ask_later", ask_later);
    farcall_options_function(options, "refuse", refuse);
    farcall_options_symbol(options, "everything", &everything);
    farcall_options_value(options, "host", "embed.c", 7);
    farcall_options_service(options, "a service in C", service_detached, service_shut_down, serviced);
    farcall_options_on_disconnect(options, on_disconnect, &disconnected);
    farcall_options_grace_ms(options, 20000);

    farcall_session *session;
    must(farcall_session_create(options, &session));
    char *end;
    long number = strtol(argv[1], &end, 10);
    if (argc == 3)
        must(*end == '\0' ? farcall_session_attach_shared(session, (int)number)
                          : farcall_session_attach_shared_name(session, argv[1]));
    else
        must(*end == '\0' ? farcall_session_attach_socket(session, (int)number)
                          : farcall_session_attach_name(session, argv[1]));

    /* A keepalive is there to be had until the shutdown. */
    farcall_keepalive *keepalive = farcall_session_keepalive(session, "main");
    if (keepalive == NULL)
        return 3;
    farcall_keepalive_release(keepalive);

    pthread_mutex_lock(&lock);
    while (!disconnected)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);

    must(farcall_session_shutdown(session, on_session_shut_down, &shut_down));
    must(farcall_session_wait(session));
    pthread_mutex_lock(&lock);
    while (!shut_down)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (farcall_session_keepalive(session, "too late") != NULL)
        return 4;
    must(farcall_session_dispose(session));

    /* A session that is over costs an error and nothing else. */
    farcall_error *error = farcall_session_wait(session);
    if (error == NULL)
        return 5;
    farcall_error_consume(error);
    if (disconnected != 1 || shut_down != 1 || serviced[0] != 1 || serviced[1] != 1)
        return 6;
    printf("served and shut down\n");
    return 0;
}
