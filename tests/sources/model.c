/* A program with the whole model: executors that survive, libraries, functions, copies and functions that are replaced.
 *
 *     model FIRST SECOND FIXED CALLER ARCHIVE [PART]    objects of modelled.c: of version 1 and 2, for fixed addresses (version 3), one
 *                                                       that calls step, and an archive with late */
#define _GNU_SOURCE
#include "checked.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *first_object, *second_object, *fixed_object, *caller_object, *archive;

static farcall_executor_options options(void) {
    return (farcall_executor_options){.size = sizeof(farcall_executor_options), .this_program = true};
}

static farcall_executor *start(const farcall_executor_options *with) {
    farcall_executor *executor = NULL;
    MUST(farcall_executor_start(with, &executor));
    CHECK(executor != NULL);
    return executor;
}

static farcall_executor *started(void) {
    farcall_executor_options plain = options();
    return start(&plain);
}

static farcall_library *empty(farcall_executor *executor, const char *name) {
    farcall_library *library = NULL;
    MUST(farcall_library_create(executor, name, &library));
    return library;
}

static farcall_library *linked(farcall_executor *executor, const char *name, const char *object) {
    farcall_library *library = empty(executor, name);
    MUST(farcall_library_add_object_file(library, object));
    return library;
}

/* The number that a function without parameters returns. */
static int called(farcall_function *function) {
    farcall_value result;
    MUST(farcall_function_call(function, NULL, 0, &result));
    CHECK(result.kind == FARCALL_I32);
    return result.data.i32;
}

/* The number that a function of a library returns. */
static int result_of(farcall_library *library, const char *prototype) {
    farcall_function *function = function_of(library, prototype);
    int result = called(function);
    MUST(farcall_function_dispose(function));
    return result;
}

static farcall_error *crash(farcall_library *library) {
    farcall_function *function = function_of(library, "int at(const int *)");
    farcall_value place = {FARCALL_POINTER, {.address = 8}};
    farcall_error *error = farcall_function_call(function, &place, 1, NULL);
    MUST(farcall_function_dispose(function));
    return error;
}

/* 1. Survival: a crash costs a call, and the next process has the same contents. */
static atomic_int deaths, established;

static void on_death(farcall_executor *executor, farcall_error *error, void *context) {
    /* The host ends the last ones itself. */
    farcall_error_code code = farcall_error_code_of(error), due = atomic_load(&deaths) < 3 ? FARCALL_DIED : FARCALL_DISCONNECTED;
    CHECK(executor != NULL && context == &deaths && code == due);
    farcall_error_consume(error);
    atomic_fetch_add(&deaths, 1);
}

static farcall_error *establish(farcall_process *process, void *context) {
    int32_t pid = 0;
    MUST(farcall_process_pid(process, &pid));
    CHECK(pid > 0);
    atomic_fetch_add((atomic_int *)context, 1);
    return NULL;
}

static farcall_error *refuse(farcall_process *process, void *context) {
    (void)process, (void)context;
    return farcall_error_create("not this one");
}

static farcall_error *twice(const farcall_value *arguments, size_t count, farcall_value *result, void *context) {
    CHECK(count == 1 && context == &deaths);
    result->data.i32 = 2 * arguments[0].data.i32;
    return NULL;
}

