/* A program that starts executors, links code into them and calls it: executors, processes, and what has addresses. model.c has libraries.
 *
 *     control OBJECT ARCHIVE LATE       an object of controlled.c, an archive and an object of controlled_late.c */
#define _GNU_SOURCE
#include "checked.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *object, *archive, *late_object;

static void doze_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Waits until a counter has a value, for at most 20 s. */
static void wait_for(atomic_int *counter, int value) {
    for (int turn = 0; atomic_load(counter) != value; turn++) {
        if (turn == 20000) {
            fprintf(stderr, "control.c: a counter is %d in place of %d\n", atomic_load(counter), value);
            exit(1);
        }
        doze_ms(1);
    }
}

/* A number among the facts of a death. */
static uint64_t number_of(const farcall_error *error, const char *name) {
    const farcall_fact *fact = farcall_error_fact(error, name);
    CHECK(fact != NULL && fact->kind == FARCALL_NUMBER);
    return fact->number;
}

/* The executor of the part that runs. */
static farcall_executor *executor;

/* Its process. */
static farcall_process *start(const farcall_executor_options *options) {
    farcall_process *process = NULL;
    MUST(farcall_executor_start(options, &executor));
    MUST(farcall_executor_process(executor, 0, &process));
    CHECK(executor != NULL && process != NULL);
    return process;
}

static farcall_process *started(void) {
    farcall_executor_options options = {.size = sizeof options, .this_program = true};
    return start(&options);
}

/* The options of a call that takes at most this time. */
static const farcall_call_options *up_to(uint64_t ms) {
    static farcall_call_options options = {.size = sizeof options};
    options.timeout_ms = ms;
    return &options;
}

/* A dylib with the code of controlled.c. */
static farcall_dylib *linked(farcall_process *process) {
    farcall_dylib *dylib = NULL;
    MUST(farcall_dylib_create(process, "main", &dylib));
    MUST(farcall_dylib_add_object_file(dylib, NULL, object));
    MUST(farcall_dylib_define(dylib, "host_scale", 0x10));
    return dylib;
}

static uint64_t found(farcall_dylib *dylib, const char *name) {
    uint64_t address = 0;
    MUST(farcall_dylib_lookup(dylib, name, &address));
    CHECK(address != 0);
    return address;
}

static farcall_function *typed(farcall_process *process, farcall_dylib *dylib, const char *name,
                               const char *declarations, const char *prototype) {
    farcall_function *function = NULL;
    MUST(farcall_process_function(process, found(dylib, name), declarations, prototype, &function));
    return function;
}

/* 0. The version. */
static void versions(void) {
    MUST(farcall_check_version(FARCALL_VERSION));
    CHECK(farcall_version() == FARCALL_VERSION);
    const char *message = FAILS(farcall_check_version(FARCALL_VERSION + (1 << 16)), FARCALL_INVALID);
    CHECK(strstr(message, farcall_version_text()) != NULL);
}

/* 1. The life of an executor. */
static atomic_int deaths;
static int death_signal;

static void on_death(farcall_executor *dead, farcall_error *error, void *context) {
    CHECK(dead == executor && context == &deaths);
    death_signal = (int)number_of(error, "signal");
    CHECK(strstr(farcall_error_message(error), "executor died") != NULL);
    farcall_error_consume(error);
    atomic_fetch_add(&deaths, 1);
}

// A confined executor says what it is, and the error names a level that there is not.
static void confines(void) {
    farcall_executor_options options = {
        .size = sizeof options,
        .this_program = true,
        .confinement = {.level = 1, .allow_missing = true, .memory_bytes_max = 1ull << 40, .cpu_seconds_max = 600},
    };
    farcall_process *process = start(&options);
    char *text = NULL;
    MUST(farcall_process_confinement(process, &text));
    CHECK(strncmp(text, "isolated: no privileges, core files", 35) == 0);
    farcall_text_free(text);
    MUST(farcall_executor_close(executor));
    options.confinement.level = 3;
    farcall_error *error = farcall_executor_start(&options, &executor);
    CHECK(error != NULL && strstr(farcall_error_message(error), "a confinement of level 3") != NULL);
    farcall_error_consume(error);
}

// A published session has one more descriptor, by which readers find it. A name that cannot be shown is refused.
static void publishes(void) {
    farcall_executor_options options = {.size = sizeof options, .this_program = true, .publish = "a host in C"};
    start(&options);
    bool is_found = false;
    for (int descriptor = 0; descriptor < 1024 && !is_found; descriptor++) {
        char path[32], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        is_found = readlink(path, target, sizeof target - 1) > 0 && strstr(target, "farcall-published") != NULL;
    }
    CHECK(is_found);
    MUST(farcall_executor_close(executor));
    options.publish = "two\nlines";
    farcall_error *error = farcall_executor_start(&options, &executor);
    CHECK(error != NULL && strstr(farcall_error_message(error), "without control characters") != NULL);
    farcall_error_consume(error);
}

static void lives(void) {
    static const char *const environment[] = {"CONTROLLED=by C", NULL};
    farcall_executor_options options = {
        .size = sizeof options,
        .this_program = true,
        .inherit_descriptors = true,
        .environment = environment,
        .spin_ns = 20000,
        .start_timeout_ms = 60000,
        .slab_bytes = {1 << 20, 1 << 20, 2 << 20},
        .low_slab_bytes = {1 << 20, 1 << 20, 2 << 20},
    };
    farcall_process *process = start(&options);
    MUST(farcall_executor_on_death(executor, on_death, &deaths));
    int32_t pid = 0;
    MUST(farcall_process_pid(process, &pid));
    CHECK(pid > 0 && kill(pid, 0) == 0);
    char *triple = NULL;
    MUST(farcall_process_triple(process, &triple));
    CHECK(strstr(triple, "linux") != NULL);
    farcall_text_free(triple);
    uint64_t page = 0;
    MUST(farcall_process_page_bytes(process, &page));
    CHECK(page == (uint64_t)sysconf(_SC_PAGESIZE));
    MUST(farcall_process_death(process));

    /* Killed. */
    MUST(farcall_process_kill(process));
    wait_for(&deaths, 1);
    CHECK(death_signal == SIGKILL);
    FAILS(farcall_process_death(process), FARCALL_DIED);
    farcall_buffer result;
    farcall_error *error = farcall_process_call(process, 1, NULL, 0, &result);
    CHECK(farcall_error_is_disconnected(error));
    FAILS(error, FARCALL_DIED);
    MUST(farcall_executor_close(executor));
    FAILS(farcall_executor_close(executor), FARCALL_INVALID);
    FAILS(farcall_process_kill(process), FARCALL_INVALID);

    /* A crash is named. */
    process = start(&options);
    farcall_function *function = typed(process, linked(process), "crash", NULL, "void crash(void)");
    error = farcall_function_call(function, NULL, 0, NULL);
    CHECK(farcall_error_code_of(error) == FARCALL_DIED);
    CHECK(number_of(error, "signal") == SIGSEGV && number_of(error, "fault_address") == 0x10);
    CHECK(number_of(error, "program_counter") != 0);
    const farcall_fact *location = farcall_error_fact(error, "location");
    CHECK(location->kind == FARCALL_TEXT && strncmp(location->text, "crash+", 6) == 0 && location->list == NULL);
    const farcall_fact *backtrace = farcall_error_fact(error, "backtrace");
    CHECK(backtrace->kind == FARCALL_LIST && strcmp(backtrace->list[0], location->text) == 0);
    CHECK(backtrace->list[1] == NULL && backtrace->text == NULL);
    size_t count = 0;
    const farcall_fact *facts = farcall_error_facts(error, &count);
    CHECK(count == 5 && farcall_error_fact(error, facts[0].name) == &facts[0]);
    CHECK(farcall_error_fact(error, "exit_status") == NULL && farcall_error_fact(error, "stack_overflow") == NULL);
    CHECK(strstr(farcall_error_message(error), "SIGSEGV") != NULL);
    farcall_error_consume(error);
    /* Also before the kernel has told the end. */
    FAILS(farcall_process_death(process), FARCALL_DIED);
    MUST(farcall_executor_close(executor));
    CHECK(atomic_load(&deaths) == 1);

    /* It leaves by itself, and as it is asked to. */
    process = start(&options);
    function = typed(process, linked(process), "leave", NULL, "void leave(int)");
    farcall_value seven = {FARCALL_I32, {.i32 = 7}};
    error = farcall_function_call(function, &seven, 1, NULL);
    CHECK(number_of(error, "exit_status") == 7 && farcall_error_fact(error, "signal") == NULL);
    farcall_error_consume(error);
    MUST(farcall_executor_close(executor));
    process = start(&options);
    int status = 0;
    MUST(farcall_process_exit(process, 5, &status));
    CHECK(status == 5);
    MUST(farcall_process_exit(process, 6, &status));
    CHECK(status == 5);
    MUST(farcall_executor_close(executor));
    MUST(farcall_executor_close(NULL));
    MUST(farcall_process_dispose(NULL));

    options.program = "/no/such/program";
    farcall_executor *none = executor;
#ifdef MEMCHECK
    /* valgrind's vfork is a fork, whose child cannot tell why it ends. */
    FAILS(farcall_executor_start(&options, &none), FARCALL_DIED);
#else
    FAILS(farcall_executor_start(&options, &none), FARCALL_SYSTEM);
#endif
    CHECK(none == NULL);
}

