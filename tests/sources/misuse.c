/* Wrong arguments for every function of farcall.h: NULL, numbers of objects that are gone, never were, or are of another type, sizes
 * that are too large, damaged objects. Each costs an error and nothing else.
 *
 *     misuse OBJECT [SEED COUNT]        with a seed and a count: that many random calls, with right arguments among them
 *     misuse NULL                       NULL and wrong numbers only, without an executor */
#include "farcall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *object;
static char *object_bytes;
static size_t object_size;

/* What choose returns: always 0 (the NULL of its kind), always 1 (gone), always 2 (never was), or a random number. */
static int mode = -1;
static uint64_t state = 1;
static unsigned long refused, done;

static unsigned choose(unsigned count) {
    if (mode >= 0)
        return (unsigned)mode % count;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % count;
}

static void note(farcall_error *error) {
    if (error == NULL) {
        done++;
        return;
    }
    farcall_error_code code = farcall_error_code_of(error);
    /* The texts of this program may be empty. */
    int is_own = code == FARCALL_HOST || code == FARCALL_REMOTE;
    if (code == FARCALL_INTERNAL || code == FARCALL_OK || (farcall_error_message(error)[0] == '\0' && !is_own)) {
        fprintf(stderr, "misuse: code %d: %s\n", (int)code, farcall_error_message(error));
        exit(1);
    }
    refused++;
    farcall_error_consume(error);
}

/* Objects that live, if this program starts executors. */
static farcall_executor *executor, *gone_executor;
static farcall_process *process, *gone_process;
static farcall_library *library;
static farcall_redirection *redirection;
static farcall_dylib *dylib, *gone_dylib;
static farcall_tracker *tracker;
static farcall_function *function;
static farcall_pipeline *pipeline;
static farcall_memory *memory;
static farcall_region *region, *gone_region;
static farcall_session *session, *gone_session;
static uint64_t address;

static void *choose_of(void *live, void *gone) {
    switch (choose(mode < 0 && live != NULL ? 12 : 4)) {
    case 0: return NULL;
    case 1: return gone;
    case 2: return (void *)(uintptr_t)((uintptr_t)1 << 40);
    case 3: return (void *)region; /* another type */
    default: return live;
    }
}

#define EXECUTOR() ((farcall_executor *)choose_of(executor, gone_executor))
#define LIBRARY() ((farcall_library *)choose_of(library, gone_dylib))
#define REDIRECTION() ((farcall_redirection *)choose_of(redirection, gone_dylib))
#define PROCESS() ((farcall_process *)choose_of(process, gone_process))
#define DYLIB() ((farcall_dylib *)choose_of(dylib, gone_dylib))
#define TRACKER() ((farcall_tracker *)choose_of(tracker, gone_dylib))
#define FUNCTION() ((farcall_function *)choose_of(function, gone_dylib))
#define PIPELINE() ((farcall_pipeline *)choose_of(pipeline, gone_dylib))
#define MEMORY() ((farcall_memory *)choose_of(memory, gone_dylib))
#define SESSION() ((farcall_session *)choose_of(session, gone_session))

static farcall_region *any_region(void) {
    switch (choose(mode < 0 && region != NULL ? 12 : 3)) {
    case 0: return NULL;
    case 1: return gone_region;
    case 2: return (farcall_region *)(uintptr_t)((uintptr_t)1 << 40);
    default: return region;
    }
}

static const char *text(void) {
    static const char *const texts[] = {NULL, "", "\xff\xfe", "main", "scale", "int f(int)", "struct", "/no/such/file", "/"};
    return texts[choose(9)];
}

static const void *data(size_t *size) {
    static char bytes[64] = "bytes";
    switch (choose(8)) {
    case 0: *size = 5; return NULL;
    case 1: *size = SIZE_MAX; return bytes;
    case 2: *size = SIZE_MAX / 2 + 1; return bytes;
    case 3: *size = 0; return NULL;
    case 4: *size = 0; return bytes;
    default: *size = choose(65); return bytes;
    }
}

/* The same for calls, which refuse more than 1 GiB. */
static const void *message(size_t *size) {
    const void *bytes = data(size);
    if (bytes != NULL && choose(8) == 0)
        *size = ((size_t)1 << 30) + 1;
    return bytes;
}

static uint64_t number(void) {
    static const uint64_t numbers[] = {0, 1, 16, 4096, UINT64_MAX, (uint64_t)1 << 63, 64};
    return numbers[choose(7)];
}

/* A place for a result, or NULL. */
#define OUT(place) (choose(mode < 0 ? 8 : 4) == 0 ? NULL : &(place))