static void survives(void) {
    farcall_executor_options with = options();
    with.restart = (farcall_restart_policy){.restarts = true, .pause_ms = 1, .pause_max_ms = 50, .standby = true};
    farcall_executor *executor = start(&with);
    MUST(farcall_executor_on_death(executor, on_death, &deaths));
    MUST(farcall_executor_establish(executor, establish, &established));
    const char *message = FAILS(farcall_executor_establish(executor, refuse, NULL), FARCALL_HOST);
    CHECK(strstr(message, "not this one") != NULL && atomic_load(&established) == 1);
    farcall_library *library = linked(executor, "main", first_object);
    MUST(farcall_library_define_handler(library, NULL, "int twice(int)", twice, &deaths));
    farcall_region *region = NULL;
    void *data = NULL;
    MUST(farcall_region_create(4096, false, &region));
    MUST(farcall_region_data(region, &data, NULL));
    MUST(farcall_executor_attach(executor, region));
    *(int *)data = 42;

    farcall_function *next = function_of(library, "int next(void)"), *at = function_of(library, "int at(const int *)");
    CHECK(called(next) == 1 && called(next) == 2);
    int pid = result_of(library, "int process_id(void)");
    for (int round = 1; round <= 3; round++) {
        farcall_error *error = crash(library);
        CHECK(farcall_error_fact(error, "signal")->number == SIGSEGV);
        CHECK(farcall_error_fact(error, "fault_address")->number == 8);
        CHECK(strncmp(farcall_error_fact(error, "backtrace")->list[0], "at+", 3) == 0);
        FAILS(error, FARCALL_DIED);
        CHECK(called(next) == 1 && called(next) == 2);
        CHECK(atomic_load(&deaths) == round && atomic_load(&established) == 1 + round);
        int other = result_of(library, "int process_id(void)");
        CHECK(other != pid);
        pid = other;
        /* The region keeps its bytes and its address, the handler its name. */
        farcall_value place = {FARCALL_POINTER, {.address = (uintptr_t)data}}, result;
        MUST(farcall_function_call(at, &place, 1, &result));
        CHECK(result.data.i32 == 42);
        farcall_function *handler = function_of(library, "int twice(int)");
        farcall_value six = {FARCALL_I32, {.i32 = 6}};
        MUST(farcall_function_call(handler, &six, 1, &result));
        CHECK(result.data.i32 == 12);
        MUST(farcall_function_dispose(handler));
    }
    MUST(farcall_executor_restart(executor));
    CHECK(called(next) == 1 && atomic_load(&deaths) == 4);
    MUST(farcall_executor_kill(executor));
    farcall_error_consume(farcall_function_call(next, NULL, 0, NULL)); /* or already the next process */
    int32_t pids[2] = {0, 0};
    size_t running = 0;
    CHECK(called(next) >= 1);
    MUST(farcall_executor_pids(executor, pids, 2, &running));
    CHECK(running == 1 && pids[0] == result_of(library, "int process_id(void)") && pids[1] == 0);
    MUST(farcall_executor_close(executor));
    FAILS(farcall_function_call(next, NULL, 0, NULL), FARCALL_INVALID);
    MUST(farcall_region_dispose(region));

    /* The policy allows one restart. */
    with.restart = (farcall_restart_policy){.restarts = true, .restarts_max = 1, .within_ms = 3600000};
    executor = start(&with);
    library = linked(executor, "main", first_object);
    FAILS(crash(library), FARCALL_DIED);
    CHECK(result_of(library, "int next(void)") == 1);
    FAILS(crash(library), FARCALL_DIED);
    next = function_of(library, "int next(void)");
    CHECK(strstr(FAILS(farcall_function_call(next, NULL, 0, NULL), FARCALL_LIMIT), "there were 1") != NULL);
    MUST(farcall_executor_close(executor));

    /* Without a policy the first death is the last. */
    executor = started();
    library = linked(executor, "main", first_object);
    FAILS(crash(library), FARCALL_DIED);
    next = function_of(library, "int next(void)");
    FAILS(farcall_function_call(next, NULL, 0, NULL), FARCALL_DIED);
    FAILS(farcall_executor_restart(executor), FARCALL_INVALID);
    MUST(farcall_executor_close(executor));
    with.restart = (farcall_restart_policy){.standby = true};
    FAILS(farcall_executor_start(&with, &executor), FARCALL_INVALID);
}

/* 2. Time: a call that hangs is ended by its options, and its process lives on. */
static farcall_error *look(void *context) {
    atomic_int *looks = context;
    return atomic_fetch_add(looks, 1) < 3 ? NULL : farcall_error_create("enough");
}

/* Long enough for a busy machine. */
#define GRACE_NS 10000000000

static atomic_int interrupted;

static void *call_for_ever(void *stay) {
    FAILS(farcall_function_call(stay, NULL, 0, NULL), FARCALL_INTERRUPTED);
    atomic_store(&interrupted, 1);
    return NULL;
}