/* 2. Calls of wrapper functions. */
static void calls(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = linked(process);
    uint64_t reverse = found(dylib, "reverse"), doze = found(dylib, "doze");
    for (size_t size = 0; size < 100000; size = size * 7 + 1) {
        char *bytes = malloc(size + 1);
        CHECK(bytes != NULL);
        for (size_t at = 0; at < size; at++)
            bytes[at] = (char)(at * 31);
        farcall_buffer result;
        MUST(farcall_process_call(process, reverse, bytes, size, &result));
        CHECK(farcall_buffer_size(&result) == size);
        for (size_t at = 0; at < size; at++)
            CHECK(farcall_buffer_const_data(&result)[at] == bytes[size - 1 - at]);
        farcall_buffer_dispose(&result);
        MUST(farcall_process_call_with(process, reverse, up_to(60000), bytes, size, &result));
        CHECK(farcall_buffer_size(&result) == size && (size == 0 || farcall_buffer_data(&result)[size - 1] == bytes[0]));
        farcall_buffer_dispose(&result);
        free(bytes);
    }
    farcall_buffer result;
    const char *message = FAILS(farcall_process_call(process, found(dylib, "refuse"), "x", 1, &result), FARCALL_REMOTE);
    CHECK(strcmp(message, "not today") == 0 && farcall_buffer_is_empty(&result));
    uint32_t ms = 60000;
    farcall_call_options brief = {.size = sizeof brief, .timeout_ms = 5, .grace_ns = 20000000000};
    FAILS(farcall_process_call_with(process, doze, &brief, &ms, sizeof ms, &result), FARCALL_INTERRUPTED);
    MUST(farcall_process_call_with(process, doze, up_to(UINT64_MAX), NULL, 0, &result));
    farcall_buffer_dispose(&result);
    MUST(farcall_executor_close(executor));
}

/* Completions count what they get. */
struct outcome {
    atomic_int done;
    atomic_int failed;
    farcall_error_code code;
    uint64_t sum;
    pthread_t thread;
};

static void completed(farcall_error *error, farcall_buffer result, void *context) {
    struct outcome *outcome = context;
    outcome->thread = pthread_self();
    outcome->code = farcall_error_code_of(error);
    uint32_t number = 0;
    if (error == NULL) {
        CHECK(farcall_buffer_size(&result) == sizeof number);
        memcpy(&number, farcall_buffer_const_data(&result), sizeof number);
        outcome->sum += number;
    } else {
        CHECK(farcall_buffer_is_empty(&result));
        atomic_fetch_add(&outcome->failed, 1);
    }
    farcall_error_consume(error);
    farcall_buffer_dispose(&result);
    atomic_fetch_add(&outcome->done, 1);
}

static void submit(farcall_pipeline *pipeline, uint64_t function, uint32_t number, struct outcome *outcome) {
    MUST(farcall_pipeline_submit(pipeline, function, &number, sizeof number, completed, outcome));
}

/* A dispatcher of one thread: tasks in a list. */
static pthread_mutex_t tasks_lock = PTHREAD_MUTEX_INITIALIZER;
static farcall_task *tasks[10000];
static int first_task, end_task;

static void dispatch(farcall_task *task, void *context) {
    CHECK(context == tasks);
    pthread_mutex_lock(&tasks_lock);
    CHECK(end_task < 10000);
    tasks[end_task++] = task;
    pthread_mutex_unlock(&tasks_lock);
}

static int run_tasks(void) {
    int ran = 0;
    for (;; ran++) {
        pthread_mutex_lock(&tasks_lock);
        farcall_task *task = first_task < end_task ? tasks[first_task++] : NULL;
        pthread_mutex_unlock(&tasks_lock);
        if (task == NULL)
            return ran;
        farcall_task_run(task);
    }
}

static void pipelines(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = linked(process);
    uint64_t doze = found(dylib, "doze"), refuse = found(dylib, "refuse");

    /* On threads of the library. */
    farcall_pipeline *pipeline = NULL;
    MUST(farcall_pipeline_open(process, false, &pipeline));
    struct outcome outcome = {0};
    for (uint32_t at = 0; at < 3; at++)
        submit(pipeline, doze, at, &outcome);
    submit(pipeline, refuse, 9, &outcome);
    wait_for(&outcome.done, 4);
    CHECK(outcome.sum == 3 && atomic_load(&outcome.failed) == 1);
    CHECK(!pthread_equal(outcome.thread, pthread_self()));
    size_t count = 7;
    FAILS(farcall_pipeline_poll(pipeline, &count), FARCALL_INVALID);
    CHECK(count == 0);

    /* What is under way when it closes completes here, once. */
    struct outcome cut = {0};
    submit(pipeline, doze, 300, &cut);
    submit(pipeline, doze, 0, &cut);
    MUST(farcall_pipeline_close(pipeline));
    CHECK(atomic_load(&cut.done) == 2 && atomic_load(&cut.failed) == 2 && cut.code == FARCALL_DISCONNECTED);
    CHECK(pthread_equal(cut.thread, pthread_self()));
    FAILS(farcall_pipeline_close(pipeline), FARCALL_INVALID);
    FAILS(farcall_pipeline_submit(pipeline, doze, NULL, 0, completed, &cut), FARCALL_INVALID);

    /* Polled. */
    MUST(farcall_pipeline_open(process, true, &pipeline));
    struct outcome polled = {0};
    for (uint32_t at = 0; at < 1000; at++)
        submit(pipeline, doze, 0, &polled);
    CHECK(atomic_load(&polled.done) == 0);
    size_t all = 0;
    for (int turn = 0; all < 1000; turn++) {
        CHECK(turn < 20000);
        MUST(farcall_pipeline_poll(pipeline, &count));
        all += count;
        doze_ms(1);
    }
    CHECK(atomic_load(&polled.done) == 1000 && pthread_equal(polled.thread, pthread_self()));

    /* The executor dies. */
    submit(pipeline, doze, 10000, &polled);
    MUST(farcall_process_kill(process));
    for (int turn = 0; atomic_load(&polled.done) == 1000; turn++) {
        CHECK(turn < 20000);
        MUST(farcall_pipeline_poll(pipeline, &count));
        doze_ms(1);
    }
    CHECK(atomic_load(&polled.failed) == 1 && polled.code == FARCALL_DIED);
    MUST(farcall_executor_close(executor));

    /* On the host's thread; the rest when the process closes. */
    farcall_executor_options options = {
        .size = sizeof options, .this_program = true, .dispatch = dispatch, .dispatch_context = tasks};
    process = start(&options);
    doze = found(linked(process), "doze");
    MUST(farcall_pipeline_open(process, false, &pipeline));
    struct outcome here = {0};
    submit(pipeline, doze, 1, &here);
    for (int turn = 0; atomic_load(&here.done) == 0; turn++) {
        CHECK(turn < 20000);
        run_tasks();
        doze_ms(1);
    }
    CHECK(here.sum == 1 && pthread_equal(here.thread, pthread_self()));
    submit(pipeline, doze, 20000, &here);
    MUST(farcall_executor_close(executor));
    CHECK(atomic_load(&here.done) == 2 && here.code == FARCALL_DISCONNECTED);
    run_tasks();
    CHECK(atomic_load(&here.done) == 2);
}

