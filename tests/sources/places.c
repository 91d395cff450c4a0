/* One program that runs linked code in a process of its own and in this one, moved by one option; and what only one place has.
 *
 *     places PLACE FIRST SECOND [PART]      objects of place.c, and of modelled.c in version 1 and 2 */
#define _GNU_SOURCE
#include "checked.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *place_object, *first_object, *second_object;

static farcall_executor_options options(bool here) {
    return (farcall_executor_options){.size = sizeof(farcall_executor_options), .this_program = true, .in_process = here};
}

static farcall_executor *started(bool here) {
    farcall_executor *executor = NULL;
    farcall_executor_options with = options(here);
    MUST(farcall_executor_start(&with, &executor));
    return executor;
}

static farcall_library *linked(farcall_executor *executor, const char *object) {
    farcall_library *library = NULL;
    MUST(farcall_library_create(executor, "library", &library));
    MUST(farcall_library_add_object_file(library, object));
    return library;
}

static farcall_error *add_tag(const farcall_value *arguments, size_t count, farcall_value *result, void *context) {
    CHECK(count == 1);
    result->data.i64 = arguments[0].data.i64 + *(int64_t *)context;
    return NULL;
}

static farcall_error *refuse(const farcall_value *arguments, size_t count, farcall_value *result, void *context) {
    (void)count, (void)result, (void)context;
    char text[32];
    snprintf(text, sizeof text, "no %d", (int)arguments[0].data.i64);
    return farcall_error_create(text);
}

static int64_t tag = 1000;

/* A library with place.c and its handlers. */
static farcall_library *placed(farcall_executor *executor) {
    farcall_library *library = linked(executor, place_object);
    MUST(farcall_library_define_handler(library, NULL, "int64_t thread_of_handler(int64_t)", add_tag, &tag));
    MUST(farcall_library_define_handler(library, NULL, "int64_t refuses(int64_t)", refuse, NULL));
    MUST(farcall_library_initialize(library));
    return library;
}

/* What the program has found out, one line for each call. */
struct report {
    char text[4096];
    size_t used;
};

static void say(struct report *report, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int added = vsnprintf(report->text + report->used, sizeof report->text - report->used, format, values);
    va_end(values);
    report->used += (size_t)added;
    CHECK(report->used < sizeof report->text);
}

/* Calls a function of one number, or of none, and says its result or the code of its error. */
static void call(struct report *report, farcall_library *library, const char *prototype, int64_t number) {
    farcall_function *function = function_of(library, prototype);
    farcall_value argument = {FARCALL_I64, {.i64 = number}}, result;
    size_t count = strstr(prototype, "(void)") == NULL ? 1 : 0;
    farcall_error *error = farcall_function_call(function, &argument, count, &result);
    say(report, "%s: %lld, %d\n", prototype, error == NULL ? (long long)result.data.i64 : 0, (int)farcall_error_code_of(error));
    if (strstr(prototype, "fail") != NULL)
        say(report, "%s\n", strstr(farcall_error_message(error), "no 3"));
    farcall_error_consume(error);
    MUST(farcall_function_dispose(function));
}

static void on_result(farcall_error *error, farcall_value result, void *context) {
    MUST(error);
    *(int64_t *)context = result.data.i64;
}