static void watches(void) {
    farcall_executor_options with = options();
    with.restart = (farcall_restart_policy){.restarts = true, .kill_on_timeout = true};
    farcall_executor *executor = start(&with);
    farcall_library *library = linked(executor, "main", first_object);
    farcall_function *hang = function_of(library, "int hang(int)"), *stay = function_of(library, "void stay(void)");
    farcall_value yes = {FARCALL_I32, {.i32 = 1}}, no = {FARCALL_I32, {.i32 = 0}}, result;
    farcall_call_options call = {.size = sizeof call, .timeout_ms = 20, .grace_ns = GRACE_NS};
    int pid = result_of(library, "int process_id(void)");
    farcall_error *late = farcall_function_call_with(stay, &call, NULL, 0, NULL);
    CHECK(strncmp(farcall_error_fact(late, "location")->text, "stay+", 5) == 0);
    CHECK(farcall_error_fact(late, "program_counter")->number > 0 && farcall_error_fact(late, "threads_started")->number == 0);
    CHECK(farcall_error_fact(late, "cleanups_skipped")->kind == FARCALL_NUMBER && farcall_error_fact(late, "signal") == NULL);
    FAILS(late, FARCALL_INTERRUPTED);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, call_for_ever, stay) == 0);
    while (atomic_load(&interrupted) == 0) {
        MUST(farcall_executor_interrupt_all(executor, GRACE_NS));
        usleep(1000);
    }
    pthread_join(thread, NULL);
    CHECK(result_of(library, "int next(void)") == 3 && result_of(library, "int process_id(void)") == pid);
    FAILS(farcall_function_call_with(hang, &call, &yes, 1, &result), FARCALL_INTERRUPTED);
    call.on_deadline = FARCALL_ABANDON; /* then the policy kills the process */
    FAILS(farcall_function_call_with(hang, &call, &yes, 1, &result), FARCALL_TIMEOUT);
    CHECK(result_of(library, "int next(void)") == 1);
    call.on_deadline = FARCALL_KILL + 1;
    FAILS(farcall_function_call_with(hang, &call, &no, 1, &result), FARCALL_INVALID);
    call.on_deadline = FARCALL_KILL;
    call.timeout_ms = 60000;
    MUST(farcall_function_call_with(hang, &call, &no, 1, &result));
    CHECK(result.data.i32 == 7);
    atomic_int looks = 0;
    call = (farcall_call_options){.size = sizeof call, .watch = look, .watch_context = &looks, .watch_every_ms = 2};
    call.grace_ns = GRACE_NS;
    const char *words = FAILS(farcall_function_call_with(hang, &call, &yes, 1, &result), FARCALL_INTERRUPTED);
    CHECK(strstr(words, "enough: interrupted in hang+0x") == words);
    CHECK(atomic_load(&looks) == 4);
    MUST(farcall_function_call_with(hang, NULL, &no, 1, &result));
    call.size = 1;
    FAILS(farcall_function_call_with(hang, &call, &no, 1, &result), FARCALL_INVALID);
    MUST(farcall_executor_close(executor));
}

/* 3. Number: several processes. */
struct busy {
    farcall_function *function;
    int pid;
};

static void *call_busy(void *argument) {
    struct busy *busy = argument;
    for (int turn = 0; turn < 100; turn++)
        busy->pid = called(busy->function);
    return NULL;
}

static void pools(void) {
    farcall_executor_options with = options();
    with.processes = 257;
    farcall_executor *executor = NULL;
    farcall_error *many = farcall_executor_start(&with, &executor);
    CHECK(strstr(farcall_error_message(many), "257 processes: it has 1 to 256") != NULL);
    FAILS(many, FARCALL_INVALID);
    with.processes = 3;
    with.restart.restarts = true;
    executor = start(&with);
    farcall_library *library = linked(executor, "main", first_object);
    size_t count = 0, running = 0;
    int32_t pids[3] = {0};
    MUST(farcall_executor_processes(executor, &count));
    MUST(farcall_executor_pids(executor, pids, 3, &running));
    CHECK(count == 3 && running == 3 && pids[0] != pids[1] && pids[1] != pids[2]);
    MUST(farcall_executor_pids(executor, NULL, 0, &running));
    CHECK(running == 3);
    farcall_function *process_id = function_of(library, "int process_id(void)"), *on = NULL;
    for (size_t at = 0; at < 3; at++) {
        MUST(farcall_function_on(process_id, at, &on));
        CHECK(called(on) == pids[at]);
        MUST(farcall_function_dispose(on));
    }
    FAILS(farcall_function_on(process_id, 3, &on), FARCALL_INVALID);
    struct busy busy[4];
    pthread_t threads[4];
    for (int at = 0; at < 4; at++) {
        busy[at] = (struct busy){process_id, 0};
        CHECK(pthread_create(&threads[at], NULL, call_busy, &busy[at]) == 0);
    }
    for (int at = 0; at < 4; at++) {
        pthread_join(threads[at], NULL);
        CHECK(busy[at].pid == pids[0] || busy[at].pid == pids[1] || busy[at].pid == pids[2]);
    }

    /* One of them alone has more, and a crash in it is its own. */
    farcall_executor *second = NULL;
    MUST(farcall_executor_on(executor, 1, &second));
    farcall_library *more = linked(second, "more", second_object);
    CHECK(result_of(more, "int process_id(void)") == pids[1] && result_of(more, "int version(void)") == 2);
    farcall_process *process = NULL;
    int32_t pid = 0;
    MUST(farcall_executor_process(executor, 1, &process));
    MUST(farcall_process_pid(process, &pid));
    CHECK(pid == pids[1]);
    MUST(farcall_process_dispose(process));
    FAILS(farcall_process_dispose(process), FARCALL_INVALID);
    FAILS(farcall_executor_process(executor, 3, &process), FARCALL_INVALID);
    FAILS(crash(more), FARCALL_DIED);
    CHECK(result_of(more, "int version(void)") == 2 && result_of(more, "int process_id(void)") != pids[1]);
    MUST(farcall_function_on(process_id, 2, &on));
    CHECK(called(on) == pids[2]);
    MUST(farcall_executor_close(executor));
    FAILS(farcall_executor_close(second), FARCALL_INVALID);
}