/* 3. Dylibs. */
static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    char *bytes = malloc(1 << 20);
    CHECK(bytes != NULL);
    *size = fread(bytes, 1, 1 << 20, file);
    CHECK(*size > 0 && *size < 1 << 20);
    fclose(file);
    return bytes;
}

static void dylibs(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = NULL, *other = NULL;
    MUST(farcall_dylib_create(process, "main", &dylib));
    FAILS(farcall_dylib_create(process, "main", &other), FARCALL_INVALID);
    size_t size = 0;
    char *bytes = read_file(object, &size);
    FAILS(farcall_dylib_add_object(dylib, NULL, "damaged.o", bytes, size / 2), FARCALL_LINK);
    MUST(farcall_dylib_add_object(dylib, NULL, "controlled.o", bytes, size));
    FAILS(farcall_dylib_add_object(dylib, NULL, "again.o", bytes, size), FARCALL_SYMBOLS);
    free(bytes);
    uint64_t address = 0;
    const char *message = FAILS(farcall_dylib_lookup(dylib, "nowhere", &address), FARCALL_SYMBOLS);
    CHECK(strstr(message, "nowhere") != NULL);

    /* The object refers to a name that another dylib defines. */
    MUST(farcall_dylib_create(process, "other", &other));
    MUST(farcall_dylib_define(other, "host_scale", 0x20));
    FAILS(farcall_dylib_define(other, "host_scale", 0x20), FARCALL_SYMBOLS);
    MUST(farcall_dylib_add_to_link_order(dylib, other));
    MUST(farcall_dylib_add_to_link_order(dylib, other));
    const char *const names[] = {"scale", "reverse", "host_scale", "getpid"};
    uint64_t addresses[4] = {0};
    MUST(farcall_dylib_lookup_many(dylib, names, 4, addresses));
    CHECK(addresses[0] == found(dylib, "scale") && addresses[2] == 0x20 && addresses[3] != 0);
    const char *const missing[] = {"scale", "nowhere", "never"};
    message = FAILS(farcall_dylib_lookup_many(dylib, missing, 3, addresses), FARCALL_SYMBOLS);
    CHECK(strstr(message, "nowhere") != NULL && strstr(message, "never") != NULL);
    MUST(farcall_dylib_lookup_many(dylib, NULL, 0, NULL));

    /* A function of a library. */
    farcall_function *function = typed(process, dylib, "getpid", NULL, "int getpid(void)");
    farcall_value value;
    int32_t pid = 0;
    MUST(farcall_process_pid(process, &pid));
    MUST(farcall_function_call(function, NULL, 0, &value));
    CHECK(value.kind == FARCALL_I32 && value.data.i32 == pid);
    /* Initializers run once. */
    MUST(farcall_dylib_initialize(dylib));
    MUST(farcall_dylib_initialize(dylib));
    function = typed(process, dylib, "starts", NULL, "int starts(void)");
    MUST(farcall_function_call(function, NULL, 0, &value));
    CHECK(value.data.i32 == 1);

    /* Archives, from a file and from memory. */
    MUST(farcall_dylib_add_archive_file(dylib, archive));
    function = typed(process, dylib, "late", NULL, "long late(long)");
    farcall_value four = {FARCALL_I64, {.i64 = 4}};
    MUST(farcall_function_call(function, &four, 1, &value));
    CHECK(value.data.i64 == 8);
    MUST(farcall_dylib_remove(other));
    MUST(farcall_dylib_create(process, "other", &other));
    MUST(farcall_dylib_add_to_link_order(other, dylib));
    bytes = read_file(archive, &size);
    MUST(farcall_dylib_add_archive(other, "late.a", bytes, size));
    FAILS(farcall_dylib_add_archive(other, "damaged.a", bytes, 20), FARCALL_LINK);
    free(bytes);
    CHECK(found(other, "late") != found(dylib, "late"));
    FAILS(farcall_dylib_add_archive_file(dylib, "/no/such/file"), FARCALL_SYSTEM);
    FAILS(farcall_dylib_add_object_file(dylib, NULL, "/no/such/file"), FARCALL_SYSTEM);
    MUST(farcall_dylib_clear(other));
    MUST(farcall_dylib_remove(other));
    FAILS(farcall_dylib_clear(other), FARCALL_INVALID);

    /* Trackers: remove and add again. */
    MUST(farcall_dylib_create(process, "tracked", &other));
    MUST(farcall_dylib_add_to_link_order(other, dylib));
    for (int round = 0; round < 3; round++) {
        farcall_tracker *tracker = NULL;
        MUST(farcall_tracker_create(other, &tracker));
        MUST(farcall_dylib_add_object_file(other, tracker, late_object));
        FAILS(farcall_dylib_add_object_file(dylib, tracker, late_object), FARCALL_INVALID);
        CHECK(found(other, "late") != 0);
        MUST(farcall_tracker_remove(tracker));
        FAILS(farcall_tracker_remove(tracker), FARCALL_INVALID);
        FAILS(farcall_dylib_add_object_file(other, tracker, late_object), FARCALL_INVALID);
    }
    farcall_tracker *one = NULL, *two = NULL;
    MUST(farcall_tracker_create(other, &one));
    MUST(farcall_tracker_create(other, &two));
    MUST(farcall_dylib_add_object_file(other, one, late_object));
    FAILS(farcall_tracker_transfer(one, one), FARCALL_INVALID);
    MUST(farcall_tracker_transfer(one, two));
    CHECK(found(other, "late") != 0);
    MUST(farcall_tracker_transfer(two, NULL));
    CHECK(found(other, "late") != 0);
    MUST(farcall_tracker_create(other, &one));
    MUST(farcall_dylib_remove(other));
    FAILS(farcall_tracker_remove(one), FARCALL_INVALID);
    MUST(farcall_executor_close(executor));
    FAILS(farcall_dylib_lookup(dylib, "scale", &address), FARCALL_INVALID);
}

/* Links by steps. The host of this test has the process's symbols by a dylib, and a table of two names. */
struct host {
    farcall_link *link;
    farcall_dylib *symbols;
    uint64_t scale, late;
    int definitions, references;
};