static farcall_buffer buffer(void) {
    size_t size;
    switch (choose(4)) {
    case 0: return farcall_buffer_empty();
    case 1: return farcall_buffer_from_out_of_band_error(text());
    case 2: return farcall_buffer_from_string(text());
    default: {
        const void *bytes = data(&size);
        return farcall_buffer_from_range(bytes, size);
    }
    }
}

static void on_complete(farcall_error *error, farcall_buffer result, void *context) {
    (void)context;
    farcall_error_consume(error);
    farcall_buffer_dispose(&result);
}

static void on_tag(farcall_process *of, uint64_t tag, farcall_buffer args, uint64_t call_id, void *context) {
    (void)tag, (void)context;
    note(farcall_process_answer(of, call_id, args));
}

static farcall_error *on_name(const farcall_value *values, size_t count, farcall_value *result, void *context) {
    (void)values, (void)count, (void)context;
    result->kind = (uint32_t)number();
    return choose(2) == 0 ? farcall_error_create(NULL) : NULL;
}

static void on_result(farcall_error *error, farcall_value result, void *context) {
    (void)context;
    farcall_error_consume(error);
    farcall_value_dispose(&result);
}

static void on_death(farcall_executor *of, farcall_error *error, void *context) {
    (void)of, (void)context;
    farcall_error_consume(error);
}

static farcall_error *establish(farcall_process *of, void *context) {
    (void)context;
    farcall_error_consume(farcall_process_death(of));
    return choose(8) == 0 ? farcall_error_create("not established") : NULL;
}

static farcall_error *compile(farcall_process *of, uint64_t *at, void *context) {
    (void)of, (void)context;
    *at = address;
    return choose(2) == 0 ? farcall_error_create("not compiled") : NULL;
}

static farcall_error *watch(void *context) {
    (void)context;
    return choose(2) == 0 ? farcall_error_create("watched") : NULL;
}

/* Options of a call, or NULL. */
static const farcall_call_options *call_options(void) {
    static farcall_call_options options;
    memset(&options, 0, sizeof options);
    options.size = choose(8) == 0 ? 0 : sizeof options;
    options.timeout_ms = number() & 63;
    options.watch = choose(2) == 0 ? NULL : watch;
    options.watch_every_ms = number() & 15;
    return choose(4) == 0 ? NULL : &options;
}

static void on_symbol(const char *name, uint64_t at, void *context) { (void)name, (void)at, (void)context; }
static void on_value(const char *name, int64_t at, void *context) { (void)name, (void)at, (void)context; }
static void on_answer(farcall_session *of, farcall_buffer result, void *context) {
    (void)of, (void)context;
    farcall_buffer_dispose(&result);
}

static void executor_start(void) {
    farcall_executor_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    const farcall_executor_options *given = &options;
    static const char *const bad_environment[] = {"no value", NULL};
    switch (choose(10)) {
    case 0: options.size = 0; break;
    case 1: options.size = sizeof options + 8; break;
    case 2: options.program = "/no/such/program"; break;
    case 3: options.slab_bytes.code = 1; options.this_program = true; break;
    case 4: options.environment = bad_environment; break;
    case 5: options.publish = ""; options.this_program = true; break;
    case 6: options.restart.standby = options.shared_layout = true; options.this_program = true; break;
    case 7: options.processes = 2; options.program = "/no/such/program"; break;
    case 8: options.in_process = true; options.processes = choose(3); break;
    default: options.slab_bytes.data = UINT64_MAX; options.this_program = true; break;
    }
    farcall_executor *started = NULL;
    farcall_executor **place = OUT(started);
    note(farcall_executor_start(given, place));
    note(farcall_executor_close(started));
}

static void executor_life(void) {
    size_t count, *place = OUT(count);
    int32_t pids[2];
    note(farcall_executor_processes(EXECUTOR(), place));
    note(farcall_executor_pids(EXECUTOR(), choose(4) == 0 ? NULL : pids, choose(4) == 0 ? SIZE_MAX : choose(3), place));
    note(farcall_executor_interrupt_all(EXECUTOR(), number()));
    note(farcall_executor_restart(EXECUTOR()));
    farcall_process *made = NULL, **made_place = OUT(made);
    note(farcall_executor_process(EXECUTOR(), choose(3), made_place));
    note(farcall_process_dispose(made));
    if (choose(64) == 0)
        note(farcall_process_dispose(PROCESS()));
    farcall_executor *one = NULL, **one_place = OUT(one);
    note(farcall_executor_on(EXECUTOR(), choose(3), one_place));
    if (choose(8) == 0) {
        note(farcall_executor_attach(EXECUTOR(), any_region()));
        note(farcall_executor_establish(EXECUTOR(), choose(4) == 0 ? NULL : establish, NULL));
        note(farcall_executor_on_death(EXECUTOR(), choose(4) == 0 ? NULL : on_death, NULL));
    }
    farcall_snapshot *snapshot = NULL, *none = NULL, **snapshot_place = OUT(snapshot);
    note(farcall_snapshot_take(choose(32) == 0 ? EXECUTOR() : gone_executor, snapshot_place));
    farcall_executor *copy = NULL, **copy_place = OUT(copy);
    note(farcall_snapshot_spawn(choose(4) == 0 ? none : snapshot, copy_place));
    farcall_library *same = NULL, **same_place = OUT(same);
    note(farcall_library_in_copy(LIBRARY(), choose(2) == 0 ? EXECUTOR() : copy, same_place));
    note(farcall_snapshot_dispose(snapshot));
    note(farcall_executor_close(copy));
}