/* 4. Copies have the state of the executor. */
static void snapshots(void) {
    farcall_executor *executor = started(), *copies[3];
    farcall_library *library = linked(executor, "main", first_object), *same = NULL;
    farcall_function *next = function_of(library, "int next(void)");
    CHECK(called(next) == 1);
    farcall_snapshot *snapshot = NULL;
    MUST(farcall_snapshot_take(executor, &snapshot));
    FAILS(farcall_function_call(next, NULL, 0, NULL), FARCALL_DISCONNECTED);
    for (int at = 0; at < 3; at++) {
        MUST(farcall_snapshot_spawn(snapshot, &copies[at]));
        MUST(farcall_library_in_copy(library, copies[at], &same));
        CHECK(result_of(same, "int next(void)") == 2);
    }
    /* A crash of one leaves the others, and more code is linked in a copy. */
    FAILS(crash(same), FARCALL_DIED);
    MUST(farcall_library_in_copy(library, copies[0], &same));
    CHECK(result_of(same, "int next(void)") == 3);
    CHECK(result_of(linked(copies[0], "more", second_object), "int version(void)") == 2);
    farcall_executor *other = started();
    FAILS(farcall_library_in_copy(library, other, &same), FARCALL_INVALID);
    MUST(farcall_executor_close(other));
    for (int at = 0; at < 3; at++)
        MUST(farcall_executor_close(copies[at]));
    MUST(farcall_snapshot_dispose(snapshot));
    FAILS(farcall_snapshot_dispose(snapshot), FARCALL_INVALID);
    MUST(farcall_executor_close(executor));
    farcall_executor_options with = options();
    with.restart.restarts = true;
    executor = start(&with);
    FAILS(farcall_snapshot_take(executor, &snapshot), FARCALL_INVALID);
    MUST(farcall_executor_close(executor));
}

/* 5. A function is replaced while threads call it, and its old code is removed. */
struct stepping {
    farcall_function *step;
    atomic_bool ends;
    atomic_long calls;
};

static void *call_step(void *argument) {
    struct stepping *stepping = argument;
    while (!atomic_load(&stepping->ends)) {
        int version = called(stepping->step);
        CHECK(version == 1 || version == 2);
        atomic_fetch_add(&stepping->calls, 1);
    }
    return NULL;
}

static void swaps(void) {
    farcall_executor_options with = options();
    with.restart.restarts = true;
    farcall_executor *executor = start(&with);
    farcall_library *old = linked(executor, "version 1", first_object), *main_library = empty(executor, "main");
    farcall_redirection *redirection = NULL;
    FAILS(farcall_redirection_create(main_library, "step", old, "nowhere", &redirection), FARCALL_SYMBOLS);
    MUST(farcall_redirection_create(main_library, "step", old, "version", &redirection));
    MUST(farcall_library_add_object_file(main_library, caller_object));
    struct stepping stepping = {function_of(main_library, "int step(void)"), false, 0};
    farcall_function *through = function_of(main_library, "int through(void)");
    CHECK(called(stepping.step) == 1 && called(through) == 1);
    pthread_t threads[2];
    for (int at = 0; at < 2; at++)
        CHECK(pthread_create(&threads[at], NULL, call_step, &stepping) == 0);
    for (int round = 0; round < 10; round++) {
        int version = round % 2 == 0 ? 2 : 1;
        farcall_library *new = linked(executor, "another version", version == 2 ? second_object : first_object);
        MUST(farcall_redirection_redirect_and_remove(redirection, new, "version", old));
        CHECK(called(through) == version);
        uint64_t address = 0;
        FAILS(farcall_library_lookup(old, "version", &address), FARCALL_SYMBOLS);
        MUST(farcall_library_dispose(old));
        old = new;
        long before = atomic_load(&stepping.calls);
        for (int turn = 0; atomic_load(&stepping.calls) == before; turn++) {
            CHECK(turn < 200000);
            usleep(100);
        }
    }
    atomic_store(&stepping.ends, true);
    for (int at = 0; at < 2; at++)
        pthread_join(threads[at], NULL);
    CHECK(strstr(FAILS(farcall_library_clear(old), FARCALL_INVALID), "step") != NULL);

    /* The next process has the latest function. */
    farcall_library *second = linked(executor, "version 2", second_object);
    MUST(farcall_redirection_redirect(redirection, second, "version"));
    FAILS(crash(second), FARCALL_DIED);
    CHECK(called(stepping.step) == 2 && called(through) == 2);
    MUST(farcall_library_clear(old));
    MUST(farcall_redirection_remove(redirection));
    FAILS(farcall_redirection_remove(redirection), FARCALL_INVALID);
    farcall_function *gone = function_of(main_library, "int step(void)");
    FAILS(farcall_function_call(gone, NULL, 0, NULL), FARCALL_SYMBOLS);
    MUST(farcall_redirection_create(main_library, "other", second, "version", &redirection));
    MUST(farcall_redirection_dispose(redirection));
    CHECK(result_of(main_library, "int other(void)") == 2);
    MUST(farcall_executor_close(executor));
}