static void on_definition(const farcall_link_definition *definition, void *context) {
    struct host *host = context;
    host->definitions++;
    CHECK(!definition->is_weak && !definition->is_hidden);
    if (strcmp(definition->name, "scale") == 0)
        host->scale = definition->address;
    if (strcmp(definition->name, "late") == 0)
        host->late = definition->address;
    CHECK(strcmp(definition->name, "late") != 0 || definition->is_callable);
}

static void on_reference(const farcall_link_reference *reference, void *context) {
    struct host *host = context;
    host->references++;
    CHECK(!reference->is_thread_local);
    if (strcmp(reference->name, "scale") == 0) {
        /* Its address comes later. */
        MUST(farcall_link_define(host->link, "scale", 0, true));
        return;
    }
    uint64_t address = 0x20;
    if (strcmp(reference->name, "host_scale") != 0) {
        farcall_error *missing = farcall_dylib_lookup(host->symbols, reference->name, &address);
        CHECK(missing == NULL || reference->is_weak);
        farcall_error_consume(missing);
    }
    if (address != 0)
        MUST(farcall_link_define(host->link, reference->name, address, true));
}

static void begin_link(farcall_process *process, struct host *host, const char *path) {
    size_t size = 0;
    char *bytes = read_file(path, &size);
    FAILS(farcall_link_create(process, "damaged.o", bytes, size / 2, false, &host->link), FARCALL_LINK);
    MUST(farcall_link_create(process, path, bytes, size, true, &host->link));
    free(bytes);
    host->definitions = host->references = 0;
    host->scale = host->late = 0;
    MUST(farcall_link_each_definition(host->link, on_definition, host));
    CHECK(host->definitions > 0 && host->scale == 0 && host->late == 0);
    MUST(farcall_link_each_reference(host->link, on_reference, host));
    CHECK(host->references > 0);
}

static void links(void) {
    farcall_process *process = started();
    farcall_dylib *symbols = NULL;
    MUST(farcall_dylib_create(process, "symbols", &symbols));
    struct host late = {.symbols = symbols}, first = {.symbols = symbols};
    begin_link(process, &late, late_object);
    bool has_initializers = true;
    FAILS(farcall_link_finish(late.link, &has_initializers), FARCALL_INVALID);
    FAILS(farcall_link_locate(late.link, "scale", 16), FARCALL_INVALID);
    FAILS(farcall_link_initialize(late.link, NULL), FARCALL_INVALID);
    FAILS(farcall_link_deinitialize(late.link), FARCALL_INVALID);
    MUST(farcall_link_place(late.link));
    FAILS(farcall_link_define(late.link, "scale", 16, true), FARCALL_INVALID);
    MUST(farcall_link_each_definition(late.link, on_definition, &late));
    CHECK(late.late != 0);

    begin_link(process, &first, object);
    MUST(farcall_link_place(first.link));
    FAILS(farcall_link_each_reference(first.link, on_reference, &first), FARCALL_INVALID);
    MUST(farcall_link_each_definition(first.link, on_definition, &first));
    CHECK(first.scale != 0);
    MUST(farcall_link_locate(late.link, "scale", first.scale));
    MUST(farcall_link_finish(late.link, &has_initializers));
    CHECK(!has_initializers);
    MUST(farcall_link_finish(first.link, &has_initializers));
    CHECK(has_initializers);
    FAILS(farcall_link_each_definition(late.link, on_definition, &late), FARCALL_INVALID);
    MUST(farcall_link_initialize(late.link, NULL));
    MUST(farcall_link_initialize(first.link, up_to(60000)));
    MUST(farcall_link_initialize(first.link, NULL));

    farcall_function *function = NULL;
    farcall_value four = {FARCALL_I64, {.i64 = 4}}, result;
    MUST(farcall_process_function(process, late.late, NULL, "long late(long)", &function));
    MUST(farcall_function_call(function, &four, 1, &result));
    CHECK(result.data.i64 == 8);
    MUST(farcall_link_deinitialize(late.link));
    MUST(farcall_link_deinitialize(first.link));
    farcall_link *both[] = {late.link, first.link};
    MUST(farcall_link_remove(both, 2));
    FAILS(farcall_link_remove(both, 2), FARCALL_INVALID);
    MUST(farcall_link_remove(NULL, 0));

    /* A name that nobody defines. */
    struct host other = {.symbols = symbols};
    size_t size = 0;
    char *bytes = read_file(late_object, &size);
    MUST(farcall_link_create(process, "late", bytes, size, false, &other.link));
    free(bytes);
    const char *message = FAILS(farcall_link_place(other.link), FARCALL_SYMBOLS);
    CHECK(strstr(message, "scale") != NULL);
    /* A failure ends the link. */
    FAILS(farcall_link_place(other.link), FARCALL_INVALID);
    MUST(farcall_link_remove(&other.link, 1));
    /* What is left goes with the process. */
    begin_link(process, &first, late_object);
    MUST(farcall_executor_close(executor));
    FAILS(farcall_link_place(first.link), FARCALL_INVALID);
}

/* 4. Calls with signatures. */
static void functions(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = linked(process);
    farcall_function *function = typed(process, dylib, "scale", NULL, "double scale(long count, double unit)");
    farcall_value arguments[2] = {{FARCALL_I64, {.i64 = 3}}, {FARCALL_F64, {.f64 = 0.5}}};
    farcall_value result;
    MUST(farcall_function_call(function, arguments, 2, &result));
    CHECK(result.kind == FARCALL_F64 && result.data.f64 == 1.5);
    MUST(farcall_function_call_with(function, up_to(60000), arguments, 2, &result));
    CHECK(result.data.f64 == 1.5);
    MUST(farcall_function_call(function, arguments, 2, NULL));
    arguments[1].kind = FARCALL_F32;
    const char *message = FAILS(farcall_function_call(function, arguments, 2, &result), FARCALL_TYPE);
    CHECK(strstr(message, "argument 2") != NULL && result.kind == FARCALL_VOID);
    FAILS(farcall_function_call(function, arguments, 1, &result), FARCALL_TYPE);
    arguments[1].kind = 99;
    FAILS(farcall_function_call(function, arguments, 2, &result), FARCALL_INVALID);
    MUST(farcall_function_dispose(function));
    MUST(farcall_function_dispose(NULL));
    FAILS(farcall_function_call(function, arguments, 2, &result), FARCALL_INVALID);

    struct point {
        double x, y;
    } point = {1, 2};
    const char *declarations = "struct point { double x, y; };";
    function = typed(process, dylib, "turn", declarations, "struct point turn(struct point)");
    farcall_value bytes = {FARCALL_BYTES, {.bytes = farcall_buffer_from_range(&point, sizeof point)}};
    MUST(farcall_function_call(function, &bytes, 1, &result));
    CHECK(result.kind == FARCALL_BYTES && farcall_buffer_size(&result.data.bytes) == sizeof point);
    memcpy(&point, farcall_buffer_data(&result.data.bytes), sizeof point);
    CHECK(point.x == -2 && point.y == 1);
    farcall_value_dispose(&result);
    farcall_value_dispose(&result);
    CHECK(result.kind == FARCALL_VOID);
    farcall_value_dispose(&bytes);

    farcall_value all[12] = {
        {FARCALL_BOOL, {.boolean = true}}, {FARCALL_I8, {.i8 = -1}},     {FARCALL_U8, {.u8 = 200}},
        {FARCALL_I16, {.i16 = -300}},      {FARCALL_U16, {.u16 = 60000}}, {FARCALL_I32, {.i32 = -70000}},
        {FARCALL_U32, {.u32 = 4000000000}}, {FARCALL_I64, {.i64 = -5}},   {FARCALL_U64, {.u64 = 6}},
        {FARCALL_F32, {.f32 = 1.5f}},      {FARCALL_F64, {.f64 = 2.5}},   {FARCALL_POINTER, {.address = 4096}}};
    function = typed(process, dylib, "mixed", NULL,
                     "int64_t mixed(bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, "
                     "float, double, const char *)");
    MUST(farcall_function_call(function, all, 12, &result));
    CHECK(result.data.i64 == 1 - 1 + 200 - 300 + 60000 - 70000 + 4000000000 - 5 + 6 + 3 + 5 + 1);
    message = FAILS(farcall_process_function(process, 1, NULL, "dubble f(int)", &function), FARCALL_INVALID);
    CHECK(strstr(message, "dubble") != NULL && function == NULL);
    FAILS(farcall_process_function(process, 1, "struct {", "int f(int)", &function), FARCALL_INVALID);
    MUST(farcall_executor_close(executor));
}

