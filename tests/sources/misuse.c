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
static farcall_controller *controller, *gone_controller;
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

#define CONTROLLER() ((farcall_controller *)choose_of(controller, gone_controller))
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

static void on_tag(farcall_controller *of, uint64_t tag, farcall_buffer args, uint64_t call_id, void *context) {
    (void)tag, (void)context;
    note(farcall_controller_answer(of, call_id, args));
}

static farcall_error *on_name(farcall_controller *of, const farcall_value *values, size_t count, farcall_value *result,
                              void *context) {
    (void)of, (void)values, (void)count, (void)context;
    result->kind = (uint32_t)number();
    return choose(2) == 0 ? farcall_error_create(NULL) : NULL;
}

static void on_symbol(const char *name, uint64_t at, void *context) { (void)name, (void)at, (void)context; }
static void on_value(const char *name, int64_t at, void *context) { (void)name, (void)at, (void)context; }
static void on_answer(farcall_session *of, farcall_buffer result, void *context) {
    (void)of, (void)context;
    farcall_buffer_dispose(&result);
}

static void controller_start(void) {
    farcall_start_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    const farcall_start_options *given = &options;
    static const char *const bad_environment[] = {"no value", NULL};
    switch (choose(7)) {
    case 0: options.size = 0; break;
    case 1: options.size = sizeof options + 8; break;
    case 2: options.program = "/no/such/program"; break;
    case 3: options.slab_bytes.code = 1; options.this_program = true; break;
    case 4: options.environment = bad_environment; break;
    case 5: options.publish = ""; options.this_program = true; break;
    default: options.slab_bytes.data = UINT64_MAX; options.this_program = true; break;
    }
    farcall_controller *started = NULL;
    farcall_controller **place = OUT(started);
    note(farcall_controller_start(given, place));
    note(farcall_controller_close(started));
}

static void controller_life(void) {
    int status, *exit_status = OUT(status);
    int32_t pid, *pid_place = OUT(pid);
    uint64_t bytes, *bytes_place = OUT(bytes), found, *found_place = OUT(found);
    char *triple = NULL, **triple_place = OUT(triple);
    note(farcall_controller_pid(CONTROLLER(), pid_place));
    note(farcall_controller_triple(CONTROLLER(), triple_place));
    farcall_text_free(triple);
    triple = NULL;
    note(farcall_controller_confinement(CONTROLLER(), triple_place));
    farcall_text_free(triple);
    note(farcall_controller_page_bytes(CONTROLLER(), bytes_place));
    note(farcall_controller_death(CONTROLLER()));
    note(farcall_controller_symbol(CONTROLLER(), text(), found_place));
    note(farcall_controller_each_symbol(CONTROLLER(), choose(2) == 0 ? NULL : on_symbol, NULL));
    note(farcall_controller_each_value(CONTROLLER(), choose(2) == 0 ? NULL : on_value, NULL));
    note(farcall_controller_open_library(CONTROLLER(), text()));
    if (choose(64) < 3) {
        note(farcall_controller_exit(CONTROLLER(), (int)number(), exit_status));
        note(farcall_controller_kill(CONTROLLER()));
        farcall_controller *closed = CONTROLLER();
        note(farcall_controller_close(closed));
    }
}

static void controller_calls(void) {
    farcall_buffer result = farcall_buffer_empty(), *place = OUT(result);
    size_t size;
    const void *args = message(&size);
    uint64_t at = choose(4) == 0 ? number() : address;
    note(farcall_controller_call(CONTROLLER(), at, args, size, place));
    farcall_buffer_dispose(&result);
    args = message(&size);
    note(farcall_controller_call_timeout(CONTROLLER(), at, args, size, number() & 63, place));
    farcall_buffer_dispose(&result);
    char bytes[64];
    size = choose(65);
    note(farcall_controller_read(CONTROLLER(), number(), choose(4) == 0 ? NULL : bytes, size));
    args = message(&size);
    note(farcall_controller_write(CONTROLLER(), number(), args, size));
}

static void pipelines(void) {
    farcall_pipeline *opened = NULL;
    farcall_pipeline **place = OUT(opened);
    note(farcall_pipeline_open(CONTROLLER(), choose(2) == 0, place));
    size_t size, completed, *count = OUT(completed);
    const void *args = message(&size);
    note(farcall_pipeline_submit(PIPELINE(), address, args, size, choose(4) == 0 ? NULL : on_complete, NULL));
    if (opened != NULL)
        note(farcall_pipeline_submit(opened, address, "12345678", 8, on_complete, NULL));
    note(farcall_pipeline_poll(PIPELINE(), count));
    note(farcall_pipeline_close(opened));
    if (choose(16) < 4)
        note(farcall_pipeline_close(PIPELINE()));
}