/* 6. What libraries contain. */
static farcall_error *compile(farcall_process *process, uint64_t *address, void *context) {
    /* lea eax, [rdi + rdi]; ret */
    static const uint8_t code[] = {0x8d, 0x04, 0x3f, 0xc3};
    CHECK(context == code || context == NULL);
    farcall_memory *memory = NULL;
    farcall_part part;
    MUST(farcall_memory_reserve(process, (farcall_sizes){sizeof code, 0, 0}, 0, &memory));
    MUST(farcall_memory_part(memory, FARCALL_CODE, &part));
    memcpy(part.working, code, sizeof code);
    MUST(farcall_memory_finalize(memory, NULL, 0, address));
    *address = part.address;
    return NULL;
}

static void libraries(void) {
    farcall_executor_options with = options();
    with.debuggable = true;
    with.link_timeout_ms = 60000;
    farcall_executor *executor = start(&with);

    /* Code for fixed addresses, as -fno-pic makes it. */
    farcall_library *fixed = linked(executor, "fixed", fixed_object);
    farcall_function *square = function_of(fixed, "int square(unsigned)");
    farcall_value seven = {FARCALL_U32, {.u32 = 7}}, result;
    MUST(farcall_function_call(square, &seven, 1, &result));
    CHECK(result.data.i32 == 49 && result_of(fixed, "int version(void)") == 3);
    uint64_t address = 0;
    MUST(farcall_library_lookup(fixed, "square", &address));
    CHECK(address < (uint64_t)1 << 31);

    /* An object that is refused leaves the library as it was. */
    farcall_library *library = linked(executor, "main", first_object);
    FAILS(farcall_library_add_object_file(library, second_object), FARCALL_LINK);
    FAILS(farcall_library_add_object(library, "damaged.o", "no object", 9), FARCALL_LINK);
    FAILS(farcall_library_add_archive(library, "damaged.a", "no archive", 10), FARCALL_LINK);
    farcall_link_report report;
    MUST(farcall_library_link(library, &report));
    CHECK(report.objects == 1 && report.bytes > 0 && report.relocations > 0 && report.transfer_ns > 0);
    MUST(farcall_library_link(library, NULL));
    CHECK(result_of(library, "int version(void)") == 1);
    MUST(farcall_library_define(library, "fixed_square", address));
    FAILS(farcall_library_define(library, "fixed_square", address), FARCALL_LINK);
    MUST(farcall_library_want(library, "late"));
    MUST(farcall_library_add_archive_file(library, archive));
    MUST(farcall_library_link(library, &report));
    CHECK(report.objects == 1);
    MUST(farcall_library_lookup(library, "late", &address));
    MUST(farcall_library_add_library(library, "libz.so.1"));
    MUST(farcall_library_open_libraries(library));
    MUST(farcall_library_lookup(library, "zlibVersion", &address));
    MUST(farcall_library_add_library(library, "libnowhere.so"));
    FAILS(farcall_library_open_libraries(library), FARCALL_LINK);
    MUST(farcall_library_create_lazy(library, "doubled", compile, NULL));
    farcall_function *doubled = function_of(library, "int doubled(int)");
    farcall_value three = {FARCALL_I32, {.i32 = 3}};
    MUST(farcall_function_call(doubled, &three, 1, &result));
    CHECK(result.data.i32 == 6);

    /* A program, with its own data and with fresh data. */
    farcall_library *program = empty(executor, "program");
    MUST(farcall_library_precede_libraries(program));
    MUST(farcall_library_keep_initial_data(program));
    MUST(farcall_library_add_object_file(program, first_object));
    MUST(farcall_library_initialize(program));
    static const char *const words[] = {"program", "word", NULL};
    int returned = 0;
    MUST(farcall_library_run_main(program, words, &returned));
    CHECK(returned == 21);
    MUST(farcall_library_run_main(program, words, &returned));
    CHECK(returned == 22);
    for (int round = 0; round < 2; round++) {
        MUST(farcall_library_run_fresh(program, words, &returned));
        CHECK(returned == 21);
    }
    FAILS(farcall_library_run_fresh(library, words, &returned), FARCALL_INVALID);

    /* The next version keeps the variable, until both are cleared. */
    CHECK(result_of(library, "int next(void)") == 1);
    farcall_library *later = empty(executor, "later");
    MUST(farcall_library_keep_variables(library, NULL));
    MUST(farcall_library_check_types(later));
    MUST(farcall_library_add_object_file(later, second_object));
    CHECK(result_of(later, "int next(void)") == 1);
    farcall_library *latest = empty(executor, "latest");
    MUST(farcall_library_keep_variables(latest, later));
    MUST(farcall_library_add_object_file(latest, first_object));
    (void)result_of(latest, "int next(void)");
    farcall_function *wrong = function_of(later, "double version(void)");
    CHECK(strstr(FAILS(farcall_function_call(wrong, NULL, 0, NULL), FARCALL_TYPE), "version") != NULL);
    MUST(farcall_library_clear(latest));
    FAILS(farcall_library_lookup(latest, "next", &address), FARCALL_SYMBOLS);
    MUST(farcall_library_dispose(latest));
    FAILS(farcall_library_clear(latest), FARCALL_INVALID);

    /* It has its own start, behind which the process has ended. */
    MUST(farcall_library_run_start(program, "begin", words, &returned));
    CHECK(returned == 5);
    MUST(farcall_executor_close(executor));
}