/* 5. Handlers. */
struct waiting {
    farcall_process *process;
    uint64_t call_id;
    farcall_buffer args;
};

static void *answer_later(void *argument) {
    struct waiting *waiting = argument;
    doze_ms(20);
    MUST(farcall_process_answer(waiting->process, waiting->call_id, waiting->args));
    FAILS(farcall_process_answer(waiting->process, waiting->call_id, farcall_buffer_empty()), FARCALL_INVALID);
    free(waiting);
    return NULL;
}

/* Answers with its arguments from another thread. */
static void later(farcall_process *process, uint64_t tag, farcall_buffer args, uint64_t call_id, void *context) {
    CHECK(tag != 0 && context == &deaths);
    struct waiting *waiting = malloc(sizeof *waiting);
    CHECK(waiting != NULL);
    *waiting = (struct waiting){process, call_id, args};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, answer_later, waiting) == 0);
    pthread_detach(thread);
}

/* Answers at once with the tag and the arguments, or with a failure for none. */
static void any(farcall_process *process, uint64_t tag, farcall_buffer args, uint64_t call_id, void *context) {
    char bytes[64];
    size_t size = farcall_buffer_size(&args);
    CHECK(context == NULL && size <= 32);
    memcpy(bytes, &tag, sizeof tag);
    memcpy(bytes + sizeof tag, farcall_buffer_const_data(&args), size);
    farcall_buffer_dispose(&args);
    farcall_buffer result = size == 0 ? farcall_buffer_from_out_of_band_error("nothing was said")
                                      : farcall_buffer_from_range(bytes, sizeof tag + size);
    CHECK(size != 0 || farcall_buffer_out_of_band_error(&result) != NULL);
    MUST(farcall_process_answer(process, call_id, result));
}

/* Never answers. */
static void silent(farcall_process *process, uint64_t tag, farcall_buffer args, uint64_t call_id, void *context) {
    (void)process, (void)tag, (void)call_id;
    farcall_buffer_dispose(&args);
    atomic_fetch_add((atomic_int *)context, 1);
}

static farcall_error *host_scale(const farcall_value *arguments, size_t count, farcall_value *result, void *context) {
    CHECK(context == NULL && count == 2);
    CHECK(arguments[0].kind == FARCALL_I32 && arguments[1].kind == FARCALL_F64 && result->kind == FARCALL_F64);
    if (arguments[0].data.i32 < 0)
        return farcall_error_create("below zero");
    result->data.f64 = arguments[0].data.i32 * arguments[1].data.f64;
    return NULL;
}

static size_t asked(farcall_process *process, uint64_t ask, uint64_t tag, const char *text, char *answer) {
    char bytes[64];
    memcpy(bytes, &tag, sizeof tag);
    memcpy(bytes + sizeof tag, text, strlen(text));
    farcall_buffer result;
    MUST(farcall_process_call(process, ask, bytes, sizeof tag + strlen(text), &result));
    size_t size = farcall_buffer_size(&result);
    memcpy(answer, farcall_buffer_const_data(&result), size);
    farcall_buffer_dispose(&result);
    return size;
}

static atomic_int silences;

struct asking {
    farcall_process *process;
    uint64_t ask, tag;
    farcall_error_code code;
};

static void *ask_silent(void *argument) {
    struct asking *asking = argument;
    farcall_buffer result;
    farcall_error *error =
        farcall_process_call(asking->process, asking->ask, &asking->tag, sizeof asking->tag, &result);
    asking->code = farcall_error_code_of(error);
    farcall_error_consume(error);
    farcall_buffer_dispose(&result);
    return NULL;
}

/* A library with the code of controlled.c and a handler. */
static farcall_library *with_host_scale(farcall_named_handler handler) {
    farcall_library *library = NULL;
    MUST(farcall_library_create(executor, "main", &library));
    MUST(farcall_library_add_object_file(library, object));
    MUST(farcall_library_define_handler(library, NULL, "double host_scale(int, double)", handler, NULL));
    return library;
}

static void handlers(void) {
    farcall_process *process = started();
    farcall_library *library = with_host_scale(host_scale);
    const char *prototype = "double host_scale(int, double)";
    FAILS(farcall_library_define_handler(library, NULL, prototype, host_scale, NULL), FARCALL_LINK);
    FAILS(farcall_library_define_handler(library, NULL, "double (int, double)", host_scale, NULL), FARCALL_INVALID);
    const char *declarations = "struct p { int x; };";
    FAILS(farcall_library_define_handler(library, declarations, "void f(struct p)", host_scale, NULL), FARCALL_INVALID);
    farcall_function *function = NULL;
    MUST(farcall_library_function(library, NULL, NULL, "double through_host(int)", &function));
    farcall_value value = {FARCALL_I32, {.i32 = 6}}, result;
    MUST(farcall_function_call(function, &value, 1, &result));
    CHECK(result.data.f64 == 1.5);
    value.data.i32 = -1;
    const char *message = FAILS(farcall_function_call(function, &value, 1, &result), FARCALL_REMOTE);
    CHECK(strcmp(message, "host_scale: below zero") == 0);

    const char *const words[] = {"controlled", "two", "words", NULL};
    int returned = 0;
    MUST(farcall_library_run_main(library, words, &returned));
    CHECK(returned == 2);

    uint64_t ask = 0, tag = 0, other = 0;
    MUST(farcall_library_lookup(library, "ask", &ask));
    char answer[64];
    MUST(farcall_process_register_handler(process, later, &deaths, &tag));
    CHECK(asked(process, ask, tag, "hello", answer) == 5 && memcmp(answer, "hello", 5) == 0);
    MUST(farcall_process_remove_handler(process, tag));
    FAILS(farcall_process_remove_handler(process, tag), FARCALL_INVALID);
    farcall_buffer buffer;
    message = FAILS(farcall_process_call(process, ask, &tag, sizeof tag, &buffer), FARCALL_REMOTE);
    CHECK(strstr(message, "no handler") != NULL);
    MUST(farcall_process_handle_other_tags(process, any, NULL));
    FAILS(farcall_process_handle_other_tags(process, any, NULL), FARCALL_INVALID);
    for (uint64_t at = 0xffff800000000000; at < 0xffff800000000003; at++) {
        CHECK(asked(process, ask, at, "hi", answer) == 10 && memcmp(answer + 8, "hi", 2) == 0);
        memcpy(&other, answer, sizeof other);
        CHECK(other == at);
    }
    message = FAILS(farcall_process_call(process, ask, &other, sizeof other, &buffer), FARCALL_REMOTE);
    CHECK(strcmp(message, "nothing was said") == 0);

    /* A handler without an answer ends with the session. */
    MUST(farcall_process_register_handler(process, silent, &silences, &tag));
    struct asking asking = {process, ask, tag, FARCALL_OK};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ask_silent, &asking) == 0);
    wait_for(&silences, 1);
    MUST(farcall_executor_close(executor));
    pthread_join(thread, NULL);
    CHECK(asking.code == FARCALL_DISCONNECTED);
}