static void program(struct report *report, bool here) {
    farcall_executor *executor = started(here);
    farcall_library *library = placed(executor);
    call(report, library, "int64_t has_begun(void)", 0);
    call(report, library, "int64_t next(void)", 0);
    call(report, library, "int64_t next(void)", 0);
    call(report, library, "int64_t own_next(void)", 0);
    call(report, library, "int64_t ask(int64_t)", 41);
    call(report, library, "int64_t fail(int64_t)", 3);
    call(report, library, "int64_t ask(int64_t)", 42);
    call(report, library, "int64_t nowhere(void)", 0);

    farcall_function *ask = function_of(library, "int64_t ask(int64_t)");
    farcall_value numbers[3] = {{FARCALL_I64, {.i64 = 1}}, {FARCALL_I64, {.i64 = 2}}, {FARCALL_I64, {.i64 = 3}}}, results[3];
    MUST(farcall_function_batch(ask, numbers, 1, 3, results));
    say(report, "batch: %lld %lld %lld\n", (long long)results[0].data.i64, (long long)results[1].data.i64,
        (long long)results[2].data.i64);
    farcall_value wrong = {FARCALL_F64, {.f64 = 1}};
    say(report, "%s\n", FAILS(farcall_function_call(ask, &wrong, 1, NULL), FARCALL_TYPE));

    farcall_process *process = NULL;
    farcall_pipeline *pipeline = NULL;
    farcall_function *submitted = NULL;
    int64_t arrived = 0;
    int32_t pid = 0;
    MUST(farcall_executor_process(executor, 0, &process));
    MUST(farcall_process_pid(process, &pid));
    CHECK((pid == getpid()) == here);
    MUST(farcall_pipeline_open(process, true, &pipeline));
    MUST(farcall_function_over(ask, pipeline, &submitted));
    MUST(farcall_function_submit(submitted, numbers, 1, on_result, &arrived));
    for (size_t completed = 0; completed == 0;)
        MUST(farcall_pipeline_poll(pipeline, &completed));
    say(report, "submitted: %lld\n", (long long)arrived);
    MUST(farcall_pipeline_close(pipeline));

    uint64_t address = 0;
    int64_t counter = 0;
    MUST(farcall_library_lookup(library, "counter", &address));
    MUST(farcall_process_read(process, address, &counter, sizeof counter));
    say(report, "counter: %lld\n", (long long)counter);

    farcall_region *region = NULL;
    void *data = NULL;
    MUST(farcall_region_create(4096, false, &region));
    MUST(farcall_region_data(region, &data, NULL));
    MUST(farcall_executor_attach(executor, region));
    *(int *)data = 77;
    farcall_library *old = linked(executor, first_object), *new = linked(executor, second_object);
    farcall_function *at = function_of(old, "int at(const int *)");
    farcall_value where = {FARCALL_POINTER, {.address = (uintptr_t)data}}, found;
    MUST(farcall_function_call(at, &where, 1, &found));
    say(report, "region: %d\n", found.data.i32);

    farcall_redirection *redirection = NULL;
    farcall_library *stable = NULL;
    MUST(farcall_library_create(executor, "stable", &stable));
    MUST(farcall_redirection_create(stable, "step", old, "version", &redirection));
    farcall_function *step = function_of(stable, "int step(void)");
    MUST(farcall_function_call(step, NULL, 0, &found));
    say(report, "step: %d\n", found.data.i32);
    MUST(farcall_redirection_redirect_and_remove(redirection, new, "version", old));
    MUST(farcall_function_call(step, NULL, 0, &found));
    say(report, "step: %d\n", found.data.i32);
    FAILS(farcall_library_lookup(old, "version", &address), FARCALL_SYMBOLS);

    MUST(farcall_library_clear(library));
    call(report, library, "int64_t next(void)", 0);
    MUST(farcall_executor_close(executor));
    FAILS(farcall_function_call(step, NULL, 0, NULL), FARCALL_INVALID);
    MUST(farcall_region_dispose(region));
}

static void same(void) {
    static struct report there, here;
    program(&there, false);
    program(&here, true);
    if (strcmp(there.text, here.text) != 0) {
        fprintf(stderr, "in a process of its own:\n%s\nin this one:\n%s\n", there.text, here.text);
        exit(1);
    }
    CHECK(strstr(here.text, "int64_t next(void): 7, 0\n") != NULL && strstr(here.text, "ask(int64_t): 1041, 0\n") != NULL);
}

static void refused(farcall_error *error, const char *what) {
    const char *message = FAILS(error, FARCALL_INVALID);
    if (strstr(message, what) == NULL || strstr(message, "in_process") == NULL) {
        fprintf(stderr, "%s is not in: %s\n", what, message);
        exit(1);
    }
}

static farcall_error *goes_on(void *context) {
    (void)context;
    return NULL;
}

static void on_released(farcall_error *error, farcall_value result, void *context) {
    (void)result;
    MUST(error);
    *(bool *)context = true;
}