static void process_life(void) {
    int status, *exit_status = OUT(status);
    int32_t pid, *pid_place = OUT(pid);
    uint64_t bytes, *bytes_place = OUT(bytes), found, *found_place = OUT(found);
    char *triple = NULL, **triple_place = OUT(triple);
    note(farcall_process_pid(PROCESS(), pid_place));
    note(farcall_process_triple(PROCESS(), triple_place));
    farcall_text_free(triple);
    triple = NULL;
    note(farcall_process_confinement(PROCESS(), triple_place));
    farcall_text_free(triple);
    note(farcall_process_page_bytes(PROCESS(), bytes_place));
    note(farcall_process_death(PROCESS()));
    note(farcall_process_symbol(PROCESS(), text(), found_place));
    note(farcall_process_each_symbol(PROCESS(), choose(2) == 0 ? NULL : on_symbol, NULL));
    note(farcall_process_each_value(PROCESS(), choose(2) == 0 ? NULL : on_value, NULL));
    if (choose(64) < 3) {
        note(farcall_process_exit(PROCESS(), (int)number(), exit_status));
        note(farcall_process_kill(PROCESS()));
        note(farcall_executor_kill(EXECUTOR()));
        farcall_executor *closed = EXECUTOR();
        note(farcall_executor_close(closed));
    }
}

static void process_calls(void) {
    farcall_buffer result = farcall_buffer_empty(), *place = OUT(result);
    size_t size;
    const void *args = message(&size);
    uint64_t at = choose(4) == 0 ? number() : address;
    note(farcall_process_call(PROCESS(), at, args, size, place));
    farcall_buffer_dispose(&result);
    args = message(&size);
    note(farcall_process_call_with(PROCESS(), at, call_options(), args, size, place));
    farcall_buffer_dispose(&result);
    char bytes[64];
    size = choose(65);
    note(farcall_process_read(PROCESS(), number(), choose(4) == 0 ? NULL : bytes, size));
    args = message(&size);
    note(farcall_process_write(PROCESS(), number(), args, size));
}

static void pipelines(void) {
    farcall_pipeline *opened = NULL;
    farcall_pipeline **place = OUT(opened);
    note(farcall_pipeline_open(PROCESS(), choose(2) == 0, place));
    size_t size, completed, *count = OUT(completed);
    const void *args = message(&size);
    note(farcall_pipeline_submit(PIPELINE(), address, args, size, choose(4) == 0 ? NULL : on_complete, NULL));
    if (opened != NULL)
        note(farcall_pipeline_submit(opened, address, "12345678", 8, on_complete, NULL));
    note(farcall_pipeline_cancel(PIPELINE(), choose(2) == 0 ? NULL : &count));
    note(farcall_pipeline_poll(PIPELINE(), count));
    note(farcall_pipeline_close(opened));
    if (choose(16) < 4)
        note(farcall_pipeline_close(PIPELINE()));
}