/* 6. Regions. */
static void regions(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = linked(process);
    farcall_region *region = NULL;
    MUST(farcall_region_create(1 << 20, false, &region));
    void *data = NULL;
    uint64_t bytes = 0, address = 0, offset = 0, second = 0;
    MUST(farcall_region_data(region, &data, &bytes));
    MUST(farcall_region_data(region, &data, NULL));
    CHECK(bytes == 1 << 20);
    MUST(farcall_region_attach(region, process, true, &address));
    FAILS(farcall_region_attach(region, process, false, &second), FARCALL_INVALID);
    MUST(farcall_region_allocate(region, 4 * sizeof(int64_t), 64, &offset));
    CHECK(offset % 64 == 0);
    int64_t *numbers = (int64_t *)((char *)data + offset);
    for (int at = 0; at < 4; at++)
        numbers[at] = at + 1;
    farcall_function *function = typed(process, dylib, "sum_of", NULL, "long sum_of(const long *, long)");
    farcall_value arguments[2] = {{FARCALL_POINTER, {.address = address + offset}}, {FARCALL_I64, {.i64 = 4}}};
    farcall_value result;
    MUST(farcall_function_call(function, arguments, 2, &result));
    CHECK(result.data.i64 == 10);
    MUST(farcall_region_populate(region, 0, 8192));
    FAILS(farcall_region_populate(region, 1, 1 << 20), FARCALL_INVALID);
    FAILS(farcall_region_populate(region, SIZE_MAX, 2), FARCALL_INVALID);
    /* A system may have no large pages, or none of them free. */
    farcall_error_consume(farcall_region_use_large_pages(region, 0, 1 << 20));
    FAILS(farcall_region_discard(region, 0, (1 << 20) + 1), FARCALL_INVALID);
    FAILS(farcall_region_allocate(region, 2 << 20, 8, &second), FARCALL_LIMIT);
    FAILS(farcall_region_allocate(region, 8, 3, &second), FARCALL_INVALID);
    MUST(farcall_region_free(region, offset));
    FAILS(farcall_region_free(region, offset), FARCALL_INVALID);
    MUST(farcall_region_discard(region, 0, 1 << 20));
    CHECK(numbers[3] == 0);
    numbers[3] = 4;
    MUST(farcall_region_detach(region, process));
    FAILS(farcall_region_detach(region, process), FARCALL_INVALID);
    MUST(farcall_region_attach(region, process, true, &address));
    MUST(farcall_executor_close(executor));

    /* It outlives the executor. */
    CHECK(numbers[3] == 4);
    process = started();
    MUST(farcall_region_attach(region, process, true, &address));
    MUST(farcall_region_dispose(region));
    FAILS(farcall_region_dispose(region), FARCALL_INVALID);
    MUST(farcall_region_create(4096, true, &region));
    MUST(farcall_region_attach(region, process, true, &address));
    uint8_t byte = 1;
    FAILS(farcall_process_write(process, address, &byte, 1), FARCALL_REMOTE);
    MUST(farcall_region_dispose(region));
    FAILS(farcall_region_create(0, false, &region), FARCALL_INVALID);
    MUST(farcall_executor_close(executor));
}

static void ignored(farcall_error *error, farcall_buffer result, void *context) {
    (void)context;
    farcall_error_consume(error);
    farcall_buffer_dispose(&result);
}

/* H1, H6: a forked child uses, frees and closes what its parent has; that stays whole. */
static void forks(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = linked(process);
    farcall_function *function = typed(process, dylib, "sum_of", NULL, "long sum_of(const long *, long)");
    farcall_region *region = NULL;
    farcall_pipeline *pipeline = NULL, *other = NULL;
    void *data = NULL;
    uint64_t address = 0, offset = 0, second = 0;
    MUST(farcall_region_create(1 << 20, false, &region));
    MUST(farcall_region_data(region, &data, NULL));
    MUST(farcall_region_attach(region, process, false, &address));
    MUST(farcall_region_allocate(region, 8192, 4096, &offset));
    MUST(farcall_pipeline_open(process, true, &pipeline));
    int64_t *numbers = (int64_t *)((char *)data + offset);
    for (int at = 0; at < 1024; at++)
        numbers[at] = 7;
    farcall_value arguments[2] = {{FARCALL_POINTER, {.address = address + offset}}, {FARCALL_I64, {.i64 = 1024}}};
    farcall_value result;
    MUST(farcall_function_call(function, arguments, 2, &result));
    for (int way = 0; way < 4; way++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (way == 0) {
                const char *message = FAILS(farcall_function_call(function, arguments, 2, &result), FARCALL_INVALID);
                CHECK(strstr(message, "forked") != NULL);
                FAILS(farcall_region_allocate(region, 8192, 4096, &second), FARCALL_INVALID);
                FAILS(farcall_pipeline_submit(pipeline, address, NULL, 0, ignored, NULL), FARCALL_INVALID);
                FAILS(farcall_pipeline_open(process, true, &other), FARCALL_INVALID);
                FAILS(farcall_region_detach(region, process), FARCALL_INVALID);
            } else if (way == 1) {
                MUST(farcall_region_free(region, offset));
                MUST(farcall_pipeline_close(pipeline));
            } else if (way == 2) {
                MUST(farcall_region_dispose(region));
                MUST(farcall_function_dispose(function));
            } else {
                MUST(farcall_executor_close(executor));
            }
            /* memcheck would count what the parent's threads own as lost. */
            raise(SIGKILL);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        MUST(farcall_region_allocate(region, 8192, 4096, &second));
        CHECK(second != offset);
        MUST(farcall_region_free(region, second));
        MUST(farcall_function_call(function, arguments, 2, &result));
        CHECK(result.data.i64 == 7 * 1024);
    }
    MUST(farcall_pipeline_close(pipeline));
    MUST(farcall_executor_close(executor));
    MUST(farcall_region_dispose(region));
}

/* 7. Memory, and what the executor offers. */
static long noted(farcall_process *process, farcall_dylib *dylib) {
    farcall_function *function = typed(process, dylib, "what_was_noted", NULL, "long what_was_noted(void)");
    farcall_value value;
    MUST(farcall_function_call(function, NULL, 0, &value));
    MUST(farcall_function_dispose(function));
    return value.data.i64;
}