static void refuses(void) {
    farcall_executor *executor = NULL;
    farcall_executor_options with = options(true);
    with.confinement.level = 1;
    refused(farcall_executor_start(&with, &executor), "ExecutorBuilder::confine");
    with = options(true);
    with.restart.restarts = true;
    refused(farcall_executor_start(&with, &executor), "ExecutorBuilder::restart");
    with = options(true);
    with.processes = 2;
    refused(farcall_executor_start(&with, &executor), "ExecutorBuilder::processes");
    with = options(true);
    static const char *const environment[] = {"A=1", NULL};
    with.environment = environment;
    refused(farcall_executor_start(&with, &executor), "ExecutorBuilder::env");
    with = options(true);
    with.link_timeout_ms = 1000;
    refused(farcall_executor_start(&with, &executor), "ExecutorBuilder::link_timeout");
    CHECK(executor == NULL);
    with = options(true);
    with.program = "/no/such/program";
    with.inherit_descriptors = true;
    with.start_timeout_ms = 1;
    MUST(farcall_executor_start(&with, &executor));

    int32_t pid = 0;
    size_t running = 0;
    MUST(farcall_executor_pids(executor, &pid, 1, &running));
    CHECK(running == 1 && pid == getpid());
    farcall_library *library = placed(executor);
    farcall_function *next = function_of(library, "int64_t next(void)");
    farcall_call_options late = {.size = sizeof late, .timeout_ms = 1000};
    refused(farcall_function_call_with(next, &late, NULL, 0, NULL), "a call with a timeout or a watch");
    farcall_call_options watched = {.size = sizeof watched, .watch_every_ms = 1, .watch = goes_on};
    refused(farcall_function_call_with(next, &watched, NULL, 0, NULL), "a call with a timeout or a watch");
    refused(farcall_executor_interrupt_all(executor, 0), "ending calls");
    farcall_snapshot *snapshot = NULL;
    refused(farcall_snapshot_take(executor, &snapshot), "a snapshot");
    farcall_process *process = NULL;
    MUST(farcall_executor_process(executor, 0, &process));
    int status = 0;
    refused(farcall_process_exit(process, 0, &status), "Process::exit");
    const char *const words[] = {"a", NULL};
    refused(farcall_library_run_start(library, "next", words, &status), "Library::run_start");
    farcall_library *first = NULL;
    MUST(farcall_library_create(executor, "first", &first));
    refused(farcall_library_precede_libraries(first), "Library::precede_libraries");
    FAILS(farcall_executor_restart(executor), FARCALL_INVALID);

    /* A submitted call that runs goes on. */
    farcall_pipeline *pipeline = NULL;
    farcall_function *wait = function_of(library, "void wait_for(const int64_t *)"), *submitted = NULL;
    static _Atomic int64_t word;
    static bool is_released;
    MUST(farcall_pipeline_open(process, true, &pipeline));
    MUST(farcall_function_over(wait, pipeline, &submitted));
    farcall_value where = {FARCALL_POINTER, {.address = (uintptr_t)&word}}, result;
    MUST(farcall_function_submit(submitted, &where, 1, on_released, &is_released));
    refused(farcall_function_cancel(submitted, &is_released), "ending a call");
    refused(farcall_pipeline_cancel(pipeline, &is_released), "ending a call");
    atomic_store(&word, 1);
    for (size_t completed = 0; !is_released;)
        MUST(farcall_pipeline_poll(pipeline, &completed));

    MUST(farcall_function_call(next, NULL, 0, &result));
    CHECK(result.data.i64 == 6);
    MUST(farcall_executor_kill(executor));
    const char *message = FAILS(farcall_function_call(next, NULL, 0, NULL), FARCALL_DISCONNECTED);
    CHECK(strstr(message, "a kill needs a process of the executor's own") != NULL);
    MUST(farcall_executor_close(executor));
}

static farcall_any_function pointer_of(farcall_library *library, const char *prototype) {
    farcall_function *function = function_of(library, prototype);
    farcall_any_function pointer = NULL;
    MUST(farcall_function_pointer(function, &pointer));
    CHECK(pointer != NULL);
    MUST(farcall_function_dispose(function));
    return pointer;
}

static void *ask_on_a_thread(void *pointer) {
    int64_t (*ask)(int64_t) = *(int64_t (**)(int64_t))pointer;
    for (int64_t turn = 0; turn < 1000; turn++)
        CHECK(ask(turn) == turn + tag);
    return NULL;
}