static void functions(void) {
    farcall_function *made = NULL;
    farcall_function **place = OUT(made);
    note(farcall_process_function(PROCESS(), address, text(), text(), place));
    note(farcall_function_dispose(made));
    made = NULL;
    note(farcall_library_function(LIBRARY(), text(), text(), text(), place));
    note(farcall_function_dispose(made));
    farcall_value values[3], result, *result_place = OUT(result);
    memset(values, 0, sizeof values);
    for (int at = 0; at < 3; at++) {
        values[at].kind = choose(20);
        if (values[at].kind == FARCALL_BYTES)
            values[at].data.bytes = buffer();
        else
            values[at].data.u64 = number();
    }
    const farcall_value *given = choose(4) == 0 ? NULL : values;
    size_t count = choose(6) == 0 ? SIZE_MAX : choose(4);
    memset(&result, 0, sizeof result);
    note(farcall_function_call(FUNCTION(), given, count, result_place));
    farcall_value_dispose(&result);
    note(farcall_function_call_with(FUNCTION(), call_options(), given, count, result_place));
    farcall_value_dispose(&result);
    farcall_value results[3];
    memset(results, 0, sizeof results);
    size_t calls = choose(6) == 0 ? SIZE_MAX : choose(4);
    count = choose(6) == 0 ? SIZE_MAX : choose(2);
    note(farcall_function_batch(FUNCTION(), given, count, calls, choose(4) == 0 ? NULL : results));
    for (int at = 0; at < 3; at++)
        farcall_value_dispose(&results[at]);
    int64_t steps[3] = {1, 0, 0};
    count = choose(6) == 0 ? SIZE_MAX : choose(4);
    note(farcall_function_rows(FUNCTION(), call_options(), given, choose(4) == 0 ? NULL : steps, count, choose(4)));
    farcall_function *other = NULL, **other_place = OUT(other);
    note(farcall_function_bind(FUNCTION(), other_place));
    note(farcall_function_dispose(other));
    other = NULL;
    note(farcall_function_on(FUNCTION(), choose(3), other_place));
    note(farcall_function_dispose(other));
    other = NULL;
    note(farcall_function_over(FUNCTION(), PIPELINE(), other_place));
    count = choose(6) == 0 ? SIZE_MAX : choose(4);
    note(farcall_function_submit(choose(4) == 0 ? FUNCTION() : other, given, count, choose(4) == 0 ? NULL : on_result, NULL));
    note(farcall_function_cancel(choose(4) == 0 ? FUNCTION() : other, choose(2) == 0 ? NULL : &count));
    note(farcall_function_dispose(other));
    uint64_t found, *found_place = OUT(found);
    note(farcall_function_address(FUNCTION(), found_place));
    farcall_any_function pointer, *pointer_place = OUT(pointer);
    note(farcall_function_pointer(FUNCTION(), pointer_place));
    char *prototype = NULL, **prototype_place = OUT(prototype);
    note(farcall_function_prototype(FUNCTION(), prototype_place));
    farcall_text_free(prototype);
    for (int at = 0; at < 3; at++)
        farcall_value_dispose(&values[at]);
    farcall_value_dispose(NULL);
    if (choose(16) < 4)
        note(farcall_function_dispose(FUNCTION()));
}

static void libraries(void) {
    farcall_library *made = NULL, **place = OUT(made);
    note(farcall_library_create(EXECUTOR(), text(), place));
    farcall_library *filled = choose(4) == 0 ? LIBRARY() : made;
    note(farcall_library_add_object_file(filled, choose(4) == 0 ? object : text()));
    note(farcall_library_add_archive_file(filled, choose(4) == 0 ? object : text()));
    size_t size;
    const void *bytes = data(&size);
    note(farcall_library_add_object(filled, text(), bytes, size));
    bytes = data(&size);
    note(farcall_library_add_archive(filled, text(), bytes, size));
    note(farcall_library_add_library(made, text()));
    note(farcall_library_want(made, text()));
    note(farcall_library_define(filled, text(), number()));
    note(farcall_library_define_handler(filled, text(), text(), choose(4) == 0 ? NULL : on_name, NULL));
    note(farcall_library_create_lazy(filled, text(), choose(4) == 0 ? NULL : compile, NULL));
    note(farcall_library_precede_libraries(made));
    note(farcall_library_keep_variables(made, choose(2) == 0 ? NULL : LIBRARY()));
    note(farcall_library_keep_initial_data(made));
    note(farcall_library_check_types(made));
    farcall_field field = {number(), choose(6), text(), (int64_t)number()};
    farcall_frame_step step = {(uint32_t)number(), choose(10), choose(8), (uint32_t)number()};
    farcall_object_part part;
    memset(&part, 0, sizeof part);
    part.name = text();
    part.protection = choose(5);
    part.is_local = choose(2) == 0;
    part.has_frame = choose(2) == 0;
    part.data = data(&part.size);
    part.alignment = number();
    part.fields = choose(4) == 0 ? NULL : &field;
    part.field_count = choose(6) == 0 ? SIZE_MAX : choose(2);
    part.steps = choose(4) == 0 ? NULL : &step;
    part.step_count = choose(6) == 0 ? SIZE_MAX : choose(2);
    if (part.data == NULL && part.size > 4096)
        part.size = 4096;
    note(farcall_library_add_parts(filled, text(), choose(4) == 0 ? NULL : &part, choose(6) == 0 ? SIZE_MAX : choose(2)));
    farcall_link_report report, *report_place = OUT(report);
    note(farcall_library_link(made, report_place));
    note(farcall_library_clear(made));
    note(farcall_library_dispose(made));
}