static void functions(void) {
    farcall_function *made = NULL;
    farcall_function **place = OUT(made);
    note(farcall_function_create(CONTROLLER(), address, text(), text(), place));
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
    note(farcall_function_call_timeout(FUNCTION(), given, count, number() & 63, result_place));
    farcall_value_dispose(&result);
    for (int at = 0; at < 3; at++)
        farcall_value_dispose(&values[at]);
    farcall_value_dispose(NULL);
    if (choose(16) < 4)
        note(farcall_function_dispose(FUNCTION()));
}

static void dylibs(void) {
    farcall_dylib *made = NULL, **place = OUT(made);
    note(farcall_dylib_create(CONTROLLER(), text(), place));
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
    note(farcall_dylib_define_handler(DYLIB(), TRACKER(), text(), text(), choose(4) == 0 ? NULL : on_name, NULL));
    note(farcall_dylib_remove(made));
    if (choose(16) < 4) {
        int result, *result_place = OUT(result);
        note(farcall_dylib_initialize(DYLIB()));
        note(farcall_dylib_run_main(DYLIB(), choose(2) == 0 ? NULL : (const char *const[]){"main", NULL}, result_place));
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

static void handlers(void) {
    uint64_t tag = 0, *place = OUT(tag);
    note(farcall_controller_register_handler(CONTROLLER(), choose(4) == 0 ? NULL : on_tag, NULL, place));
    note(farcall_controller_handle_other_tags(CONTROLLER(), choose(4) == 0 ? NULL : on_tag, NULL));
    note(farcall_controller_remove_handler(CONTROLLER(), choose(2) == 0 ? number() : tag));
    note(farcall_controller_answer(CONTROLLER(), number(), buffer()));
}

static void regions(void) {
    farcall_region *made = NULL, **place = OUT(made);
    uint64_t bytes = number() == 4096 ? 4096 : number() & ~((uint64_t)1 << 33);
    note(farcall_region_create(bytes, choose(2) == 0, place));
    void *at = NULL, **at_place = OUT(at);
    uint64_t offset, *offset_place = OUT(offset);
    note(farcall_region_data(any_region(), at_place, offset_place));
    note(farcall_region_attach(any_region(), CONTROLLER(), choose(2) == 0, offset_place));
    note(farcall_region_detach(any_region(), CONTROLLER()));
    note(farcall_region_allocate(any_region(), number() & 0xffff, choose(70), offset_place));
    note(farcall_region_allocate(any_region(), SIZE_MAX, (size_t)1 << 63, offset_place));
    note(farcall_region_free(any_region(), number()));
    note(farcall_region_dispose(made));
}

static void memories(void) {
    farcall_memory *made = NULL, **place = OUT(made);
    note(farcall_memory_reserve(CONTROLLER(), (farcall_sizes){number(), number(), number()}, number(), place));
    void *shared, **shared_place = OUT(shared);
    uint64_t shared_bytes, *bytes_place = OUT(shared_bytes);
    note(farcall_controller_shared_memory(CONTROLLER(), choose(2) == 0 ? number() : address, shared_place, bytes_place));
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
        note(farcall_controller_deallocate(CONTROLLER(), choose(4) == 0 ? NULL : bases, choose(6) == 0 ? SIZE_MAX : choose(4)));
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
    note(farcall_client_call(none, number(), args, size, result_place));
    note(farcall_client_call_timeout(none, number(), args, size, number() & 63, result_place));
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

static void (*const ALL[])(void) = {controller_start,   controller_life, controller_calls, pipelines, functions, dylibs, handlers,
                                    regions,            memories,        sessions,         clients,         errors_and_buffers};
#define GROUPS (sizeof ALL / sizeof *ALL)

static void must(farcall_error *error) {
    if (error != NULL) {
        fprintf(stderr, "misuse: %s\n", farcall_error_message(error));
        exit(1);
    }
}

/* Makes what has gone anew. */
static void prepare(void) {
    farcall_error *death = farcall_controller_death(controller);
    if (death != NULL) {
        farcall_error_consume(death);
        farcall_error_consume(farcall_controller_close(controller));
        gone_controller = controller;
        farcall_start_options options;
        memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.this_program = true;
        must(farcall_controller_start(&options, &controller));
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
        error = farcall_dylib_create(controller, name, &dylib);
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
            error = farcall_function_create(controller, at, NULL, "double scale(long, double)", &function);
        /* The executor may have died meanwhile. */
        farcall_error_consume(error);
    }
    farcall_error_consume(farcall_pipeline_open(controller, choose(2) == 0, &pipeline));
    farcall_error_consume(farcall_memory_reserve(controller, (farcall_sizes){1, 1, 1}, 0, &memory));
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
    farcall_error_consume(farcall_controller_close(controller));
    must(farcall_session_dispose(session));
    must(farcall_region_dispose(region));
    printf("%s\n", done > count / 10 ? "random calls done" : "too few calls were right");
    free(object_bytes);
    return done > count / 10 ? 0 : 1;
}