static void memories(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = linked(process);
    farcall_memory *memory = NULL;
    MUST(farcall_memory_reserve(process, (farcall_sizes){5, 0, 5000}, 0, &memory));
    farcall_part code, constants, data;
    MUST(farcall_memory_part(memory, FARCALL_CODE, &code));
    MUST(farcall_memory_part(memory, FARCALL_CONSTANTS, &constants));
    MUST(farcall_memory_part(memory, FARCALL_DATA, &data));
    FAILS(farcall_memory_part(memory, 3, &constants), FARCALL_INVALID);
    CHECK(code.bytes == 4096 && data.bytes == 8192 && constants.bytes == 0 && constants.working == NULL);
    /* long add(long, long): lea rax, [rdi + rsi]; ret */
    static const uint8_t add[] = {0x48, 0x8d, 0x04, 0x37, 0xc3};
    memcpy(code.working, add, sizeof add);
    memcpy(data.working, "in place", 9);
    long one = 1, ten = 10, hundred = 100;
    uint64_t note = found(dylib, "note");
    farcall_action actions[2] = {{note, &one, sizeof one, note, &ten, sizeof ten},
                                 {0, NULL, 0, note, &hundred, sizeof hundred}};
    uint64_t base = 0, plain = 0;
    MUST(farcall_memory_finalize(memory, actions, 2, &base));
    FAILS(farcall_memory_finalize(memory, actions, 2, &plain), FARCALL_INVALID);
    CHECK(base == code.address);
    farcall_function *function = NULL;
    MUST(farcall_process_function(process, code.address, NULL, "long add(long, long)", &function));
    farcall_value arguments[2] = {{FARCALL_I64, {.i64 = 3}}, {FARCALL_I64, {.i64 = 4}}}, sum;
    MUST(farcall_function_call(function, arguments, 2, &sum));
    CHECK(sum.data.i64 == 7);
    CHECK(noted(process, dylib) == 1);
    char text[9] = "";
    MUST(farcall_process_read(process, data.address, text, sizeof text));
    CHECK(strcmp(text, "in place") == 0);
    MUST(farcall_process_write(process, data.address, "IN", 2));
    CHECK(memcmp(data.working, "IN place", 9) == 0);
    void *shared = NULL;
    uint64_t shared_bytes = 0;
    MUST(farcall_process_shared_memory(process, data.address + 3, &shared, &shared_bytes));
    CHECK(shared == (char *)data.working + 3 && shared_bytes >= data.bytes - 3);
    MUST(farcall_process_shared_memory(process, code.address, &shared, NULL));
    CHECK(shared == code.working);
    FAILS(farcall_process_shared_memory(process, 16, &shared, &shared_bytes), FARCALL_INVALID);
    CHECK(shared == NULL && shared_bytes == 0);
    FAILS(farcall_process_read(process, 16, text, sizeof text), FARCALL_REMOTE);
    FAILS(farcall_process_write(process, code.address, "x", 1), FARCALL_REMOTE);
    FAILS(farcall_process_read(process, UINT64_MAX, text, sizeof text), FARCALL_INVALID);

    MUST(farcall_memory_reserve(process, (farcall_sizes){0, 100, 0}, 0, &memory));
    MUST(farcall_memory_finalize(memory, NULL, 0, &plain));
    uint64_t bases[2] = {base, plain};
    MUST(farcall_process_deallocate(process, bases, 2));
    CHECK(noted(process, dylib) == 111);
    FAILS(farcall_process_deallocate(process, bases, 2), FARCALL_INVALID);
    MUST(farcall_process_deallocate(process, NULL, 0));

    /* Bytes of earlier memory lie in the used part only, never in the zero fill. */
    for (int round = 0; round < 3; round++) {
        MUST(farcall_memory_reserve(process, (farcall_sizes){0, 0, 8 << 20}, 7 << 20, &memory));
        MUST(farcall_memory_part(memory, FARCALL_DATA, &data));
        CHECK(data.used <= 1 << 20);
        const unsigned char *bytes = data.working;
        for (uint64_t at = data.used; at < data.bytes; at += 509) CHECK(bytes[at] == 0);
        memset(data.working, 0xff, data.bytes);
        MUST(farcall_memory_abandon(memory));
    }
    FAILS(farcall_memory_reserve(process, (farcall_sizes){1, 1, 4096}, 4097, &memory), FARCALL_INVALID);

    for (int round = 0; round < 10000; round++) {
        MUST(farcall_memory_reserve(process, (farcall_sizes){1 << 20, 1 << 20, 1 << 20}, 0, &memory));
        MUST(farcall_memory_abandon(memory));
    }
    FAILS(farcall_memory_abandon(memory), FARCALL_INVALID);
    FAILS(farcall_memory_reserve(process, (farcall_sizes){0, 0, 0}, 0, &memory), FARCALL_INVALID);
    FAILS(farcall_memory_reserve(process, (farcall_sizes){UINT64_MAX, 0, 1}, 0, &memory), FARCALL_LIMIT);
    /* Names of functions, for messages about crashes: those of freed memory are forgotten. */
    static const uint8_t trap[] = {0x90, 0x0f, 0x0b};
    for (int round = 0; round < 3; round++) {
        MUST(farcall_memory_reserve(process, (farcall_sizes){sizeof trap, 0, 0}, 0, &memory));
        MUST(farcall_memory_part(memory, FARCALL_CODE, &code));
        memcpy(code.working, trap, sizeof trap);
        farcall_function_name names[] = {{code.address, sizeof trap, round == 0 ? "first" : "trap"}};
        MUST(farcall_memory_name_functions(memory, "hand-made", names, 1));
        FAILS(farcall_memory_name_functions(memory, "hand-made", names, SIZE_MAX), FARCALL_INVALID);
        if (round == 1) {
            MUST(farcall_memory_abandon(memory));
            continue;
        }
        MUST(farcall_memory_finalize(memory, NULL, 0, &base));
        if (round == 0) MUST(farcall_process_deallocate(process, &base, 1));
    }
    farcall_buffer nothing = farcall_buffer_empty();
    const char *died = FAILS(farcall_process_call(process, code.address, NULL, 0, &nothing), FARCALL_DIED);
    CHECK(strstr(died, "SIGILL, in trap+0x1 (hand-made)") != NULL);
    MUST(farcall_executor_close(executor));

    process = started();
    /* One that is in flight when the session ends. */
    MUST(farcall_memory_reserve(process, (farcall_sizes){1, 1, 1}, 0, &memory));
    MUST(farcall_executor_close(executor));
    FAILS(farcall_memory_abandon(memory), FARCALL_INVALID);
}

static void see_symbol(const char *name, uint64_t address, void *context) {
    int *seen = context;
    CHECK(name[0] != '\0' && address != 0);
    *seen += strcmp(name, "farcall_process_info") == 0;
}

static void see_value(const char *name, int64_t value, void *context) {
    int *seen = context;
    (void)value;
    CHECK(name[0] != '\0');
    *seen += 1;
}

static void offers(void) {
    farcall_process *process = started();
    int symbols = 0, values = 0;
    MUST(farcall_process_each_symbol(process, see_symbol, &symbols));
    MUST(farcall_process_each_value(process, see_value, &values));
    CHECK(symbols == 1 && values > 0);
    uint64_t address = 0;
    MUST(farcall_process_symbol(process, "farcall_process_info", &address));
    CHECK(address != 0);
    FAILS(farcall_process_symbol(process, "no such name", &address), FARCALL_SYMBOLS);
    farcall_buffer result;
    MUST(farcall_process_symbol(process, "farcall_process_info", &address));
    MUST(farcall_process_call(process, address, NULL, 0, &result));
    CHECK(farcall_buffer_size(&result) > 8);
    farcall_buffer_dispose(&result);
    MUST(farcall_executor_close(executor));
}

/* 8 threads call with answers checked, then once more until the session is closed. */
#define THREADS 8
#define CALLS 2000 /* unless the environment variable CALLS says otherwise */

struct caller {
    farcall_process *process;
    uint64_t reverse, doze;
    uint64_t seed;
    atomic_int *dozing;
    farcall_error_code code;
};

static void *call_often(void *argument) {
    struct caller *caller = argument;
    const char *wish = getenv("CALLS");
    long count = wish == NULL ? CALLS : strtol(wish, NULL, 10);
    for (long round = 0; round < count; round++) {
        uint64_t number = caller->seed = caller->seed * 6364136223846793005u + 1442695040888963407u;
        farcall_buffer result;
        MUST(farcall_process_call(caller->process, caller->reverse, &number, sizeof number, &result));
        uint64_t turned;
        CHECK(farcall_buffer_size(&result) == sizeof turned);
        memcpy(&turned, farcall_buffer_const_data(&result), sizeof turned);
        CHECK(turned == __builtin_bswap64(number));
        farcall_buffer_dispose(&result);
    }
    return NULL;
}