static void programs(void) {
    uint64_t found, *found_place = OUT(found);
    note(farcall_library_lookup(LIBRARY(), text(), found_place));
    note(farcall_library_open_libraries(LIBRARY()));
    if (choose(16) < 4) {
        static const char *const words[] = {"main", NULL};
        const char *const *argv = choose(2) == 0 ? NULL : words;
        int result, *result_place = OUT(result);
        note(farcall_library_initialize(LIBRARY()));
        note(farcall_library_run_main(LIBRARY(), argv, result_place));
        note(farcall_library_run_fresh(LIBRARY(), argv, result_place));
        note(farcall_library_run_start(LIBRARY(), text(), argv, result_place));
        note(farcall_library_clear(LIBRARY()));
        note(farcall_library_dispose(LIBRARY()));
    }
}

static void swaps(void) {
    farcall_redirection *made = NULL, **place = OUT(made);
    note(farcall_redirection_create(LIBRARY(), text(), LIBRARY(), text(), place));
    note(farcall_redirection_redirect(REDIRECTION(), LIBRARY(), text()));
    note(farcall_redirection_redirect_and_remove(REDIRECTION(), LIBRARY(), text(), LIBRARY()));
    note(farcall_redirection_remove(made));
    if (choose(16) < 4)
        note(farcall_redirection_dispose(REDIRECTION()));
}

static void dylibs(void) {
    farcall_dylib *made = NULL, **place = OUT(made);
    note(farcall_dylib_create(PROCESS(), text(), place));
    note(farcall_dylib_add_to_link_order(DYLIB(), DYLIB()));
    note(farcall_dylib_add_object_file(DYLIB(), TRACKER(), choose(4) == 0 ? object : text()));
    note(farcall_dylib_add_archive_file(DYLIB(), choose(4) == 0 ? object : text()));
    size_t size;
    const void *bytes = data(&size);
    note(farcall_dylib_add_object(DYLIB(), TRACKER(), text(), bytes, size));
    bytes = data(&size);
    note(farcall_dylib_add_archive(DYLIB(), text(), bytes, size));
    if (object_bytes != NULL) {
        /* An object with a damaged byte. */
        char *copy = malloc(object_size);
        if (copy == NULL)
            exit(1);
        memcpy(copy, object_bytes, object_size);
        for (unsigned damage = choose(4); damage > 0; damage--)
            copy[choose((unsigned)object_size)] ^= (char)(1 << choose(8));
        note(farcall_dylib_add_object(DYLIB(), TRACKER(), "damaged.o", copy, object_size - choose(64)));
        free(copy);
    }
    note(farcall_dylib_define(DYLIB(), text(), number()));
    uint64_t found[3], *found_place = OUT(found[0]);
    note(farcall_dylib_lookup(DYLIB(), text(), found_place));
    const char *names[3] = {text(), text(), text()};
    note(farcall_dylib_lookup_many(DYLIB(), choose(4) == 0 ? NULL : names, choose(6) == 0 ? SIZE_MAX : choose(4),
                                   choose(4) == 0 ? NULL : found));
    note(farcall_dylib_remove(made));
    if (choose(16) < 4) {
        note(farcall_dylib_initialize(DYLIB()));
        note(farcall_dylib_clear(DYLIB()));
        note(farcall_dylib_remove(DYLIB()));
    }
    farcall_tracker *created = NULL, **tracker_place = OUT(created);
    note(farcall_tracker_create(DYLIB(), tracker_place));
    note(farcall_tracker_transfer(TRACKER(), created));
    note(farcall_tracker_remove(created));
    if (choose(16) < 4)
        note(farcall_tracker_remove(TRACKER()));
}

static void on_definition(const farcall_link_definition *definition, void *context) {
    (void)definition;
    (void)context;
}

static void on_reference(const farcall_link_reference *reference, void *context) {
    (void)reference;
    (void)context;
}

static void links(void) {
    farcall_link *made = NULL, **place = OUT(made);
    size_t size;
    const void *bytes = data(&size);
    note(farcall_link_create(PROCESS(), text(), bytes, size, choose(2) == 0, place));
    if (object_bytes != NULL && choose(2) == 0)
        note(farcall_link_create(PROCESS(), text(), object_bytes, object_size, choose(2) == 0, place));
    /* The steps in any order. */
    for (unsigned steps = mode < 0 ? choose(12) : 8, at = 0; at < steps; at++) {
        bool has = false, *has_place = OUT(has);
        farcall_link *link = choose(8) == 0 ? (farcall_link *)choose_of(NULL, gone_dylib) : made;
        switch (mode < 0 ? choose(8) : at) {
        case 0: note(farcall_link_each_definition(link, choose(4) == 0 ? NULL : on_definition, NULL)); break;
        case 1: note(farcall_link_each_reference(link, choose(4) == 0 ? NULL : on_reference, NULL)); break;
        case 2: note(farcall_link_define(link, text(), number(), choose(2) == 0)); break;
        case 3: note(farcall_link_place(link)); break;
        case 4: note(farcall_link_locate(link, text(), number())); break;
        case 5: note(farcall_link_finish(link, has_place)); break;
        case 6: note(farcall_link_initialize(link, call_options())); break;
        default: note(farcall_link_deinitialize(link)); break;
        }
    }
    note(farcall_link_remove(choose(8) == 0 ? NULL : &made, choose(4) == 0 ? SIZE_MAX : choose(3) % 2));
    note(farcall_link_remove(&made, 1));
}