static void pointers(void) {
    farcall_executor *elsewhere = started(false);
    farcall_function *there = function_of(linked(elsewhere, first_object), "int next(void)");
    farcall_any_function none = (farcall_any_function)abort;
    refused(farcall_function_pointer(there, &none), "the function is in another process");
    CHECK(none == NULL);
    MUST(farcall_executor_close(elsewhere));

    farcall_executor *executor = started(true);
    farcall_library *library = placed(executor), *other = linked(executor, first_object);
    int64_t (*next)(void) = (int64_t (*)(void))pointer_of(library, "int64_t next(void)");
    int64_t (*ask)(int64_t) = (int64_t (*)(int64_t))pointer_of(library, "int64_t ask(int64_t)");
    long (*add)(long, long) = (long (*)(long, long))pointer_of(other, "long add(long, long)");
    /* The handles are no part of it. */
    MUST(farcall_library_dispose(library));
    CHECK(next() == 6 && next() == 7 && add(40, 2) == 42 && ask(1) == 1001);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ask_on_a_thread, &ask) == 0 && pthread_join(thread, NULL) == 0);

    /* A child of a fork has the code, and no session. */
    farcall_function *added = function_of(other, "long add(long, long)");
    farcall_value numbers[2] = {{FARCALL_I64, {.i64 = 1}}, {FARCALL_I64, {.i64 = 2}}}, result;
    pid_t child = fork();
    if (child == 0) {
        FAILS(farcall_function_call(added, numbers, 2, &result), FARCALL_INVALID);
        _exit(add(1, 2) == 3 && next() == 8 ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(next() == 8);
    MUST(farcall_function_call(added, numbers, 2, &result));
    CHECK(result.data.i64 == 3);
    MUST(farcall_executor_close(executor));
}

static size_t entries(const char *folder) {
    DIR *open = opendir(folder);
    CHECK(open != NULL);
    size_t count = 0;
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

/* What the process has: its mappings, descriptors and threads, and its resident pages. */
struct held {
    size_t mappings, descriptors, threads, pages;
};

static struct held held(void) {
    struct held now = {0, entries("/proc/self/fd"), entries("/proc/self/task"), 0};
    FILE *maps = fopen("/proc/self/maps", "r"), *statm = fopen("/proc/self/statm", "r");
    CHECK(maps != NULL && statm != NULL);
    for (int byte; (byte = fgetc(maps)) != EOF;)
        now.mappings += byte == '\n';
    CHECK(fscanf(statm, "%*s %zu", &now.pages) == 1);
    fclose(maps);
    fclose(statm);
    return now;
}

static void cycle(farcall_executor *executor) {
    farcall_library *library = placed(executor);
    farcall_function *next = function_of(library, "int64_t next(void)");
    farcall_value result;
    MUST(farcall_function_call(next, NULL, 0, &result));
    CHECK(result.data.i64 == 6);
    int64_t (*ask)(int64_t) = (int64_t (*)(int64_t))pointer_of(library, "int64_t ask(int64_t)");
    CHECK(ask(1) == 1001);
    MUST(farcall_function_dispose(next));
    MUST(farcall_library_clear(library));
    uint64_t address = 0;
    FAILS(farcall_library_lookup(library, "next", &address), FARCALL_SYMBOLS);
    MUST(farcall_library_dispose(library));
}

static void cycles(void) {
    farcall_executor *executor = started(true);
    for (int round = 0; round < 50; round++)
        cycle(executor);
    struct held before = held();
    for (int round = 0; round < 1000; round++)
        cycle(executor);
    struct held after = held();
    fprintf(stderr, "1000 cycles: %zu then %zu mappings, %zu then %zu descriptors, %zu then %zu threads, %zu then %zu pages\n",
            before.mappings, after.mappings, before.descriptors, after.descriptors, before.threads, after.threads,
            before.pages, after.pages);
    CHECK(after.descriptors == before.descriptors && after.threads == before.threads);
    CHECK(after.mappings <= before.mappings + 8);
#ifndef __SANITIZE_ADDRESS__
    CHECK(after.pages <= before.pages + 1024);
#endif
    MUST(farcall_executor_close(executor));
    for (int round = 0; round < 20; round++) {
        executor = started(true);
        cycle(executor);
        MUST(farcall_executor_close(executor));
    }
    struct held end = held();
    CHECK(end.descriptors <= before.descriptors && end.mappings <= before.mappings + 8);
}

int main(int words, char **arguments) {
    farcall_run_if_spawned();
    CHECK(words == 4 || words == 5);
    place_object = arguments[1], first_object = arguments[2], second_object = arguments[3];
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"same", same}, {"refuses", refuses}, {"pointers", pointers}, {"cycles", cycles}};
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++) {
        if (words == 5 && strcmp(arguments[4], parts[at].name) != 0)
            continue;
        parts[at].run();
        printf("%s\n", parts[at].name);
        fflush(stdout);
    }
    return 0;
}