static void *call_until_closed(void *argument) {
    struct caller *caller = argument;
    uint32_t ms = 60000;
    farcall_buffer result;
    atomic_fetch_add(caller->dozing, 1);
    farcall_error *error = farcall_process_call(caller->process, caller->doze, &ms, sizeof ms, &result);
    caller->code = farcall_error_code_of(error);
    farcall_error_consume(error);
    farcall_buffer_dispose(&result);
    return NULL;
}

static void threads(void) {
    farcall_process *process = started();
    farcall_dylib *dylib = linked(process);
    struct caller callers[THREADS];
    pthread_t running[THREADS];
    atomic_int dozing = 0;
    for (int at = 0; at < THREADS; at++) {
        callers[at] = (struct caller){
            process, found(dylib, "reverse"), found(dylib, "doze"), (uint64_t)at, &dozing, FARCALL_OK};
        CHECK(pthread_create(&running[at], NULL, call_often, &callers[at]) == 0);
    }
    for (int at = 0; at < THREADS; at++)
        pthread_join(running[at], NULL);
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&running[at], NULL, call_until_closed, &callers[at]) == 0);
    farcall_pipeline *pipeline = NULL;
    MUST(farcall_pipeline_open(process, false, &pipeline));
    struct outcome outcome = {0};
    for (int at = 0; at < 10; at++)
        submit(pipeline, callers[0].doze, 60000, &outcome);
    wait_for(&dozing, THREADS);
    doze_ms(100);
    MUST(farcall_executor_close(executor));
    for (int at = 0; at < THREADS; at++) {
        pthread_join(running[at], NULL);
        CHECK(callers[at].code == FARCALL_DISCONNECTED);
    }
    CHECK(atomic_load(&outcome.done) == 10 && atomic_load(&outcome.failed) == 10);
    CHECK(outcome.code == FARCALL_DISCONNECTED);
}

/* Functions of the host close the executor that called them. */
static atomic_int closed;

static void close_on_death(farcall_executor *dead, farcall_error *error, void *context) {
    (void)context;
    farcall_error_consume(error);
    MUST(farcall_executor_close(dead));
    atomic_fetch_add(&closed, 1);
}

static void close_on_complete(farcall_error *error, farcall_buffer result, void *context) {
    farcall_error_consume(error);
    farcall_buffer_dispose(&result);
    MUST(farcall_executor_close(context));
    atomic_fetch_add(&closed, 1);
}

static void close_on_tag(farcall_process *process, uint64_t tag, farcall_buffer args, uint64_t call_id, void *context) {
    (void)tag, (void)context;
    MUST(farcall_executor_close(executor));
    atomic_fetch_add(&closed, 1);
    FAILS(farcall_process_answer(process, call_id, args), FARCALL_INVALID);
}

static farcall_error *close_on_name(const farcall_value *arguments, size_t count, farcall_value *result, void *context) {
    (void)arguments, (void)count, (void)result, (void)context;
    MUST(farcall_executor_close(executor));
    atomic_fetch_add(&closed, 1);
    return NULL;
}

static void closes(void) {
    farcall_process *process = started();
    MUST(farcall_executor_on_death(executor, close_on_death, NULL));
    MUST(farcall_process_kill(process));
    wait_for(&closed, 1);
    FAILS(farcall_process_kill(process), FARCALL_INVALID);

    process = started();
    farcall_dylib *dylib = linked(process);
    farcall_pipeline *pipeline = NULL;
    MUST(farcall_pipeline_open(process, false, &pipeline));
    MUST(farcall_pipeline_submit(pipeline, found(dylib, "doze"), NULL, 0, close_on_complete, executor));
    wait_for(&closed, 2);
    FAILS(farcall_pipeline_close(pipeline), FARCALL_INVALID);

    process = started();
    dylib = linked(process);
    uint64_t ask = found(dylib, "ask"), tag = 0;
    farcall_buffer result;
    MUST(farcall_process_register_handler(process, close_on_tag, NULL, &tag));
    FAILS(farcall_process_call(process, ask, &tag, sizeof tag, &result), FARCALL_DISCONNECTED);
    CHECK(atomic_load(&closed) == 3);

    process = started();
    farcall_function *function = NULL;
    farcall_library *library = with_host_scale(close_on_name);
    MUST(farcall_library_function(library, NULL, NULL, "double through_host(int)", &function));
    farcall_value value = {FARCALL_I32, {.i32 = 6}};
    FAILS(farcall_function_call(function, &value, 1, NULL), FARCALL_DISCONNECTED);
    CHECK(atomic_load(&closed) == 4);
}

/* A session that no process attaches. */
static void count_error(farcall_session *session, farcall_error *error, void *context) {
    CHECK(session != NULL && error != NULL);
    farcall_error_consume(error);
    *(int *)context += 1;
}

static void count_end(farcall_session *session, void *context) {
    CHECK(session != NULL);
    *(int *)context += 1;
}

static void drop_task(farcall_task *task, void *context) {
    (void)context;
    farcall_task_drop(task);
}

static void never(farcall_session *session, farcall_buffer result, void *context) {
    (void)session;
    CHECK(farcall_buffer_out_of_band_error(&result) != NULL);
    farcall_buffer_dispose(&result);
    *(int *)context += 1;
}

static void alone(void) {
    int errors = 0, ends = 0, answers = 0;
    farcall_options_dispose(farcall_options_create());
    farcall_options *options = farcall_options_create();
    farcall_options_dispatch(options, drop_task, NULL);
    farcall_options_on_error(options, count_error, &errors);
    farcall_options_linked_code(options, true);
    farcall_session *session = NULL;
    MUST(farcall_session_create(options, &session));
    farcall_session_report_error(session, farcall_error_create("an error of the host"));
    CHECK(errors == 1);
    farcall_session_call_controller(session, 1, farcall_buffer_from_string("text"), never, &answers);
    farcall_buffer result = farcall_session_call_controller_and_wait(session, 1, farcall_buffer_allocate(20));
    CHECK(answers == 1 && strcmp(farcall_buffer_out_of_band_error(&result), "no controller attached") == 0);
    farcall_buffer_dispose(&result);
    FAILS(farcall_session_attach_pipes(session, -1, -1), FARCALL_INVALID);
    MUST(farcall_session_detach(session, count_end, &ends));
    MUST(farcall_session_shutdown(session, count_end, &ends));
    MUST(farcall_session_dispose(session));
    CHECK(ends == 2);
    farcall_error_cant_fail(NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} PARTS[] = {
    {"versions", versions}, {"lives", lives},         {"confines", confines},     {"publishes", publishes},
    {"calls", calls},       {"pipelines", pipelines},
    {"dylibs", dylibs},     {"links", links},         {"functions", functions}, {"handlers", handlers}, {"regions", regions},
    {"memories", memories}, {"forks", forks},         {"offers", offers},     {"threads", threads},
    {"closes", closes},     {"alone", alone},
};

int main(int argc, char **argv) {
    farcall_run_if_spawned();
    if (argc < 4)
        return 2;
    object = argv[1], archive = argv[2], late_object = argv[3];
    for (size_t at = 0; at < sizeof PARTS / sizeof *PARTS; at++) {
        if (argc == 4 || strcmp(argv[4], PARTS[at].name) == 0) {
            PARTS[at].run();
            printf("%s\n", PARTS[at].name);
            fflush(stdout);
        }
    }
    return 0;
}