static void handlers(void) {
    uint64_t tag = 0, *place = OUT(tag);
    note(farcall_process_register_handler(PROCESS(), choose(4) == 0 ? NULL : on_tag, NULL, place));
    note(farcall_process_handle_other_tags(PROCESS(), choose(4) == 0 ? NULL : on_tag, NULL));
    note(farcall_process_remove_handler(PROCESS(), choose(2) == 0 ? number() : tag));
    note(farcall_process_answer(PROCESS(), number(), buffer()));
}

static void regions(void) {
    farcall_region *made = NULL, **place = OUT(made);
    uint64_t bytes = number() == 4096 ? 4096 : number() & ~((uint64_t)1 << 33);
    note(farcall_region_create(bytes, choose(2) == 0, place));
    void *at = NULL, **at_place = OUT(at);
    uint64_t offset, *offset_place = OUT(offset);
    note(farcall_region_data(any_region(), at_place, offset_place));
    note(farcall_region_attach(any_region(), PROCESS(), choose(2) == 0, offset_place));
    note(farcall_region_detach(any_region(), PROCESS()));
    note(farcall_region_allocate(any_region(), number() & 0xffff, choose(70), offset_place));
    note(farcall_region_allocate(any_region(), SIZE_MAX, (size_t)1 << 63, offset_place));
    note(farcall_region_free(any_region(), number()));
    note(farcall_region_populate(any_region(), number(), number()));
    note(farcall_region_use_large_pages(any_region(), number(), number()));
    note(farcall_region_discard(any_region(), number(), number()));
    note(farcall_region_dispose(made));
}

static void memories(void) {
    farcall_memory *made = NULL, **place = OUT(made);
    note(farcall_memory_reserve(PROCESS(), (farcall_sizes){number(), number(), number()}, number(), place));
    void *shared, **shared_place = OUT(shared);
    uint64_t shared_bytes, *bytes_place = OUT(shared_bytes);
    note(farcall_process_shared_memory(PROCESS(), choose(2) == 0 ? number() : address, shared_place, bytes_place));
    farcall_part part, *part_place = OUT(part);
    note(farcall_memory_part(made, choose(5), part_place));
    note(farcall_memory_part(MEMORY(), choose(5), part_place));
    farcall_function_name names[2] = {{number(), number(), text()}, {number(), number(), choose(2) == 0 ? NULL : text()}};
    note(farcall_memory_name_functions(choose(2) == 0 ? made : MEMORY(), text(), choose(4) == 0 ? NULL : names,
                                       choose(6) == 0 ? SIZE_MAX : choose(3)));
    note(farcall_memory_abandon(made));
    if (choose(16) < 4) {
        size_t size;
        const void *args = data(&size);
        farcall_action actions[2] = {{choose(2) == 0 ? 0 : address, args, size, 0, NULL, 0}, {0, NULL, 9, 0, NULL, 9}};
        uint64_t base = 0, *base_place = OUT(base);
        note(farcall_memory_finalize(MEMORY(), choose(4) == 0 ? NULL : actions, choose(6) == 0 ? SIZE_MAX : choose(3),
                                     base_place));
        uint64_t bases[3] = {base, number(), number()};
        note(farcall_process_deallocate(PROCESS(), choose(4) == 0 ? NULL : bases, choose(6) == 0 ? SIZE_MAX : choose(4)));
        note(farcall_memory_abandon(MEMORY()));
    }
}

/* A client is a pointer, as what is freed cannot be known. */
static void clients(void) {
    farcall_client *none = NULL, *made = NULL, **place = OUT(made);
    note(farcall_client_attach(-1, choose(2) == 0, number() & 63, place));
    note(farcall_client_attach_pipes(-1, -1, number() & 63, place));
    char *triple = NULL, **triple_place = OUT(triple);
    uint64_t found, *found_place = OUT(found);
    note(farcall_client_triple(none, triple_place));
    note(farcall_client_symbol(none, text(), found_place));
    farcall_client_handler no_handler = NULL;
    note(farcall_client_register_handler(none, number(), no_handler, NULL));
    farcall_buffer result = farcall_buffer_empty(), *result_place = OUT(result);
    size_t size;
    const void *args = message(&size);
    note(farcall_client_call(none, number(), args, size, number() & 63, result_place));
    note(farcall_client_attend(none, number() & 63, found_place));
    note(farcall_client_close(none));
}