/* 7. Functions, called in every way. */
struct outcome {
    atomic_int done;
    long sum;
    farcall_error_code code;
};

static void on_result(farcall_error *error, farcall_value result, void *context) {
    struct outcome *outcome = context;
    outcome->code = farcall_error_code_of(error);
    CHECK(error != NULL ? result.kind == FARCALL_VOID : result.kind == FARCALL_I64);
    outcome->sum += error == NULL ? result.data.i64 : 0;
    farcall_error_consume(error);
    atomic_fetch_add(&outcome->done, 1);
}

static void functions(void) {
    farcall_executor *executor = started();
    farcall_library *library = linked(executor, "main", first_object);
    farcall_function *add = NULL, *bound = NULL, *over = NULL, *by_address = NULL;
    MUST(farcall_library_function(library, "add", "typedef long number;", "number (number a, number b)", &add));
    FAILS(farcall_library_function(library, NULL, NULL, "int (int)", &bound), FARCALL_INVALID);
    char *prototype = NULL;
    MUST(farcall_function_prototype(add, &prototype));
    CHECK(strstr(prototype, "int64_t") != NULL || strstr(prototype, "long") != NULL);
    farcall_text_free(prototype);
    farcall_value two[2] = {{FARCALL_I64, {.i64 = 3}}, {FARCALL_I64, {.i64 = 4}}}, result;
    MUST(farcall_function_bind(add, &bound));
    MUST(farcall_function_call(bound, two, 2, &result));
    CHECK(result.data.i64 == 7);
    uint64_t address = 0, same = 0;
    MUST(farcall_function_address(add, &address));
    MUST(farcall_library_lookup(library, "add", &same));
    CHECK(address == same);
    farcall_process *process = NULL;
    MUST(farcall_executor_process(executor, 0, &process));
    MUST(farcall_process_function(process, address, NULL, "long add(long, long)", &by_address));
    MUST(farcall_function_call(by_address, two, 2, &result));
    CHECK(result.data.i64 == 7);

    /* Many calls in one message. */
    farcall_value many[200], sums[100];
    for (int at = 0; at < 200; at++)
        many[at] = (farcall_value){FARCALL_I64, {.i64 = at}};
    MUST(farcall_function_batch(add, many, 2, 100, sums));
    for (int at = 0; at < 100; at++)
        CHECK(sums[at].kind == FARCALL_I64 && sums[at].data.i64 == 4 * at + 1);
    MUST(farcall_function_batch(add, many, 2, 3, NULL));
    MUST(farcall_function_batch(add, NULL, 2, 0, NULL));
    many[3].kind = FARCALL_F64;
    FAILS(farcall_function_batch(add, many, 2, 100, sums), FARCALL_TYPE);

    /* A call for each row of a region, in one message. */
    farcall_region *region = NULL;
    void *data = NULL;
    MUST(farcall_region_create(4096, false, &region));
    MUST(farcall_region_data(region, &data, NULL));
    MUST(farcall_executor_attach(executor, region));
    farcall_function *increment = function_of(library, "void increment(long *, long)");
    farcall_value row[2] = {{FARCALL_POINTER, {.address = (uintptr_t)data}}, {FARCALL_I64, {.i64 = 1}}};
    int64_t steps[2] = {8, 1};
    MUST(farcall_function_rows(increment, NULL, row, steps, 2, 512));
    CHECK(((int64_t *)data)[0] == 1 && ((int64_t *)data)[511] == 512);
    FAILS(farcall_function_rows(increment, NULL, row, steps, 1, 512), FARCALL_TYPE);

    /* Submitted to a pipeline. */
    farcall_pipeline *pipeline = NULL;
    MUST(farcall_pipeline_open(process, true, &pipeline));
    FAILS(farcall_function_submit(add, two, 2, on_result, NULL), FARCALL_INVALID);
    MUST(farcall_function_over(add, pipeline, &over));
    struct outcome outcome = {0, 0, FARCALL_OK};
    for (int at = 0; at < 100; at++)
        MUST(farcall_function_submit(over, two, 2, on_result, &outcome));
    FAILS(farcall_function_submit(over, two, 1, on_result, &outcome), FARCALL_TYPE);
    size_t all = 0, count = 0;
    for (int turn = 0; all < 100; turn++, all += count) {
        CHECK(turn < 200000);
        MUST(farcall_pipeline_poll(pipeline, &count));
        usleep(100);
    }
    CHECK(outcome.sum == 700 && atomic_load(&outcome.done) == 100);
    /* Cancelled: a call that runs is interrupted, a call that waits never begins, and the others run. */
    farcall_function *stay = function_of(library, "void stay(void)"), *stay_over = NULL;
    MUST(farcall_function_over(stay, pipeline, &stay_over));
    int calls = result_of(library, "int next(void)");
    struct outcome runs = {0, 0, FARCALL_OK}, waits = {0, 0, FARCALL_OK}, last = {0, 0, FARCALL_OK};
    MUST(farcall_function_submit(stay_over, NULL, 0, on_result, &runs));
    MUST(farcall_function_submit(stay_over, NULL, 0, on_result, &waits));
    MUST(farcall_function_submit(over, two, 2, on_result, &last));
    while (result_of(library, "int next(void)") == calls + 1)
        calls++;
    FAILS(farcall_function_cancel(add, &last), FARCALL_INVALID);
    MUST(farcall_pipeline_cancel(pipeline, &outcome));
    MUST(farcall_function_cancel(over, &waits));
    MUST(farcall_pipeline_cancel(pipeline, &runs));
    MUST(farcall_pipeline_cancel(pipeline, &runs));
    all = 0;
    for (int turn = 0; all < 3; turn++, all += count) {
        CHECK(turn < 200000);
        MUST(farcall_pipeline_poll(pipeline, &count));
        usleep(100);
    }
    CHECK(runs.code == FARCALL_INTERRUPTED && waits.code == FARCALL_INTERRUPTED && last.code == FARCALL_OK && last.sum == 7);
    CHECK(result_of(library, "int next(void)") == calls + 3);
    farcall_function *hang = function_of(library, "int hang(int)"), *hang_over = NULL;
    farcall_value yes = {FARCALL_I32, {.i32 = 1}};
    MUST(farcall_function_over(hang, pipeline, &hang_over));
    MUST(farcall_function_submit(hang_over, &yes, 1, on_result, &outcome));
    MUST(farcall_process_dispose(process));
    CHECK(atomic_load(&outcome.done) == 101 && outcome.code == FARCALL_DISCONNECTED);
    FAILS(farcall_pipeline_close(pipeline), FARCALL_INVALID);
    FAILS(farcall_function_call(by_address, two, 2, &result), FARCALL_INVALID);
    FAILS(farcall_function_submit(over, two, 2, on_result, &outcome), FARCALL_DISCONNECTED);
    /* The process itself runs on. */
    MUST(farcall_function_call(add, two, 2, &result));
    MUST(farcall_executor_close(executor));
    MUST(farcall_region_dispose(region));
}