static void errors_and_buffers(void) {
    farcall_error *error = choose(2) == 0 ? NULL : farcall_error_create(text());
    size_t count, *count_place = OUT(count);
    (void)farcall_error_code_of(error);
    (void)farcall_error_is_disconnected(error);
    (void)farcall_error_message(error);
    (void)farcall_error_facts(error, count_place);
    (void)farcall_error_fact(error, text());
    if (choose(2) == 0)
        farcall_text_free(farcall_error_to_string(error));
    else
        farcall_error_consume(error);
    farcall_text_free(NULL);
    farcall_error_cant_fail(NULL);
    farcall_buffer made = buffer(), *place = OUT(made);
    (void)farcall_buffer_data(place);
    (void)farcall_buffer_const_data(place);
    (void)farcall_buffer_size(place);
    (void)farcall_buffer_is_empty(place);
    (void)farcall_buffer_out_of_band_error(place);
    farcall_buffer_dispose(place);
    farcall_buffer_dispose(&made);
    made = farcall_buffer_allocate(SIZE_MAX / 2);
    if (farcall_buffer_out_of_band_error(&made) == NULL)
        exit(1);
    farcall_buffer_dispose(&made);
    note(farcall_check_version((uint32_t)number()));
    (void)farcall_version();
    (void)farcall_version_text();
}

static void sessions(void) {
    /* Not as NULL, which clang would refuse here. */
    farcall_options *no_options = NULL;
    farcall_polled *no_polled = NULL;
    farcall_wrapper_function no_function = NULL;
    farcall_task_run(NULL);
    farcall_task_drop(NULL);
    farcall_done_complete(NULL);
    farcall_options_dispatch(no_options, NULL, NULL);
    farcall_options_dispose(NULL);
    farcall_options *options = choose(4) == 0 ? NULL : farcall_options_create();
    farcall_options_on_error(options, NULL, NULL);
    farcall_options_on_disconnect(options, NULL, NULL);
    farcall_options_grace_ms(options, 100);
    farcall_options_linked_code(options, choose(2) == 0);
    size_t size;
    const void *bytes = data(&size);
    if (choose(4) == 0)
        farcall_options_symbol(options, text(), NULL);
    if (choose(4) == 0)
        farcall_options_value(options, text(), bytes, size);
    if (choose(4) == 0)
        farcall_options_function(options, text(), no_function);
    if (choose(4) == 0)
        farcall_options_service(options, text(), NULL, NULL, NULL);
    farcall_polled *polled = NULL, **polled_place = OUT(polled);
    if (choose(2) == 0) {
        note(farcall_polled_create(options, -1, choose(2) == 0, polled_place));
    } else {
        farcall_session *made = NULL, **place = OUT(made);
        note(farcall_session_create(options, place));
        if (made != NULL)
            note(farcall_session_dispose(made));
    }
    size_t count, *count_place = OUT(count);
    note(farcall_polled_poll(no_polled, number(), count_place));
    if (farcall_polled_descriptor(no_polled) != -1 || !farcall_polled_has_ended(no_polled))
        exit(1);
    farcall_polled_dispose(NULL);
    note(farcall_session_attach_socket(SESSION(), -1));
    note(farcall_session_attach_pipes(SESSION(), -1, -1));
    note(farcall_session_attach_name(SESSION(), text()));
    note(farcall_session_attach_shared(SESSION(), -1));
    note(farcall_session_attach_shared_name(SESSION(), text()));
    farcall_session_report_error(gone_session, farcall_error_create(text()));
    farcall_session_report_error(gone_session, NULL);
    farcall_session_call_controller(SESSION(), number(), buffer(), choose(2) == 0 ? NULL : on_answer, NULL);
    farcall_buffer answer = farcall_session_call_controller_and_wait(SESSION(), number(), buffer());
    farcall_buffer_dispose(&answer);
    farcall_keepalive_release(farcall_session_keepalive(SESSION(), text()));
    farcall_keepalive_release(NULL);
    note(farcall_session_detach(gone_session, NULL, NULL));
    note(farcall_session_shutdown(gone_session, NULL, NULL));
    note(farcall_session_wait(gone_session));
    note(farcall_session_dispose(gone_session));
}