/* 8. Machine code of the program's own. */
static void parts(void) {
    farcall_executor *executor = started();
    farcall_library *library = empty(executor, "made by hand");
    /* 0: push rbp  1: mov rbp, rsp  4: call labs  9: add rax, [rip + more]  16: pop rbp  17: ret */
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x48, 0x03, 0x05, 0, 0, 0, 0, 0x5d, 0xc3};
    static const int64_t hundred = 100;
    static const farcall_field fields[] = {{5, FARCALL_CALL, "labs", 0}, {12, FARCALL_DISTANCE, "more", 0}};
    static const farcall_frame_step frame[] = {
        {1, FARCALL_PUSH, FARCALL_RBP, 0}, {4, FARCALL_FRAME_POINTER, 0, 0}, {17, FARCALL_POP, FARCALL_RBP, 0}};
    const farcall_object_part made[] = {
        {.name = "far", .protection = FARCALL_CODE, .has_frame = true, .data = code, .size = sizeof code,
         .fields = fields, .field_count = 2, .steps = frame, .step_count = 3},
        {.name = "more", .protection = FARCALL_DATA, .data = &hundred, .size = sizeof hundred, .is_local = true},
        {.name = "zeroes", .protection = FARCALL_DATA, .size = 1 << 16, .alignment = 4096},
    };
    MUST(farcall_library_add_parts(library, "far.o", made, 3));
    farcall_function *far_away = NULL;
    MUST(farcall_library_function(library, "far", NULL, "long (long)", &far_away));
    farcall_value minus = {FARCALL_I64, {.i64 = -5}}, result;
    MUST(farcall_function_call(far_away, &minus, 1, &result));
    CHECK(result.data.i64 == 105);
    uint64_t address = 0;
    MUST(farcall_library_lookup(library, "zeroes", &address));
    CHECK(address % 4096 == 0);
    FAILS(farcall_library_lookup(library, "more", &address), FARCALL_SYMBOLS);
    farcall_object_part wrong = made[0];
    wrong.name = "far away";
    wrong.size = 8;
    CHECK(strstr(FAILS(farcall_library_add_parts(library, "wrong.o", &wrong, 1), FARCALL_INVALID), "far away") != NULL);
    MUST(farcall_executor_close(executor));
}

/* 9. Executors that are forked by one process, and so have the layout of their program in common. */
static uint64_t layout_of(farcall_executor *executor) {
    farcall_process *process = NULL;
    uint64_t address = 0;
    MUST(farcall_executor_process(executor, 0, &process));
    MUST(farcall_process_symbol(process, "farcall_process_info", &address));
    MUST(farcall_process_dispose(process));
    return address;
}

static void shares(void) {
    farcall_executor_options with = options();
    with.shared_layout = true;
    farcall_executor *first = start(&with);
    int is_forked = 0;
    /* The process that forks the others may still load the program. */
    for (int attempt = 0; !is_forked && attempt < 1000; attempt++) {
        farcall_executor *second = start(&with);
        is_forked = layout_of(second) == layout_of(first);
        CHECK(result_of(linked(second, "main", first_object), "int version(void)") == 1);
        MUST(farcall_executor_close(second));
    }
    CHECK(is_forked);
    farcall_executor *anew = started();
    CHECK(layout_of(anew) != layout_of(first));
    MUST(farcall_executor_close(anew));
    MUST(farcall_executor_close(first));
}

/* 10. The program that reads sessions finds this one, until its standard input ends. */
static void publishes(void) {
    farcall_executor_options with = options();
    with.publish = "a model in C";
    with.restart.restarts = true;
    farcall_executor *executor = start(&with);
    CHECK(result_of(linked(executor, "main", first_object), "int version(void)") == 1);
    printf("published\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    MUST(farcall_executor_close(executor));
}

static const struct {
    const char *name;
    void (*run)(void);
} PARTS[] = {
    {"survives", survives}, {"watches", watches},     {"pools", pools},         {"snapshots", snapshots}, {"swaps", swaps},
    {"parts", parts},       {"libraries", libraries}, {"functions", functions}, {"shares", shares},
    {"publishes", publishes},
};

int main(int argc, char **argv) {
    farcall_run_if_spawned();
    if (argc < 6)
        return 2;
    first_object = argv[1], second_object = argv[2], fixed_object = argv[3], caller_object = argv[4], archive = argv[5];
    for (size_t at = 0; at < sizeof PARTS / sizeof *PARTS; at++) {
        if (argc == 6 || strcmp(argv[6], PARTS[at].name) == 0) {
            PARTS[at].run();
            printf("%s\n", PARTS[at].name);
            fflush(stdout);
        }
    }
    return 0;
}