static void (*const ALL[])(void) = {executor_start, executor_life, process_life, process_calls, pipelines, functions, libraries,         programs, swaps,
                                    dylibs,         links,         handlers,      regions,      memories,      sessions,  clients,   errors_and_buffers};
#define GROUPS (sizeof ALL / sizeof *ALL)

static void must(farcall_error *error) {
    if (error != NULL) {
        fprintf(stderr, "misuse: %s\n", farcall_error_message(error));
        exit(1);
    }
}

/* Makes what has gone anew. */
static void prepare(void) {
    uint64_t bytes;
    farcall_error *death = farcall_process_death(process);
    if (death == NULL)
        death = farcall_process_page_bytes(process, &bytes);
    if (death != NULL) {
        farcall_error_consume(death);
        farcall_error_consume(farcall_executor_close(executor));
        gone_executor = executor;
        gone_process = process;
        farcall_executor_options options;
        memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.this_program = true;
        must(farcall_executor_start(&options, &executor));
        must(farcall_executor_process(executor, 0, &process));
        dylib = NULL;
    }
    uint64_t at;
    farcall_error *error = dylib == NULL ? farcall_error_create("none") : farcall_dylib_lookup(dylib, "scale", &at);
    if (error != NULL) {
        farcall_error_consume(error);
        farcall_error_consume(farcall_dylib_remove(dylib));
        gone_dylib = dylib;
        dylib = NULL;
        static unsigned made;
        char name[32];
        snprintf(name, sizeof name, "dylib %u", made++);
        error = farcall_dylib_create(process, name, &dylib);
        if (error == NULL)
            error = farcall_dylib_add_object_file(dylib, NULL, object);
        if (error == NULL)
            error = farcall_dylib_define(dylib, "host_scale", 16);
        if (error == NULL)
            error = farcall_dylib_lookup(dylib, "reverse", &address);
        if (error == NULL)
            error = farcall_tracker_create(dylib, &tracker);
        if (error == NULL)
            error = farcall_dylib_lookup(dylib, "scale", &at);
        if (error == NULL)
            error = farcall_process_function(process, at, NULL, "double scale(long, double)", &function);
        /* The executor may have died meanwhile. */
        farcall_error_consume(error);
    }
    error = library == NULL ? farcall_error_create("none") : farcall_library_lookup(library, "sum_of", &at);
    if (error != NULL) {
        farcall_error_consume(error);
        farcall_library *swapped = NULL;
        error = farcall_library_create(executor, "library", &library);
        if (error == NULL)
            error = farcall_library_define(library, "host_scale", 16);
        if (error == NULL)
            error = farcall_library_add_object_file(library, object);
        if (error == NULL)
            error = farcall_library_create(executor, "swapped", &swapped);
        if (error == NULL)
            error = farcall_redirection_create(swapped, "scale", library, "scale", &redirection);
        farcall_error_consume(error);
    }
    farcall_error_consume(farcall_pipeline_open(process, choose(2) == 0, &pipeline));
    farcall_error_consume(farcall_memory_reserve(process, (farcall_sizes){1, 1, 1}, 0, &memory));
}

int main(int argc, char **argv) {
    farcall_run_if_spawned();
    if (argc < 2)
        return 2;
    farcall_options *options = farcall_options_create();
    must(farcall_session_create(options, &gone_session));
    must(farcall_session_dispose(gone_session));
    must(farcall_region_create(4096, false, &gone_region));
    must(farcall_region_dispose(gone_region));
    for (mode = 0; mode < 3; mode++) {
        for (size_t group = 0; group < GROUPS; group++)
            ALL[group]();
    }
    if (refused < 150) {
        fprintf(stderr, "misuse: only %lu calls were refused\n", refused);
        return 1;
    }
    printf("%lu calls refused\n", refused);
    if (strcmp(argv[1], "NULL") == 0)
        return 0;
    object = argv[1];
    mode = -1;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 2000;
    object_bytes = malloc(1 << 20);
    FILE *file = fopen(object, "rb");
    if (object_bytes == NULL || file == NULL)
        return 2;
    object_size = fread(object_bytes, 1, 1 << 20, file);
    fclose(file);
    must(farcall_region_create(1 << 16, false, &region));
    options = farcall_options_create();
    must(farcall_session_create(options, &session));
    while (refused + done < count) {
        prepare();
        for (unsigned turn = 0; turn < 8; turn++)
            ALL[choose(GROUPS)]();
    }
    /* Unless the last calls have closed it. */
    farcall_error_consume(farcall_executor_close(executor));
    must(farcall_session_dispose(session));
    must(farcall_region_dispose(region));
    printf("%s\n", done > count / 10 ? "random calls done" : "too few calls were right");
    free(object_bytes);
    return done > count / 10 ? 0 : 1;
}
