// farcall in C. A program starts executors, links code into libraries and calls it (farcall_executor_start), or attaches to an
// executor (farcall_client_attach). Or it is an executor itself: it embeds a session that a controller attaches
// (farcall_session_create), or polls (farcall_polled_create).
//
// Threads: every function may be called from any thread, except those of a polled executor and of a
// client, which belong to one thread.
// The library calls functions of the host from any thread, unless they say which; they must not throw.
// Numbers: farcall_session, farcall_executor, and what belongs to an executor are pointers in name only. If the object of a
// number is gone or never existed, functions return FARCALL_INVALID.
// Ownership: a function that takes a pointer says so; the caller must not use that pointer afterwards. Texts and bytes that a
// function receives are copied, unless it says otherwise.
// Errors: NULL is success. What a function stores is 0, NULL or empty if it returns an error.
// NULL: pointers that may be NULL are FARCALL_NULLABLE. For others NULL is an error, or the function does nothing.
//
// Memory in buffers and texts comes from malloc. An installed library is found as farcall by pkg-config, and as farcall::farcall by
// CMake. Without that, link with libfarcall_ffi.a -lpthread -ldl -lm.

#ifndef FARCALL_H
#define FARCALL_H

// Made by cbindgen of the Rust files in src/ffi: do not edit.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus) && __cplusplus >= 201703L
#define FARCALL_NODISCARD [[nodiscard]]
#elif defined(__GNUC__)
#define FARCALL_NODISCARD __attribute__((warn_unused_result))
#else
#define FARCALL_NODISCARD
#endif

#ifdef __clang__
#define FARCALL_NULLABLE _Nullable
#define FARCALL_NONNULL _Nonnull
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnullability-extension"
#pragma clang assume_nonnull begin
#else
#define FARCALL_NULLABLE
#define FARCALL_NONNULL
#endif

// The version of this header: major, minor and patch number, 8 bits each from the highest to the lowest.
#define FARCALL_VERSION 256

// What kind of error it is.
typedef enum {
    // No error.
    FARCALL_OK = 0,
    // The executor's process has ended; farcall_error_facts says how.
    FARCALL_DIED = 1,
    // The session or the connection is over.
    FARCALL_DISCONNECTED = 2,
    // A call did not return in time, and could not be interrupted. It still runs, and its result will be dropped.
    FARCALL_TIMEOUT = 3,
    // The other side ran the request, and answered with an error.
    FARCALL_REMOTE = 4,
    // An object or an archive cannot be linked. The message says what to change.
    FARCALL_LINK = 5,
    // Symbols are missing, defined twice, or could not be supplied.
    FARCALL_SYMBOLS = 6,
    // Memory, lanes, or the size of a message ran out. The message names the limit.
    FARCALL_LIMIT = 7,
    // The other side broke the protocol, and the session is over.
    FARCALL_VIOLATION = 8,
    // The caller's own arguments were refused: NULL, a handle that is not live, a number out of range.
    FARCALL_INVALID = 9,
    // An argument has another type than the function's parameter.
    FARCALL_TYPE = 10,
    // The operating system refused.
    FARCALL_SYSTEM = 11,
    // farcall_error_create made the error, or a function of the host.
    FARCALL_HOST = 12,
    // The library has a defect. Please report the message.
    FARCALL_INTERNAL = 13,
    // The call was ended, and its process runs on; farcall_error_facts says where it was.
    FARCALL_INTERRUPTED = 14,
} farcall_error_code;

// How the value of a fact is told.
typedef enum {
    // Without a value: it is so.
    FARCALL_FLAG = 0,
    // number
    FARCALL_NUMBER = 1,
    // text
    FARCALL_TEXT = 2,
    // list: several texts.
    FARCALL_LIST = 3,
} farcall_fact_kind;

// How a field of a part refers to a symbol.
typedef enum {
    // 4 bytes: the distance of a call or a jump.
    FARCALL_CALL = 0,
    // 4 bytes: the distance from the end of the field, as of [rip + symbol].
    FARCALL_DISTANCE = 1,
    // 4 bytes: the distance to an entry that has the symbol's address.
    FARCALL_GOT_ENTRY = 2,
    // 8 bytes: the address.
    FARCALL_ADDRESS = 3,
} farcall_field_kind;

// What happens to a call that is late.
typedef enum {
    // It is interrupted: it fails with FARCALL_INTERRUPTED, and its process runs on. If that is not possible, it is abandoned.
    FARCALL_INTERRUPT = 0,
    // The same; if that is not possible, the process is killed.
    FARCALL_INTERRUPT_OR_KILL = 1,
    // The call fails with FARCALL_TIMEOUT. The function still runs, and its result will be dropped, unless the restart policy kills the
    // process then.
    FARCALL_ABANDON = 2,
    // The process is killed.
    FARCALL_KILL = 3,
} farcall_on_deadline;

// A protection of memory in the executor.
typedef enum {
    // It can be executed and read.
    FARCALL_CODE = 0,
    // It can be read.
    FARCALL_CONSTANTS = 1,
    // It can be read and written.
    FARCALL_DATA = 2,
} farcall_protection;

// A register that a function returns with its caller's value.
typedef enum {
    // rbx
    FARCALL_RBX = 0,
    // rbp
    FARCALL_RBP = 1,
    // r12
    FARCALL_R12 = 2,
    // r13
    FARCALL_R13 = 3,
    // r14
    FARCALL_R14 = 4,
    // r15
    FARCALL_R15 = 5,
} farcall_register;

// How an instruction changes a function's frame.
typedef enum {
    // Pushes the register.
    FARCALL_PUSH = 0,
    // Pops the register.
    FARCALL_POP = 1,
    // Moves the stack pointer down by the bytes.
    FARCALL_GROW = 2,
    // Moves the stack pointer up by the bytes.
    FARCALL_SHRINK = 3,
    // Makes rbp the frame pointer.
    FARCALL_FRAME_POINTER = 4,
    // leave
    FARCALL_LEAVE = 5,
    // Stores the register, that many bytes below the caller's stack pointer.
    FARCALL_SAVE = 6,
    // The frame is again as at this offset, given by bytes.
    FARCALL_RESUME = 7,
} farcall_step_kind;

// The type of a value.
typedef enum {
    // No value: the result of a function that returns void.
    FARCALL_VOID = 0,
    // boolean
    FARCALL_BOOL = 1,
    // i8
    FARCALL_I8 = 2,
    // u8
    FARCALL_U8 = 3,
    // i16
    FARCALL_I16 = 4,
    // u16
    FARCALL_U16 = 5,
    // i32
    FARCALL_I32 = 6,
    // u32
    FARCALL_U32 = 7,
    // i64
    FARCALL_I64 = 8,
    // u64
    FARCALL_U64 = 9,
    // f32
    FARCALL_F32 = 10,
    // f64
    FARCALL_F64 = 11,
    // address: a pointer of the executor.
    FARCALL_POINTER = 12,
    // vector: 128 bits.
    FARCALL_V128 = 13,
    // bytes: those of a structure, padding included.
    FARCALL_BYTES = 14,
} farcall_value_kind;

// A client of an executor that this program has not started: a session that another program embeds, or LLVM's executor. It has
// no linker, and calls what the executor offers by name.
//
// It belongs to the thread that made it: on others its functions return FARCALL_INVALID.
typedef struct farcall_client farcall_client;

// The completion of a service, to be given once.
typedef struct farcall_done farcall_done;

// A set of linked code in one process, as LLVM's JITDylib. Most programs do best with a library (farcall_library_create). A number, as
// farcall_executor is one.
//
// An object is linked when a symbol of it is looked up, or referred to by such an object. Names are searched in this order: the
// dylib, its archives, the dylibs of its link order, and the executor's process with its libraries.
typedef struct farcall_dylib farcall_dylib;

// The reason of a failure. The receiver owns it, and hands it on or frees it.
typedef struct farcall_error farcall_error;

// One or more processes that run linked code, with the same contents. A number: if the executor was closed, functions return
// FARCALL_INVALID.
typedef struct farcall_executor farcall_executor;

// A C function of the executor, with its types. A number, as farcall_executor is one.
//
// A function of a library is found by its name in the present process, and takes a free process of several. A bound function belongs to
// one process, and is dead with it; its calls cost 20 to 30 ns less.
typedef struct farcall_function farcall_function;

// Delays the shutdown of a session.
typedef struct farcall_keepalive farcall_keepalive;

// A set of objects in an executor: linked together, looked up, run and removed as a whole. A number, as farcall_executor is one.
//
// What is added is there in each process of the executor, and in each next one, in the order in which it was added. An object that is
// refused leaves the library as it was.
typedef struct farcall_library farcall_library;

// A link of one object for a host that has a symbol table of its own, as LLVM's session. Others do best with a library
// (farcall_library_create). A number, as farcall_executor is one. It belongs to the process.
//
// The host takes the link from step to step, on any thread:
//
// 1. farcall_link_create reads the object. Weak definitions that the host has from elsewhere are defined now (farcall_link_define).
// 2. farcall_link_each_reference: the host defines the names that it has.
// 3. farcall_link_place: now the definitions have addresses (farcall_link_each_definition).
// 4. farcall_link_locate tells the addresses that were not known in step 2.
// 5. farcall_link_finish: the next call may run the code.
//
// So links may refer to each other in a circle. A step that fails ends the link and frees its memory; the handle is to be removed
// (farcall_link_remove). A step out of its turn is FARCALL_INVALID, and changes nothing.
typedef struct farcall_link farcall_link;

// Memory in the executor that no code uses yet. A number, as farcall_executor is one.
typedef struct farcall_memory farcall_memory;

// The options of a session. The host owns them until a function takes them.
typedef struct farcall_options farcall_options;

// Sends calls without waiting for their results. A number, as farcall_executor is one.
//
// The calls of a pipeline run in the order of their submission, one after the other, on a thread of the executor of their own. At
// most 256 are under way; a thread that submits more waits.
typedef struct farcall_pipeline farcall_pipeline;

// An executor that starts no thread and never waits by itself. It belongs to the thread that created it.
typedef struct farcall_polled farcall_polled;

// A process of an executor: what has addresses. A number, as farcall_executor is one. It belongs to the executor.
typedef struct farcall_process farcall_process;

// A function of a library that is redirected from one implementation to the next, while the program runs. In a next process it leads
// to the latest one from the start. A number, as farcall_executor is one.
typedef struct farcall_redirection farcall_redirection;

// Memory of this program that executors map as well. A number, as farcall_executor is one. It belongs to no executor, and outlives
// executors.
typedef struct farcall_region farcall_region;

// A session that this program embeds.
typedef struct farcall_session farcall_session;

// An executor at one moment, from which any number of copies start, each within some hundred microseconds. A number, as
// farcall_executor is one.
typedef struct farcall_snapshot farcall_snapshot;

// Something to do once, on any thread: the host runs it or drops it.
typedef struct farcall_task farcall_task;

// Owns objects of a dylib, which are removed together. A number, as farcall_executor is one.
typedef struct farcall_tracker farcall_tracker;

// The bytes of a buffer of up to 8 bytes, or the address of the bytes of a larger one.
typedef union {
    // The bytes, from malloc. In a buffer of size 0: NULL, or the text of an out-of-band error.
    char *FARCALL_NULLABLE pointer;
    // Up to 8 bytes.
    char bytes[8];
} farcall_buffer_value;

// Arguments or a result, as orc_rt_WrapperFunctionBuffer: empty, up to 8 bytes in place, more from malloc, or an
// out-of-band error. A function that receives a buffer by value owns the bytes, and disposes of them or hands them on.
typedef struct {
    // The bytes, or their address.
    farcall_buffer_value value;
    // The number of bytes.
    size_t size;
} farcall_buffer;

// A fact about the death of an executor's process, or about an interrupted call.
typedef struct {
    // The name, such as "signal".
    const char *name;
    // A farcall_fact_kind.
    uint32_t kind;
    // The number or the address.
    uint64_t number;
    // The text; NULL for other kinds.
    const char *FARCALL_NULLABLE text;
    // The texts, ended by NULL; NULL for other kinds.
    const char *FARCALL_NULLABLE const *FARCALL_NULLABLE list;
} farcall_fact;

// A value without its type: the member that the kind names.
typedef union {
    // FARCALL_BOOL
    bool boolean;
    // FARCALL_I8
    int8_t i8;
    // FARCALL_U8
    uint8_t u8;
    // FARCALL_I16
    int16_t i16;
    // FARCALL_U16
    uint16_t u16;
    // FARCALL_I32
    int32_t i32;
    // FARCALL_U32
    uint32_t u32;
    // FARCALL_I64
    int64_t i64;
    // FARCALL_U64
    uint64_t u64;
    // FARCALL_F32
    float f32;
    // FARCALL_F64
    double f64;
    // FARCALL_POINTER
    uint64_t address;
    // FARCALL_V128
    uint8_t vector[16];
    // FARCALL_BYTES
    farcall_buffer bytes;
} farcall_value_data;

// An argument or a result. Its type is exactly that of the parameter: an int32_t is no argument for int64_t.
typedef struct {
    // A farcall_value_kind.
    uint32_t kind;
    // The value.
    farcall_value_data data;
} farcall_value;

// When the next process starts after a death. With all members 0 none does: all calls fail then.
typedef struct {
    // The call that finds a process dead starts the next one, with the same contents.
    bool restarts;
    // Ends a process when a call with a timeout has timed out. Otherwise the function runs on in it.
    bool kill_on_timeout;
    // Keeps one more process started, which becomes the next one.
    bool standby;
    // The pause before a start; 0 is none. It doubles with each death.
    uint64_t pause_ms;
    // The longest pause. The pause begins anew when a process has lived for longer.
    uint64_t pause_max_ms;
    // The most starts within within_ms; 0 is no limit. When one more is needed, all calls fail from then on.
    uint32_t restarts_max;
    // See restarts_max.
    uint64_t within_ms;
} farcall_restart_policy;

// What an executor may not do, and how much it may use. With all members 0 it may do all that the user may.
typedef struct {
    // 0: no confinement. 1, isolated: the executor writes no files, makes no TCP connections, and signals and traces no process
    // outside; what it starts ends with it. 2, strict: it makes no system calls but those of a session.
    uint32_t level;
    // Leaves out what this kernel cannot restrict. Otherwise the start fails.
    bool allow_missing;
    // Runs on CPUs that nothing else wants.
    bool background;
    // The most private memory; 0 is no limit.
    uint64_t memory_bytes_max;
    // The most CPU time; 0 is no limit.
    uint64_t cpu_seconds_max;
    // The most descriptors; 0 is no limit.
    uint64_t descriptors_max;
    // The largest size of a file that the executor writes; 0 is no limit.
    uint64_t file_bytes_max;
} farcall_confinement;

// Bytes for each protection of memory in the executor.
typedef struct {
    // Bytes that can be executed and read.
    uint64_t code;
    // Bytes that can be read.
    uint64_t constants;
    // Bytes that can be read and written.
    uint64_t data;
} farcall_sizes;

// Receives a task, which the host runs soon, on a thread that may wait. Run it inside of this function only if no task waits
// for a message.
typedef void (*farcall_dispatch)(farcall_task *task, void *FARCALL_NULLABLE context);

// How to start an executor. All members but size may be 0, which is the default.
typedef struct {
    // sizeof(farcall_executor_options).
    size_t size;
    // The path of the executor's program. NULL: the program that the environment variable FARCALL_EXECUTOR names, or the file
    // farcall-executor beside this program.
    const char *FARCALL_NULLABLE program;
    // Makes this program the executor's as well. Its main must call farcall_run_if_spawned first. FARCALL_EXECUTOR has precedence.
    bool this_program;
    // Leaves descriptors without close-on-exec open in the executor.
    bool inherit_descriptors;
    // Lets debuggers set breakpoints in linked code.
    bool debuggable;
    // Runs linked code in this process, on the threads that call it, for code that is trusted as the host's own. A crash, exit or an
    // uncaught exception of the code ends the host, and a call that hangs keeps its thread. farcall_function_pointer gives plain
    // pointers. No program is started: program, this_program, start_timeout_ms and inherit_descriptors mean nothing.
    //
    // FARCALL_INVALID names what needs a process. Here that is confinement, restart, processes, environment and link_timeout_ms.
    // For a call it is a timeout, a watch, a cancellation and farcall_executor_interrupt_all. Snapshots need one too, and
    // farcall_process_exit, farcall_library_run_start and farcall_library_precede_libraries.
    // A kill (farcall_executor_kill) closes the session. Closing the executor waits for no call: the memory of linked code lives until
    // the last one has returned.
    bool in_process;
    // The first executor of a program, an environment and rights parts a process from itself that has loaded the program. That process
    // runs no linked code. It forks restarts, standbys, further processes, and other executors while this one is there. They start in
    // a fifth to two thirds of the time, and have the layout of their libraries in common. Executors without this option are started anew.
    bool shared_layout;
    // Variables to add to the executor's environment, as NAME=VALUE, ended by NULL.
    const char *FARCALL_NULLABLE const *FARCALL_NULLABLE environment;
    // What happens after a death.
    farcall_restart_policy restart;
    // The number of processes, at most 256; 0 is 1. Each of several runs one call at a time.
    size_t processes;
    // What the executor may not do, and how much it may use.
    farcall_confinement confinement;
    // The name under which farcall top shows the executor; NULL if it does not.
    const char *FARCALL_NULLABLE publish;
    // How long each side polls for the other before it sleeps; 50 us by default.
    uint64_t spin_ns;
    // How long the executor may take until it is ready; 10 s by default.
    uint64_t start_timeout_ms;
    // How long a link may wait for the executor's answer; 0 is no limit.
    uint64_t link_timeout_ms;
    // The memory for linked code at first, whole pages: 64, 64 and 128 MiB by default. More is added when it is needed.
    farcall_sizes slab_bytes;
    // The same for code with 32-bit addresses: 64, 64 and 256 MiB by default.
    farcall_sizes low_slab_bytes;
    // Runs completions of calls. NULL: threads of the library.
    farcall_dispatch FARCALL_NULLABLE dispatch;
    // Passed to dispatch; may be NULL.
    void *FARCALL_NULLABLE dispatch_context;
} farcall_executor_options;

// Brings into a process what its executor does not remember. The process is lent to this function. An error that it returns belongs to
// the library. May be NULL: the result.
typedef farcall_error *FARCALL_NULLABLE (*farcall_establish)(
    farcall_process *process,
    void *FARCALL_NULLABLE context);

// A process has died; error says how (farcall_error_facts), and belongs to this function. It may wait, and several threads may run
// it at the same time.
typedef void (*farcall_on_death)(
    farcall_executor *executor,
    farcall_error *error,
    void *FARCALL_NULLABLE context);

// Runs when linked code calls the C function that it defines, on the same threads as farcall_tag_handler. It gets a value for each
// parameter, and stores its result, unless that is void. An error that it returns belongs to the library: linked code is
// unwound, and this program's call returns the error as FARCALL_REMOTE.
typedef farcall_error *FARCALL_NULLABLE (*farcall_named_handler)(const farcall_value *arguments,
    size_t count,
    farcall_value *result,
    void *FARCALL_NULLABLE context);

// Makes the code of a function at its first call, and stores its address. The process is lent to this function. An error that it
// returns belongs to the library: linked code is unwound, and the next call tries again. May be NULL: the result.
typedef farcall_error *FARCALL_NULLABLE (*farcall_compile)(
    farcall_process *process,
    uint64_t *address,
    void *FARCALL_NULLABLE context);

// A field of a part that refers to a symbol.
typedef struct {
    // The offset in the part.
    uint64_t offset;
    // A farcall_field_kind.
    uint32_t kind;
    // The name of the symbol.
    const char *symbol;
    // What is added to the symbol's address; 0 for calls and entries.
    int64_t addend;
} farcall_field;

// An instruction that changes a function's frame.
typedef struct {
    // The offset in the code of the byte behind the instruction.
    uint32_t behind;
    // A farcall_step_kind.
    uint32_t kind;
    // A farcall_register, for the kinds that name one.
    uint32_t of;
    // See farcall_step_kind.
    uint32_t bytes;
} farcall_frame_step;

// A function, a constant or a variable.
typedef struct {
    // Its name.
    const char *name;
    // A farcall_protection: a function, a constant or a variable.
    uint32_t protection;
    // True if other objects do not see the name.
    bool is_local;
    // True if the function has a frame, through which exceptions and backtraces pass.
    bool has_frame;
    // Its bytes; NULL for a variable of zeroes.
    const void *FARCALL_NULLABLE data;
    // Their number.
    size_t size;
    // A power of two; 0 is 16 for functions and 8 for others.
    uint64_t alignment;
    // The fields that refer to symbols; may be NULL.
    const farcall_field *FARCALL_NULLABLE fields;
    // Their number.
    size_t field_count;
    // The instructions that change the frame, in the order of the code; may be NULL.
    const farcall_frame_step *FARCALL_NULLABLE steps;
    // Their number.
    size_t step_count;
} farcall_object_part;

// The counts of one link, and the times of its phases.
typedef struct {
    // Objects linked, archive members included.
    uint64_t objects;
    // Sections that became part of the image.
    uint64_t sections;
    // Relocations applied.
    uint64_t relocations;
    // Bytes of the image, zero-fill included.
    uint64_t bytes;
    // Time to search archives, and to read the members that are needed.
    uint64_t pull_ns;
    // Time to look symbols up.
    uint64_t look_up_ns;
    // Time to lay the image out, and to allocate its memory.
    uint64_t layout_ns;
    // Time to make the image for its addresses.
    uint64_t fixup_ns;
    // Time to store the image.
    uint64_t transfer_ns;
} farcall_link_report;

// Runs on the calling thread while a call waits, and returns NULL to wait on. An error interrupts the call, which fails with
// FARCALL_INTERRUPTED, and says the words of the error first. If that is not possible, the process is killed, and the call returns the
// error.
typedef farcall_error *FARCALL_NULLABLE (*farcall_watch)(void *FARCALL_NULLABLE context);

// What a call is made with, besides its arguments. All members but size may be 0, which is the default.
typedef struct {
    // sizeof(farcall_call_options).
    size_t size;
    // The call is late after this time, and on_deadline says what happens to it; 0 is no limit.
    uint64_t timeout_ms;
    // Looks now and then whether the call goes on, unless it is NULL.
    farcall_watch FARCALL_NULLABLE watch;
    // Passed to watch; may be NULL.
    void *FARCALL_NULLABLE watch_context;
    // The time between two looks; 0 is 10 ms.
    uint64_t watch_every_ms;
    // A farcall_on_deadline: what happens to a call that is late, or that watch ends. A call with a watch is not abandoned: its process
    // is killed instead.
    uint32_t on_deadline;
    // How long an interruption may take; 0 is 10 ms.
    uint64_t grace_ns;
} farcall_call_options;

// Receives the outcome of a call of a function, as farcall_on_complete, and owns both: error is NULL and result its result, or result is
// FARCALL_VOID. May be NULL: error.
typedef void (*farcall_on_result)(
    farcall_error *FARCALL_NULLABLE error,
    farcall_value result,
    void *FARCALL_NULLABLE context);

// A C function of any type. The host casts it to the function's own type, and calls it.
typedef void (*farcall_any_function)(void);

// Receives a name that the executor offers, and its address. The name lives until this function returns.
typedef void (*farcall_visit_symbol)(const char *name, uint64_t address, void *FARCALL_NULLABLE context);

// Receives a name that the executor offers, and its number. The name lives until this function returns.
typedef void (*farcall_visit_value)(const char *name, int64_t value, void *FARCALL_NULLABLE context);

// Receives the outcome of a call, and owns both: error is NULL and result its result, or result is empty.
//
// It runs once: as a task of the executor's dispatcher, or within farcall_pipeline_poll if the pipeline is polled. If the pipeline
// or the executor is closed, it runs within the closing function. It may submit and wait. May be NULL: error.
typedef void (*farcall_on_complete)(
    farcall_error *FARCALL_NULLABLE error,
    farcall_buffer result,
    void *FARCALL_NULLABLE context);

// Runs when linked code calls farcall_call_controller with a tag, or with any tag that has no handler. It owns the arguments.
//
// It answers by calling farcall_process_answer with call_id exactly once, now or later, on any thread. Linked code waits for
// that, and so does the thread that runs the handler: the thread of the host that waits for the executor's call. If a thread of
// linked code's own calls, the handler runs on a thread of the library. So it may run on several threads at a time. It may
// call the executor in turn.
typedef void (*farcall_tag_handler)(farcall_process *process,
    uint64_t tag,
    farcall_buffer args,
    uint64_t call_id,
    void *FARCALL_NULLABLE context);

// A part of memory: whole pages of one protection.
typedef struct {
    // The executor's address of the first byte; 0 if no byte was reserved.
    uint64_t address;
    // Where this program writes the same bytes; NULL if no byte was reserved. It stays mapped until the executor is closed.
    void *FARCALL_NULLABLE working;
    // The number of bytes.
    uint64_t bytes;
    // How many of the first bytes may hold bytes of earlier memory; those behind them are zero.
    uint64_t used;
} farcall_part;

// A function of code that another linker has made.
typedef struct {
    // The executor's address of its first byte.
    uint64_t address;
    // The number of bytes.
    uint64_t bytes;
    // Its name.
    const char *name;
} farcall_function_name;

// A pair of calls of wrapper functions in the executor, with the bytes of their arguments. An address of 0 is no call.
typedef struct {
    // Runs ahead of the next call, in the order of the actions.
    uint64_t finalize;
    // The arguments of finalize; NULL for none.
    const void *FARCALL_NULLABLE finalize_args;
    // Their size.
    size_t finalize_size;
    // Runs when the memory is deallocated, in reverse order.
    uint64_t dealloc;
    // The arguments of dealloc; NULL for none.
    const void *FARCALL_NULLABLE dealloc_args;
    // Their size.
    size_t dealloc_size;
} farcall_action;

// A name that the object of a link defines for others.
typedef struct {
    // The name, which lives until the visit returns.
    const char *name;
    // Its address; 0 before the object is placed. That of a thread-local is a number for farcall_link_define alone.
    uint64_t address;
    // True for a function.
    bool is_callable;
    // True if a definition elsewhere may take its place.
    bool is_weak;
    // True if only objects of the same dylib may use it.
    bool is_hidden;
} farcall_link_definition;

// Receives a definition of a link.
typedef void (*farcall_visit_definition)(
    const farcall_link_definition *definition,
    void *FARCALL_NULLABLE context);

// A name that the object of a link refers to.
typedef struct {
    // The name, which lives until the visit returns.
    const char *name;
    // True if the host need not define it.
    bool is_weak;
    // True for a thread-local, whose address is to be told before the object is placed.
    bool is_thread_local;
} farcall_link_reference;

// Receives a reference of a link.
typedef void (*farcall_visit_reference)(
    const farcall_link_reference *reference,
    void *FARCALL_NULLABLE context);

// Runs when the executor calls a tag, on the client's thread, inside of a call or of farcall_client_attend. It owns the
// arguments, and returns the result, which belongs to the library. An out-of-band error is the error of the executor's call. It
// may call the executor in turn, but not close the client.
typedef farcall_buffer (*farcall_client_handler)(farcall_client *client,
    uint64_t tag,
    farcall_buffer args,
    void *FARCALL_NULLABLE context);

// Receives the result of a call to the controller, and owns it. If the call failed, the result is an out-of-band error.
typedef void (*farcall_completion)(
    farcall_session *session,
    farcall_buffer result,
    void *FARCALL_NULLABLE context);

// Receives an error that belongs to no call, and owns it.
typedef void (*farcall_on_error)(
    farcall_session *session,
    farcall_error *error,
    void *FARCALL_NULLABLE context);

// The session has lost its controller. error is NULL after an orderly end, otherwise the reason, which this function owns. Must
// not block. May be NULL: error.
typedef void (*farcall_on_disconnect)(
    farcall_session *session,
    farcall_error *FARCALL_NULLABLE error,
    void *FARCALL_NULLABLE context);

// Answers the call with this number, once, on any thread. Takes the result.
typedef void (*farcall_return)(farcall_session *session, farcall_buffer result, uint64_t call_id);

// A function that the controller calls, as orc_rt_WrapperFunction. It owns the arguments, and answers by calling
// answer(session, result, call_id) exactly once, now or later.
typedef void (*farcall_wrapper_function)(farcall_session *session,
    farcall_buffer args,
    farcall_return answer,
    uint64_t call_id);

// The controller has detached, and managed code may still run. Call farcall_done_complete(done), now or later, on any thread.
typedef void (*farcall_on_detach)(
    farcall_done *done,
    bool shutdown_requested,
    void *FARCALL_NULLABLE context);

// No managed code runs any more: release everything. Call farcall_done_complete(done), now or later, on any thread.
typedef void (*farcall_on_shutdown)(farcall_done *done, void *FARCALL_NULLABLE context);

// Called when the operation that it was passed to is done.
typedef void (*farcall_notify)(farcall_session *session, void *FARCALL_NULLABLE context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that this program runs with, in the form of FARCALL_VERSION.
uint32_t farcall_version(void);

// The version of the library as a text, which lives as long as the library.
const char *farcall_version_text(void);

// Compares the version of the header with that of the library: call farcall_check_version(FARCALL_VERSION). An error if the
// library is older, or of another major number. Before 1.0 the minor number counts as a major one.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_check_version(uint32_t header);

// Frees a text that a function of this library gave to its caller. May be NULL: text.
//
// The text must come from such a function.
void farcall_text_free(char *FARCALL_NULLABLE text);

// An empty buffer, which is also the result of a function without a result.
FARCALL_NODISCARD farcall_buffer farcall_buffer_empty(void);

// A buffer of size bytes, all zero. If memory runs out, an out-of-band error.
FARCALL_NODISCARD farcall_buffer farcall_buffer_allocate(size_t size);

// A copy of size bytes at data. An out-of-band error if data is NULL and size is not 0, or if memory runs out. May be NULL: data.
//
// They must be readable.
FARCALL_NODISCARD
farcall_buffer farcall_buffer_from_range(const void *FARCALL_NULLABLE data,
    size_t size);

// A copy of a text, its NUL included. Empty for NULL. May be NULL: text.
//
// It must be one.
FARCALL_NODISCARD farcall_buffer farcall_buffer_from_string(const char *FARCALL_NULLABLE text);

// An out-of-band error with a copy of this message. May be NULL: message.
//
// It must be a text.
FARCALL_NODISCARD farcall_buffer farcall_buffer_from_out_of_band_error(const char *FARCALL_NULLABLE message);

// Frees what the buffer points to, and leaves it empty. May be NULL: buffer.
//
// It must be a buffer of the caller's.
void farcall_buffer_dispose(farcall_buffer *FARCALL_NULLABLE buffer);

// The bytes of a buffer, which stay where they are until it is disposed of or moved. NULL for NULL. May be NULL: buffer, the
// result.
//
// It must be a buffer.
char *FARCALL_NULLABLE farcall_buffer_data(farcall_buffer *FARCALL_NULLABLE buffer);

// The bytes of a buffer, to be read. NULL for NULL. May be NULL: buffer, the result.
//
// It must be a buffer.
const char *FARCALL_NULLABLE farcall_buffer_const_data(const farcall_buffer *FARCALL_NULLABLE buffer);

// How many bytes a buffer has; 0 for NULL. May be NULL: buffer.
//
// It must be a buffer.
size_t farcall_buffer_size(const farcall_buffer *FARCALL_NULLABLE buffer);

// True for a buffer that has no bytes and is no error either, and for NULL. May be NULL: buffer.
//
// It must be a buffer.
bool farcall_buffer_is_empty(const farcall_buffer *FARCALL_NULLABLE buffer);

// The message of an out-of-band error, which is the buffer's; NULL for any other buffer, and for NULL. May be NULL:
// buffer, the result.
//
// It must be a buffer.
const char *FARCALL_NULLABLE farcall_buffer_out_of_band_error(const farcall_buffer *FARCALL_NULLABLE buffer);

// An error of the host's own, with a copy of this message. May be NULL: message.
//
// The message must be a text.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_error_create(const char *FARCALL_NULLABLE message);

// The code of an error: FARCALL_OK for NULL. May be NULL: error.
//
// The error must be the caller's.
farcall_error_code farcall_error_code_of(const farcall_error *FARCALL_NULLABLE error);

// The message of an error, which belongs to the error. For NULL the message says that there is no error. May be NULL: error.
//
// The error must be the caller's.
const char *farcall_error_message(const farcall_error *FARCALL_NULLABLE error);

// The facts about the executor's death or the call's interruption, and their number, if that is the reason of the error; otherwise NULL
// and 0. What is unknown, or not so, is left out. The facts live as long as the error. May be NULL: error, count, the result.
//
// | name | kind | what it is |
// |---|---|---|
// | exit_status | number | the status that the process gave to exit |
// | signal | number | the signal that ended the process |
// | status_unknown | flag | another part of this program has collected the exit status |
// | fault_address | number | the address whose access faulted |
// | program_counter | number | the instruction that was executing |
// | location | text | the place of that instruction, as "function+0x12 (object.o)" |
// | backtrace | list | the linked functions that had not returned, the innermost first |
// | stack_overflow | flag | the fault lies at the end of a thread's stack |
// | write_protected | flag | the fault was a write to memory that may not be written, as a constant |
// | limit | text | the limit of the confinement that ended the process |
// | cleanups_skipped | number | the functions with cleanups that an interrupted call has left without them |
// | threads_started | number | the threads that an interrupted call has started by pthread_create, which run on |
//
// An interrupted call has program_counter, location, cleanups_skipped and threads_started.
// The exit status comes from the kernel, and mostly the signal as well.
// The executor's process wrote the rest: take it as a hint. Later versions may have more facts.
//
// The error must be the caller's, and count writable.
const farcall_fact *FARCALL_NULLABLE farcall_error_facts(const farcall_error *FARCALL_NULLABLE error,
    size_t *FARCALL_NULLABLE count);

// The fact of this name about the executor's death or the call's interruption (farcall_error_facts); NULL if it is unknown, or
// not so. May be NULL: error, the result.
//
// The error must be the caller's, and the name a text.
const farcall_fact *FARCALL_NULLABLE farcall_error_fact(const farcall_error *FARCALL_NULLABLE error,
    const char *name);

// The message of an error, to be freed with farcall_text_free. Takes the error. For NULL the message says that there is no
// error. May be NULL: error.
//
// The error must be the caller's.
FARCALL_NODISCARD
char *farcall_error_to_string(farcall_error *FARCALL_NULLABLE error);

// Frees an error. May be NULL: error.
//
// The error must be the caller's.
void farcall_error_consume(farcall_error *FARCALL_NULLABLE error);

// Ends the process if there is an error, after writing its message to standard error. No other function of this library ends the
// process. May be NULL: error.
//
// The error must be the caller's.
void farcall_error_cant_fail(farcall_error *FARCALL_NULLABLE error);

// True when no further call can complete: the executor has died, or the session or the connection is over. May be NULL: error.
//
// The error must be the caller's.
bool farcall_error_is_disconnected(const farcall_error *FARCALL_NULLABLE error);

// Runs a task, on this thread, and frees it. May be NULL: task.
//
// It must come from a dispatch function, and be run or dropped once.
void farcall_task_run(farcall_task *FARCALL_NULLABLE task);

// Frees a task without running it. A thread that waits for the task gets an error. May be NULL: task.
//
// It must come from a dispatch function, and be run or dropped once.
void farcall_task_drop(farcall_task *FARCALL_NULLABLE task);

// Frees the bytes of a result of the kind FARCALL_BYTES, and leaves FARCALL_VOID. Others need not be freed. May be NULL: value.
//
// The value must be the caller's.
void farcall_value_dispose(farcall_value *FARCALL_NULLABLE value);

// Serves as an executor and ends the process, if a controller has started this program with this_program; returns at once
// otherwise. Call it first in main, before the program starts threads.
void farcall_run_if_spawned(void);

// Starts an executor, and waits until it is ready. May be NULL: options.
//
// With a restart policy, the call that finds a process dead starts the next one, with the same libraries, handlers and regions. What
// has addresses belongs to one process: see farcall_executor_process.
//
// The options must be readable, with what they point to, and executor writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_start(const farcall_executor_options *FARCALL_NULLABLE options,
    farcall_executor *FARCALL_NULLABLE *FARCALL_NONNULL executor);

// Ends an executor for ever, also while other threads call: each call under way fails with FARCALL_DISCONNECTED, as does each completion
// that has not come. All that belongs to the executor goes with it: libraries, functions, processes, dylibs, pipelines, memory.
//
// A handler that runs goes to its end before its call fails. The processes have ended when this returns: after 2 s they
// are killed. Waits for completions that run on threads of the library. May be NULL: executor.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_close(farcall_executor *FARCALL_NULLABLE executor);

// Ends the present processes at once, whatever they do. Calls under way fail with FARCALL_DIED. With a restart policy the next call
// starts the next process. Does nothing when they have ended.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_kill(farcall_executor *executor);

// Ends all calls of linked code that run now. Each fails with FARCALL_INTERRUPTED, unless it returns first, or cannot be left within
// grace_ns; 0 is 10 ms. The processes live on, with their code and variables. Calls that wait in a handler of the host end when the
// handler has returned. A call that begins later is not ended. Waits only while an executor has many requests before it, for at most
// grace_ns.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_interrupt_all(farcall_executor *executor,
    uint64_t grace_ns);

// As farcall_executor_kill, and starts the next processes now. FARCALL_INVALID without a restart policy.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_executor_restart(farcall_executor *executor);

// Stores the number of processes, the dead ones included.
//
// processes must be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_executor_processes(
    farcall_executor *executor,
    size_t *processes);

// Stores the process identifiers of the processes that run, at most capacity, and their number in running. Starts none. May be NULL:
// pids.
//
// As many pids must be writable, and running.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_pids(farcall_executor *executor,
    int32_t *FARCALL_NULLABLE pids,
    size_t capacity,
    size_t *running);

// Stores the present process with this number, counted from 0, for all that has addresses. With a restart policy it is started first
// if the last one has died; the addresses of one process mean nothing in the next. Without one it is the only process, dead or alive.
// It belongs to the executor; a program that asks often frees it (farcall_process_dispose).
//
// process must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_process(farcall_executor *executor,
    size_t number,
    farcall_process *FARCALL_NULLABLE *FARCALL_NONNULL process);

// Stores the executor with one of its processes alone, counted from 0. What is added by this handle is in no other process, and calls of
// its functions do not wait until the process is free. It belongs to the first executor; closing it ends that process.
//
// one must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_on(farcall_executor *executor,
    size_t number,
    farcall_executor *FARCALL_NULLABLE *FARCALL_NONNULL one);

// Attaches a region at its own address, in each process and in each next one. It stays attached until the executor ends.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_attach(farcall_executor *executor,
    farcall_region *region);

// Calls establish for each process, and for each next one, in the order of what was added. It runs on the thread whose call starts
// the process, must not use the executor, and fails the start if it returns an error. In the first process that is the error here, and
// nothing is remembered. The context must live until the executor is closed.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_establish(farcall_executor *executor,
    farcall_establish establish,
    void *FARCALL_NULLABLE context);

// Calls on_death with each death from now on. With a restart policy that is before the next process starts, on the thread that starts
// it. Without one it is at once, on a thread of the library. Not called for the end by farcall_executor_close.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_executor_on_death(farcall_executor *executor,
    farcall_on_death on_death,
    void *FARCALL_NULLABLE context);

// Creates an empty library. Its name appears in messages.
//
// The name must be a text, and library writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_create(farcall_executor *executor,
    const char *name,
    farcall_library *FARCALL_NULLABLE *FARCALL_NONNULL library);

// Frees the handle of a library. Its code stays, until the executor is closed. May be NULL: library.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_library_dispose(
    farcall_library *FARCALL_NULLABLE library);

// Adds an ELF object from memory, of which this function makes a copy. Its name appears in messages. FARCALL_LINK if the library
// defines a symbol of it already.
//
// The name must be a text, and the bytes readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_add_object(farcall_library *library,
    const char *name,
    const void *data,
    size_t size);

// Adds an ELF object from a file, as farcall_library_add_object.
//
// The path must be a text.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_library_add_object_file(
    farcall_library *library,
    const char *path);

// Adds an archive from memory, of which this function makes a copy. A link takes the members that define a missing symbol.
//
// The name must be a text, and the bytes readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_add_archive(farcall_library *library,
    const char *name,
    const void *data,
    size_t size);

// Adds an archive from a file, as farcall_library_add_archive. A thin archive is read from the folder that it lies in.
//
// The path must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_add_archive_file(farcall_library *library,
    const char *path);

// Makes the next link open a shared library in the executor, by file name or path as of dlopen. Look-ups find its symbols as well,
// behind those of the library's own objects.
//
// The name must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_add_library(farcall_library *library,
    const char *name);

// Makes the next link search the archives for a symbol that no object refers to, such as main.
//
// The name must be a text.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_library_want(
    farcall_library *library,
    const char *name);

// Defines a name as an address of the present process, for look-ups and for objects that are linked later. A next process does not
// have it: farcall_executor_establish can define it there. FARCALL_LINK if the library defines the name already.
//
// The name must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_define(farcall_library *library,
    const char *name,
    uint64_t address);

// Defines a C function that calls a handler of this program, for linked code and for look-ups. The prototype says its name and
// its types: numbers, bool and pointers, at most 16. declarations has the typedefs that the prototype uses.
//
// Strings and arrays come as addresses of the executor, which farcall_process_read reads. The context must live until the executor is
// closed, or the library is cleared and no call of the handler runs. May be NULL: declarations.
//
// The declarations and the prototype must be texts.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_define_handler(farcall_library *library,
    const char *FARCALL_NULLABLE declarations,
    const char *prototype,
    farcall_named_handler handler,
    void *FARCALL_NULLABLE context);

// Defines a function that compile makes at its first call, in each process. The context must live until the executor is closed.
//
// The name must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_create_lazy(farcall_library *library,
    const char *name,
    farcall_compile compile,
    void *FARCALL_NULLABLE context);

// Makes the library a program to shared libraries: its names come before theirs, as those of a native program do. Call it before the
// first link, for one library of an executor.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_precede_libraries(farcall_library *library);

// Makes the links from now on a version of a program that shares variables with an earlier version, and with later ones. A variable that
// the earlier version has under the same name, with the same size, keeps its address and its value. That holds for variables in sections
// of their own, as -fdata-sections makes them. May be NULL: earlier.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_keep_variables(farcall_library *library,
    farcall_library *FARCALL_NULLABLE earlier);

// Makes links from now on keep a copy of their initial data, for farcall_library_run_fresh.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_library_keep_initial_data(farcall_library *library);

// Has the prototypes of functions compared with the debug information of the objects that are linked from now on.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_check_types(farcall_library *library);

// Adds an object of machine code and data that this program has made itself: a compiler that emits bytes needs neither ELF nor an
// assembler. The name appears in messages. FARCALL_INVALID names a part that is wrong.
//
// The names must be texts, and the parts readable, with what they point to.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_add_parts(farcall_library *library,
    const char *name,
    const farcall_object_part *parts,
    size_t count);

// Makes a function of a name and a prototype, such as "double scale(long count, double unit)". A NULL name is that of the prototype. The
// function is looked up when it is called first, in each process. May be NULL: name, declarations.
//
// The text of declarations has the structures and typedefs that the prototype uses, each ended by a semicolon.
//
// If the function has other types, the executor may crash; calls then return an error, or a number without meaning.
//
// The name, the declarations and the prototype must be texts, and function writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_function(farcall_library *library,
    const char *FARCALL_NULLABLE name,
    const char *FARCALL_NULLABLE declarations,
    const char *prototype,
    farcall_function *FARCALL_NULLABLE *FARCALL_NONNULL function);

// Links the objects added since the last link, in the present process; look-ups and calls do so by themselves. If it fails, the added
// objects are dropped, and earlier links stay. May be NULL: report.
//
// report must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_link(farcall_library *library,
    farcall_link_report *FARCALL_NULLABLE report);

// Opens the shared libraries that were added, now and not in the next link. FARCALL_LINK if one cannot be opened: then none of them
// belongs to the next link.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_open_libraries(farcall_library *library);

// Stores the address of a symbol in the present process. Links the added objects first. FARCALL_SYMBOLS names the symbols that are
// missing.
//
// The name must be a text, and address writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_lookup(farcall_library *library,
    const char *name,
    uint64_t *address);

// Runs the initializers (static constructors) of what was added so far and has not run them, also in each next process.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_initialize(farcall_library *library);

// Runs the initializers that have not run, then main with these arguments, which NULL ends, the program's name first. Stores what
// main returns. FARCALL_DIED if the program calls exit: the fact exit_status has it. FARCALL_INTERRUPTED if it is interrupted. May be
// NULL: argv.
//
// The arguments must be texts, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_run_main(farcall_library *library,
    const char *FARCALL_NULLABLE const *FARCALL_NULLABLE argv,
    int *result);

// Runs the program with fresh data, as a process of its own would. Its variables get their initial values. Then the initializers run,
// main, the exit handlers and the finalizers. Links nothing again. The program was linked after farcall_library_keep_initial_data. May
// be NULL: argv.
//
// The arguments must be texts, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_run_fresh(farcall_library *library,
    const char *FARCALL_NULLABLE const *FARCALL_NULLABLE argv,
    int *result);

// Starts a program at code of its own instead of main, as the kernel starts one at _start, and stores its exit status. The process has
// ended when this returns. May be NULL: argv.
//
// The entry and the arguments must be texts, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_run_start(farcall_library *library,
    const char *entry,
    const char *FARCALL_NULLABLE const *FARCALL_NULLABLE argv,
    int *result);

// Removes all code of a library from each process, and forgets what was added, redirected functions as well: runs exit handlers, and
// frees the memory. None of the code may be running. FARCALL_INVALID if a redirected function of another library leads to this one:
// nothing has changed then. The library stays, empty.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_clear(farcall_library *library);

// Defines name in a library as a function that can be redirected, for look-ups and for objects that are linked later. At first it
// leads to the function symbol of the library of, which belongs to the same executor.
//
// The name and the symbol must be texts, and redirection writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_redirection_create(farcall_library *library,
    const char *name,
    farcall_library *of,
    const char *symbol,
    farcall_redirection *FARCALL_NULLABLE *FARCALL_NONNULL redirection);

// Redirects the function to symbol of the library of, for each call that begins later on any thread. Links of first. If that fails,
// nothing has changed.
//
// The symbol must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_redirection_redirect(farcall_redirection *redirection,
    farcall_library *of,
    const char *symbol);

// As farcall_redirection_redirect. Then forgets what was added to the library old. Its code is removed from each process, when the calls
// that are under way now have left it.
//
// The symbol must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_redirection_redirect_and_remove(farcall_redirection *redirection,
    farcall_library *of,
    const char *symbol,
    farcall_library *old);

// Removes the function from each process, and forgets it. Linked code should call it no more: it crashes at address 0 then. Frees the
// redirection. May be NULL: redirection.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_redirection_remove(farcall_redirection *FARCALL_NULLABLE redirection);

// Frees the handle of a redirection. The function stays. May be NULL: redirection.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_redirection_dispose(
    farcall_redirection *FARCALL_NULLABLE redirection);

// Takes a snapshot of an executor, which has one process and no restart policy. No call may be under way, and no thread of the program.
// The executor runs no more calls then: its libraries are what copies have (farcall_library_in_copy), as far as they are linked.
//
// A copy has libraries, data, heap, open files and attached regions of the executor. All copies end when the executor is closed, or
// when the snapshot is disposed of and all copies are closed.
//
// snapshot must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_snapshot_take(farcall_executor *executor,
    farcall_snapshot *FARCALL_NULLABLE *FARCALL_NONNULL snapshot);

// Starts a copy, or takes the copy made ahead, and waits until it is ready. It is an executor of its own, to be closed.
//
// copy must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_snapshot_spawn(farcall_snapshot *snapshot,
    farcall_executor *FARCALL_NULLABLE *FARCALL_NONNULL copy);

// Frees a snapshot. Its copies live on. May be NULL: snapshot.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_snapshot_dispose(
    farcall_snapshot *FARCALL_NULLABLE snapshot);

// Stores the same library in a copy of its executor: what was linked before the snapshot, at the same addresses. It belongs to the
// copy. FARCALL_INVALID if copy is no copy of the library's executor.
//
// same must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_library_in_copy(farcall_library *library,
    farcall_executor *copy,
    farcall_library *FARCALL_NULLABLE *FARCALL_NONNULL same);

// Makes a function of an address and a prototype, as farcall_library_function. It is bound to the process. Sends no message. May be NULL:
// declarations.
//
// The declarations and the prototype must be texts, and function writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_function(farcall_process *process,
    uint64_t address,
    const char *FARCALL_NULLABLE declarations,
    const char *prototype,
    farcall_function *FARCALL_NULLABLE *FARCALL_NONNULL function);

// Calls a function with a value for each parameter, and waits for its result. Structures are given by their bytes, which stay the
// caller's. The caller owns the result (farcall_value_dispose). FARCALL_TYPE if the values are not of the prototype's types; nothing
// is sent then. May be NULL: arguments, result.
//
// The call is made once. If the process dies, that is an error of this call; with a restart policy the next call starts another one.
//
// The arguments must be readable, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_call(farcall_function *function,
    const farcall_value *FARCALL_NULLABLE arguments,
    size_t count,
    farcall_value *FARCALL_NULLABLE result);

// As farcall_function_call, up to a time, or watched. May be NULL: options, arguments, result.
//
// The options and the arguments must be readable, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_call_with(farcall_function *function,
    const farcall_call_options *FARCALL_NULLABLE options,
    const farcall_value *FARCALL_NULLABLE arguments,
    size_t count,
    farcall_value *FARCALL_NULLABLE result);

// Makes calls calls with count arguments each, which lie one behind the other, and stores their results in this order. Many calls
// travel in one message. Stores all results or none. May be NULL: arguments, results.
//
// The arguments must be readable, and as many results writable as there are calls.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_batch(farcall_function *function,
    const farcall_value *FARCALL_NULLABLE arguments,
    size_t count,
    size_t calls,
    farcall_value *FARCALL_NULLABLE results);

// Calls a function for each row of a table in a region, by one message. What the calls return is dropped. May be NULL: options, first,
// steps.
//
// The values of first are the arguments for the first row. Each further row adds the steps to them: bytes to a pointer, a number to an
// integer. The step of another argument is 0.
//
// The options, the arguments and as many steps must be readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_rows(farcall_function *function,
    const farcall_call_options *FARCALL_NULLABLE options,
    const farcall_value *FARCALL_NULLABLE first,
    const int64_t *FARCALL_NULLABLE steps,
    size_t count,
    uint64_t rows);

// Stores the function bound to the present process, which is started first if the last one has died. FARCALL_SYMBOLS if the library does
// not define the name.
//
// bound must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_bind(farcall_function *function,
    farcall_function *FARCALL_NULLABLE *FARCALL_NONNULL bound);

// Stores the function in one process of its executor, counted from 0. Its calls do not wait until that is free. FARCALL_INVALID for a
// bound function.
//
// one must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_on(farcall_function *function,
    size_t number,
    farcall_function *FARCALL_NULLABLE *FARCALL_NONNULL one);

// Stores the function bound to the process of a pipeline, to which farcall_function_submit submits its calls. FARCALL_INVALID if the
// function belongs to another process.
//
// over must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_over(farcall_function *function,
    farcall_pipeline *pipeline,
    farcall_function *FARCALL_NULLABLE *FARCALL_NONNULL over);

// Submits a call to the pipeline of the function (farcall_function_over), as farcall_pipeline_submit: on_result receives its outcome. If
// this function returns an error, nothing was submitted, and on_result is not called. May be NULL: arguments.
//
// The arguments must be readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_submit(farcall_function *function,
    const farcall_value *FARCALL_NULLABLE arguments,
    size_t count,
    farcall_on_result on_result,
    void *FARCALL_NULLABLE context);

// As farcall_pipeline_cancel, for calls of the function's pipeline.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_function_cancel(
    farcall_function *function,
    void *FARCALL_NULLABLE context);

// Stores the address of a function in the present process.
//
// address must be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_function_address(
    farcall_function *function,
    uint64_t *address);

// Stores a pointer to a function that is linked in this process (in_process of farcall_executor_options). A call by it is a call of
// native code, on any thread: farcall takes no part. FARCALL_INVALID if the function is in another process.
//
// Nothing is to be freed. The pointer stays valid while the executor is open and the code is there: until farcall_library_clear,
// a redirection that removes the code, farcall_executor_kill or farcall_executor_close. These wait for no call by a pointer. It
// outlives farcall_function_dispose and farcall_library_dispose. In a forked child it is valid while the parent keeps the code.
//
// The function must not throw. An error of a handler in such a call ends the host, unless it is a status.
//
// pointer must be writable. A call by the pointer must be of the function's type.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_function_pointer(farcall_function *function,
    farcall_any_function FARCALL_NULLABLE *FARCALL_NONNULL pointer);

// Stores the prototype of a function, to be freed with farcall_text_free.
//
// prototype must be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_function_prototype(
    farcall_function *function,
    char *FARCALL_NULLABLE *FARCALL_NONNULL prototype);

// Frees a function. Calls under way go to their end. May be NULL: function.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_function_dispose(
    farcall_function *FARCALL_NULLABLE function);

// Frees the handle of a process with all that belongs to it: dylibs, functions by address, pipelines and handlers. So it does with
// memory that was not finalized, and with regions that were attached by the handle. Calls that were submitted complete with
// FARCALL_DISCONNECTED, on this thread. The process itself runs on. May be NULL: process.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_dispose(farcall_process *FARCALL_NULLABLE process);

// Ends the process as exit(status) ends a program, and stores the exit status of the process. The handle stays.
//
// exit_status must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_exit(farcall_process *process,
    int status,
    int *exit_status);

// Kills the process at once. Calls under way fail with FARCALL_DIED. Does nothing when it has ended. The handle stays.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_kill(farcall_process *process);

// How the process died, as an error of the code FARCALL_DIED; NULL while it runs. Sends no message.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_process_death(farcall_process *process);

// Stores the number of the executor's process; 0 when it has ended.
//
// pid must be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_process_pid(farcall_process *process, int32_t *pid);

// Stores the executor's target triple, to be freed with farcall_text_free.
//
// triple must be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_process_triple(
    farcall_process *process,
    char *FARCALL_NULLABLE *FARCALL_NONNULL triple);

// Stores a line that tells what the kernel enforces on the executor and what it lacks, to be freed with farcall_text_free.
//
// text must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_confinement(farcall_process *process,
    char *FARCALL_NULLABLE *FARCALL_NONNULL text);

// Stores the size of a page of the executor.
//
// bytes must be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_process_page_bytes(
    farcall_process *process,
    uint64_t *bytes);

// Stores the address that the executor itself offers under a name, as its functions for LLVM's controllers. FARCALL_SYMBOLS if it
// offers none. Sends no message. For linked code and libraries see farcall_dylib_lookup.
//
// The name must be a text, and address writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_symbol(farcall_process *process,
    const char *name,
    uint64_t *address);

// Calls visit for each name that the executor itself offers, on this thread, in the order of the names.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_each_symbol(farcall_process *process,
    farcall_visit_symbol visit,
    void *FARCALL_NULLABLE context);

// Calls visit for each number that the executor offers, on this thread, in the order of the names.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_each_value(farcall_process *process,
    farcall_visit_value visit,
    void *FARCALL_NULLABLE context);

// Calls the wrapper function at an address of the executor with a copy of the arguments, and waits for its result, which the
// caller owns. Any number of threads may call at the same time; each has a thread of its own in the executor.
//
// Handlers that linked code calls meanwhile run on this thread. FARCALL_REMOTE is the function's own error. May be NULL: args.
//
// The arguments must be readable, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_call(farcall_process *process,
    uint64_t function,
    const void *FARCALL_NULLABLE args,
    size_t size,
    farcall_buffer *result);

// As farcall_process_call, up to a time, or watched. May be NULL: options, args.
//
// The options and the arguments must be readable, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_call_with(farcall_process *process,
    uint64_t function,
    const farcall_call_options *FARCALL_NULLABLE options,
    const void *FARCALL_NULLABLE args,
    size_t size,
    farcall_buffer *result);

// Copies size bytes of the executor's memory. FARCALL_REMOTE if they cannot be read; the executor continues. Sends one message.
//
// data must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_read(farcall_process *process,
    uint64_t address,
    void *data,
    size_t size);

// Writes a copy of size bytes into the executor's memory. FARCALL_REMOTE if that cannot be written; the executor continues. Sends
// one message.
//
// data must be readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_write(farcall_process *process,
    uint64_t address,
    const void *data,
    size_t size);

// Stores where this program reads and writes the executor's memory from an address on, and how many bytes both processes map
// there. FARCALL_INVALID if it is no memory for linked code: read and write that with messages. Sends no message.
//
// The bytes stay mapped until the executor is closed. Linked code may write them at any moment. May be NULL: bytes.
//
// working and bytes must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_shared_memory(farcall_process *process,
    uint64_t address,
    void *FARCALL_NULLABLE *FARCALL_NONNULL working,
    uint64_t *FARCALL_NULLABLE bytes);

// Opens a pipeline. If is_polled is true, completions run within farcall_pipeline_poll; otherwise as tasks of the executor's
// dispatcher.
//
// pipeline must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_pipeline_open(farcall_process *process,
    bool is_polled,
    farcall_pipeline *FARCALL_NULLABLE *FARCALL_NONNULL pipeline);

// Submits a call of the wrapper function at an address of the executor, with a copy of the arguments. on_complete receives its
// outcome. If this function returns an error, nothing was submitted, and on_complete is not called. May be NULL: args.
//
// The arguments must be readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_pipeline_submit(farcall_pipeline *pipeline,
    uint64_t function,
    const void *FARCALL_NULLABLE args,
    size_t size,
    farcall_on_complete on_complete,
    void *FARCALL_NULLABLE context);

// Cancels the calls of a pipeline that were submitted with this context, from any thread, and does not wait for their ends. A call that
// runs is interrupted, and its process lives on; a call that waits does not begin. Both complete with FARCALL_INTERRUPTED. Calls that have
// ended, and other calls, are left alone. The context is compared, and not used. FARCALL_INVALID for a call that runs in this process.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_pipeline_cancel(farcall_pipeline *pipeline,
    void *FARCALL_NULLABLE context);

// Receives the results that have come, without waiting, and completes their calls on this thread. Stores how many completed. Any
// thread may poll. FARCALL_INVALID if the pipeline is not polled.
//
// completed must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_pipeline_poll(farcall_pipeline *pipeline,
    size_t *completed);

// Closes a pipeline. Calls without an outcome are cancelled in the executor; here they complete with FARCALL_DISCONNECTED, on this thread,
// before this function returns. May be NULL: pipeline.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_pipeline_close(farcall_pipeline *FARCALL_NULLABLE pipeline);

// Registers a handler, and stores its tag, never 0, which is to be passed to linked code. The context must live until the session
// ends, or until the handler is removed and no call of it runs.
//
// tag must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_register_handler(farcall_process *process,
    farcall_tag_handler handler,
    void *FARCALL_NULLABLE context,
    uint64_t *tag);

// Removes a handler. Later calls of its tag are refused; calls under way run to their end.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_process_remove_handler(
    farcall_process *process,
    uint64_t tag);

// Sets the handler of all tags that no registered handler has, once for each process. LLVM's code uses addresses as tags.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_handle_other_tags(farcall_process *process,
    farcall_tag_handler handler,
    void *FARCALL_NULLABLE context);

// Answers a call of a handler, on any thread. Takes the result; an out-of-band error is the error of linked code's call.
// FARCALL_INVALID if the call has an answer, or the session is over.
//
// The result must be the caller's.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_answer(farcall_process *process,
    uint64_t call_id,
    farcall_buffer result);

// Makes a region of this many bytes, zero at first. If is_read_only is true, a store of linked code ends the executor; this
// program may write. Pages take memory when they are touched.
//
// region must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_region_create(uint64_t bytes,
    bool is_read_only,
    farcall_region *FARCALL_NULLABLE *FARCALL_NONNULL region);

// Stores where the region is in this program, and its size. The bytes stay mapped until farcall_region_dispose. Linked code may
// write them at any moment: use atomics for what both sides write, or wait for calls. May be NULL: bytes.
//
// data and bytes must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_region_data(farcall_region *region,
    void *FARCALL_NULLABLE *FARCALL_NONNULL data,
    uint64_t *FARCALL_NULLABLE bytes);

// Makes an executor map the region, and stores the executor's address of its first byte. That is the address in this program, so
// addresses in the region are right on both sides. If is_anywhere is true, it is another one where other memory is there.
// Sends one message. A region may be attached to several executors, to each once.
//
// address must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_region_attach(farcall_region *region,
    farcall_process *process,
    bool is_anywhere,
    uint64_t *address);

// Makes an executor unmap the region. Linked code must not use it then. Sends one message.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_region_detach(
    farcall_region *region,
    farcall_process *process);

// Takes the memory of a part of the region now. Without this a page is taken when it is first touched, and if the system has no memory
// left then, it kills a process.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_region_populate(farcall_region *region,
    size_t offset,
    size_t bytes);

// Takes the memory of a part of the region now, in pages of 2 MiB. FARCALL_SYSTEM if the system has none.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_region_use_large_pages(farcall_region *region,
    size_t offset,
    size_t bytes);

// Gives the whole pages of a part of the region back to the system. They are zero then.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_region_discard(
    farcall_region *region,
    size_t offset,
    size_t bytes);

// Allocates a block of the region's heap, and stores its offset. All of the region is the heap: a program that places data itself
// allocates nothing. The bytes are zero, or those of an earlier block. alignment is a power of two. FARCALL_LIMIT if no free
// part is large enough.
//
// offset must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_region_allocate(farcall_region *region,
    size_t size,
    size_t alignment,
    uint64_t *offset);

// Frees the block at an offset, which farcall_region_allocate has stored. Linked code must not use it then.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_region_free(
    farcall_region *region,
    uint64_t offset);

// Unmaps the region here. Executors that have it attached keep it until they end. No thread may use its bytes then. May be NULL:
// region.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_region_dispose(farcall_region *FARCALL_NULLABLE region);

// Reserves memory in the executor, at least this many bytes of each protection, rounded up to pages. The last zero_fill bytes of the
// data are zero; if they are many, they take memory when they are touched. Sends no message, unless all memory for linked code is
// used up. FARCALL_LIMIT if there is no more.
//
// memory must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_memory_reserve(farcall_process *process,
    farcall_sizes sizes,
    uint64_t zero_fill,
    farcall_memory *FARCALL_NULLABLE *FARCALL_NONNULL memory);

// Stores where the part with a protection (a farcall_protection) is. Its bytes are zero, or those of earlier memory: write all of the
// used bytes that code will read.
//
// part must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_memory_part(farcall_memory *memory,
    uint32_t protection,
    farcall_part *part);

// Names functions in memory: messages about crashes say them, with the name of an object. The names go with the memory. A second
// list takes the place of the first one. Sends no message. May be NULL: functions.
//
// The names must be texts, and the functions readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_memory_name_functions(farcall_memory *memory,
    const char *object,
    const farcall_function_name *FARCALL_NULLABLE functions,
    size_t count);

// Makes memory usable: the next call may run its code. Stores its base, which farcall_process_deallocate takes. Frees the handle,
// also if this fails. The actions are posted ahead of the next call, which fails if a finalize action fails. Memory that only
// finalize actions use can be deallocated when that call has returned. May be NULL: actions.
//
// The actions and their arguments must be readable, and base writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_memory_finalize(farcall_memory *memory,
    const farcall_action *FARCALL_NULLABLE actions,
    size_t count,
    uint64_t *base);

// Frees memory that was not finalized. May be NULL: memory.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_memory_abandon(
    farcall_memory *FARCALL_NULLABLE memory);

// Runs the dealloc actions of finalized memory, by the bases that farcall_memory_finalize has stored, and frees it. None of its code
// may be running. Sends one message for all if any has actions, else none. If one fails, the rest is still freed. May be
// NULL: bases.
//
// The bases must be readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_process_deallocate(farcall_process *process,
    const uint64_t *FARCALL_NULLABLE bases,
    size_t count);

// Creates an empty dylib. Its name, which no other dylib of the process has, appears in messages.
//
// The name must be a text, and dylib writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_create(farcall_process *process,
    const char *name,
    farcall_dylib *FARCALL_NULLABLE *FARCALL_NONNULL dylib);

// Makes a dylib search another dylib of the same process, before the executor's process.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_dylib_add_to_link_order(
    farcall_dylib *dylib,
    farcall_dylib *other);

// Adds an ELF object from memory, of which this function makes a copy. Its name appears in messages. The tracker owns it; NULL is the
// dylib's default tracker. FARCALL_SYMBOLS if the dylib defines one of its symbols already. May be NULL: tracker.
//
// The name must be a text, and the bytes readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_add_object(farcall_dylib *dylib,
    farcall_tracker *FARCALL_NULLABLE tracker,
    const char *name,
    const void *data,
    size_t size);

// Adds an ELF object from a file, as farcall_dylib_add_object. May be NULL: tracker.
//
// The path must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_add_object_file(farcall_dylib *dylib,
    farcall_tracker *FARCALL_NULLABLE tracker,
    const char *path);

// Adds an archive from memory, of which this function makes a copy. Its members are linked when they define a missing symbol.
//
// The name must be a text, and the bytes readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_add_archive(farcall_dylib *dylib,
    const char *name,
    const void *data,
    size_t size);

// Adds an archive from a file, as farcall_dylib_add_archive. A thin archive is read from the folder that it lies in.
//
// The path must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_add_archive_file(farcall_dylib *dylib,
    const char *path);

// Defines a name as an address of the executor. FARCALL_SYMBOLS if the dylib defines the name already.
//
// The name must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_define(farcall_dylib *dylib,
    const char *name,
    uint64_t address);

// Looks a symbol up, links the objects that it needs, and stores its address. FARCALL_SYMBOLS names the symbols that are missing.
//
// The name must be a text, and address writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_lookup(farcall_dylib *dylib,
    const char *name,
    uint64_t *address);

// Looks count symbols up at once, and stores their addresses in the order of the names. Stores all or none. May be NULL: names,
// addresses.
//
// The names must be texts, and there must be as many writable addresses.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_lookup_many(farcall_dylib *dylib,
    const char *FARCALL_NULLABLE const *FARCALL_NULLABLE names,
    size_t count,
    uint64_t *FARCALL_NULLABLE addresses);

// Runs the initializers (static constructors) of the objects in a dylib, each once. Links those objects first.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_initialize(farcall_dylib *dylib);

// Removes all code of a dylib, with that of its trackers: runs exit handlers, and frees the memory. None of the code may be running.
// The dylib stays, empty.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_dylib_clear(farcall_dylib *dylib);

// Removes a dylib and all its code, as farcall_dylib_clear. May be NULL: dylib.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_dylib_remove(farcall_dylib *FARCALL_NULLABLE dylib);

// Creates a tracker, which owns nothing yet.
//
// tracker must be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_tracker_create(
    farcall_dylib *dylib,
    farcall_tracker *FARCALL_NULLABLE *FARCALL_NONNULL tracker);

// Removes the objects of a tracker from the dylib: runs exit handlers, and frees the memory. None of the code may be running. Frees
// the tracker. May be NULL: tracker.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_tracker_remove(farcall_tracker *FARCALL_NULLABLE tracker);

// Frees a tracker, whose objects go to another one of the same dylib; NULL is the dylib's default tracker. May be NULL: to.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_tracker_transfer(farcall_tracker *tracker,
    farcall_tracker *FARCALL_NULLABLE to);

// Begins a link of an ELF object from memory, of which this function makes a copy. Its name appears in messages. If is_debuggable is
// true, debuggers of the executor see its debug information.
//
// The name must be a text, the bytes readable, and link writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_create(farcall_process *process,
    const char *name,
    const void *data,
    size_t size,
    bool is_debuggable,
    farcall_link *FARCALL_NULLABLE *FARCALL_NONNULL link);

// Calls visit for each name that the object defines for others, on this thread, before the link is finished.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_each_definition(farcall_link *link,
    farcall_visit_definition visit,
    void *FARCALL_NULLABLE context);

// Calls visit for each name that the object needs from elsewhere, on this thread, before the object is placed. Call it when the weak
// definitions from elsewhere are defined.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_each_reference(farcall_link *link,
    farcall_visit_reference visit,
    void *FARCALL_NULLABLE context);

// Defines a name as the host's. A weak definition of the object is dropped then. The address is any one of the executor, or a
// thread-local's of another link. It is 0 if farcall_link_locate will tell it. is_callable is true for a function.
//
// The name must be a text.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_define(farcall_link *link,
    const char *name,
    uint64_t address,
    bool is_callable);

// Lays the object out and allocates its memory. Sends one message if it refers to thread-locals that the host has not defined.
// FARCALL_LINK or FARCALL_SYMBOLS names what is missing.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_place(farcall_link *link);

// Tells the address of a name that was defined without one.
//
// The name must be a text.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_link_locate(
    farcall_link *link,
    const char *name,
    uint64_t address);

// Makes the code usable, and stores whether it has initializers. Its registration is posted ahead of the next call, which fails if that
// fails. In this process (in_process) it has run when this function returns, so pointers to the code may be used.
//
// has_initializers must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_finish(farcall_link *link,
    bool *has_initializers);

// Runs the initializers (static constructors) of a finished link, once, as a call with these options. May be NULL: options.
//
// The options must be readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_initialize(farcall_link *link,
    const farcall_call_options *FARCALL_NULLABLE options);

// Runs the exit handlers and finalizers of a finished link now. Otherwise farcall_link_remove does.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_link_deinitialize(farcall_link *link);

// Removes the code of links of one process, whatever their step: runs exit handlers, and frees the memory and the handles. None of the
// code may be running. Sends one message for all at most. May be NULL: links.
//
// The links must be readable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_link_remove(farcall_link *FARCALL_NULLABLE const *FARCALL_NULLABLE links,
    size_t count);

// Attaches to the executor at the other end of a connected stream socket. Takes the socket. Waits for the executor's setup for at
// most timeout_ms milliseconds; 0 is 10 s.
//
// If is_shared is true, this function makes a lane in shared memory and sends it over the socket, which must be a Unix socket.
// Otherwise it uses the socket itself.
//
// client must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_client_attach(int socket,
    bool is_shared,
    uint64_t timeout_ms,
    farcall_client *FARCALL_NULLABLE *FARCALL_NONNULL client);

// As farcall_client_attach, over two pipes. Takes the pipes.
//
// client must be writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_client_attach_pipes(int reader,
    int writer,
    uint64_t timeout_ms,
    farcall_client *FARCALL_NULLABLE *FARCALL_NONNULL client);

// Stores the executor's target triple, which the caller frees (farcall_text_free).
//
// The client must live, and triple be writable.
FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_client_triple(
    const farcall_client *client,
    char *FARCALL_NULLABLE *FARCALL_NONNULL triple);

// Stores the address that the executor offers under a name. FARCALL_SYMBOLS if it offers none. Sends no message.
//
// The client must live, the name be a text, and address writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_client_symbol(const farcall_client *client,
    const char *name,
    uint64_t *address);

// Registers the handler of a tag, in place of an earlier one. The context must live until the client is closed.
//
// The client must live.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_client_register_handler(farcall_client *client,
    uint64_t tag,
    farcall_client_handler handler,
    void *FARCALL_NULLABLE context);

// Calls a wrapper function with a copy of the arguments, and waits for its result, which the caller owns. FARCALL_REMOTE is the
// function's own error; LLVM's executor cannot report one, and the result is empty then. May be NULL: args.
//
// Waits for at most timeout_ms milliseconds; 0 is no limit. FARCALL_TIMEOUT if the function has not returned by then: it still runs,
// and the next call waits for its end. A handler's call has no limit.
//
// The client must live, the arguments be readable, and result writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_client_call(const farcall_client *client,
    uint64_t function,
    const void *FARCALL_NULLABLE args,
    size_t size,
    uint64_t timeout_ms,
    farcall_buffer *result);

// Serves calls of the executor while no call of the client is under way. Waits up to timeout_ms milliseconds for one, and serves
// it and those behind it. Sets calls to their number. Not for handlers. May be NULL: calls.
//
// The client must live, and calls be NULL or writable.
FARCALL_NODISCARD
farcall_error *FARCALL_NULLABLE farcall_client_attend(const farcall_client *client,
    uint64_t timeout_ms,
    uint64_t *FARCALL_NULLABLE calls);

// Ends the connection in order, if it is not over, and releases the client. The executor continues without a controller, or ends,
// as its program wants. A handler of the client cannot close it. May be NULL: client.
//
// The client must live, and not be used again.
farcall_error *FARCALL_NULLABLE farcall_client_close(farcall_client *FARCALL_NULLABLE client);

// Completes a service. The session then calls the next one. May be NULL: done.
//
// Must come from the session, and be given back once.
void farcall_done_complete(farcall_done *FARCALL_NULLABLE done);

// Calls the controller's handler with this tag. Takes the arguments. on_complete is called exactly once: as a task, or at once
// on this thread if the call cannot be made. May be NULL: on_complete.
//
// The arguments must be the caller's.
void farcall_session_call_controller(farcall_session *session,
    uint64_t tag,
    farcall_buffer args,
    farcall_completion FARCALL_NULLABLE on_complete,
    void *FARCALL_NULLABLE context);

// As farcall_session_call_controller, but waits for the result. The result needs no task, so it comes even if every thread of
// the host waits here.
//
// The arguments must be the caller's.
FARCALL_NODISCARD
farcall_buffer farcall_session_call_controller_and_wait(farcall_session *session,
    uint64_t tag,
    farcall_buffer args);

// Options of a session that offers what every executor of this library does, and runs calls on threads of its own.
FARCALL_NODISCARD
farcall_options *farcall_options_create(void);

// Frees options that no function has taken. May be NULL: options.
//
// They must be the caller's.
void farcall_options_dispose(farcall_options *FARCALL_NULLABLE options);

// Makes the host run calls, completions and all other work that may wait: dispatch receives each as a task. May be NULL:
// dispatch.
//
// The options must be the caller's.
void farcall_options_dispatch(farcall_options *options,
    farcall_dispatch FARCALL_NULLABLE dispatch,
    void *FARCALL_NULLABLE context);

// Passes errors that belong to no call to the host, instead of writing them to standard error. May be NULL:
// on_error.
//
// The options must be the caller's.
void farcall_options_on_error(
    farcall_options *options,
    farcall_on_error FARCALL_NULLABLE on_error,
    void *FARCALL_NULLABLE context);

// Calls the host, once, when the session has lost its controller. May be NULL: on_disconnect.
//
// The options must be the caller's.
void farcall_options_on_disconnect(farcall_options *options,
    farcall_on_disconnect FARCALL_NULLABLE on_disconnect,
    void *FARCALL_NULLABLE context);

// Sets the longest wait for a shutdown. After that the waiting function returns an error that names what still runs. Without
// this option the wait has no limit.
//
// The options must be the caller's.
void farcall_options_grace_ms(farcall_options *options,
    uint64_t grace_ms);

// Offers the controller an address under a name. May be NULL: address.
//
// The options must be the caller's, and the name a text.
void farcall_options_symbol(farcall_options *options, const char *name, const void *FARCALL_NULLABLE address);

// Sends the controller a copy of size bytes under a name. May be NULL: data.
//
// The options must be the caller's, the name a text, and the bytes readable.
void farcall_options_value(
    farcall_options *options,
    const char *name,
    const void *FARCALL_NULLABLE data,
    size_t size);

// Offers the controller a function under a name. It is called with the session.
//
// The options must be the caller's, and the name a text.
void farcall_options_function(farcall_options *options, const char *name, farcall_wrapper_function function);

// Sets the form in which linked code is called. If with_session is true, it is that of farcall_wrapper_function, as in LLVM's runtime.
// Otherwise, and by default, it is that of LLVM 22: struct farcall_buffer f(const char *data, size_t size). Linked code gets the
// address of the session instead of its number. The functions here accept that address while the session lives.
//
// The options must be the caller's.
void farcall_options_linked_code(farcall_options *options,
    bool with_session);

// Adds a service. When the session ends, it calls on_detach and then on_shutdown, once each. It calls services in reverse order
// of addition, each after the one before is done. May be NULL: on_detach, on_shutdown.
//
// The options must be the caller's, and the name a text.
void farcall_options_service(farcall_options *options,
    const char *name,
    farcall_on_detach FARCALL_NULLABLE on_detach,
    farcall_on_shutdown FARCALL_NULLABLE on_shutdown,
    void *FARCALL_NULLABLE context);

// Creates a session. Takes the options, even if this fails.
//
// The options must be the caller's, and session must be writable.
farcall_error *FARCALL_NULLABLE farcall_session_create(
    farcall_options *options,
    farcall_session *FARCALL_NULLABLE *FARCALL_NONNULL session);

// Attaches the controller at the other end of a connected stream socket. Takes the socket. A session can attach once.
farcall_error *FARCALL_NULLABLE farcall_session_attach_socket(farcall_session *session,
    int socket);

// Attaches the controller at the other ends of two pipes. Takes the pipes.
farcall_error *FARCALL_NULLABLE farcall_session_attach_pipes(
    farcall_session *session,
    int reader,
    int writer);

// Attaches the controller that listens on the Unix socket of this name.
//
// The name must be a text.
farcall_error *FARCALL_NULLABLE farcall_session_attach_name(farcall_session *session, const char *name);

// Attaches the controller at the other end of a connected Unix stream socket over a lane in shared memory. Takes the socket, and
// waits for the lane's descriptor, which the controller sends over it. Calls of the session reach the controller inside of its
// own calls, or while it attends.
farcall_error *FARCALL_NULLABLE farcall_session_attach_shared(farcall_session *session,
    int socket);

// As farcall_session_attach_shared, with the controller that listens on the Unix socket of this name.
//
// The name must be a text.
farcall_error *FARCALL_NULLABLE farcall_session_attach_shared_name(
    farcall_session *session,
    const char *name);

// Ends the connection to the controller. Managed code continues. on_detach is called once, after all services are detached; at
// once if they are detached already. May be NULL: on_detach.
farcall_error *FARCALL_NULLABLE farcall_session_detach(farcall_session *session,
    farcall_notify FARCALL_NULLABLE on_detach,
    void *FARCALL_NULLABLE context);

// Starts the shutdown: the session detaches, waits for managed code to end and releases everything. This function does not block.
// on_shutdown is called once, after the shutdown; at once if the session is shut down already. May be NULL: on_shutdown.
farcall_error *FARCALL_NULLABLE farcall_session_shutdown(farcall_session *session,
    farcall_notify FARCALL_NULLABLE on_shutdown,
    void *FARCALL_NULLABLE context);

// Waits until the session is shut down, by any thread. Returns an error if the grace period ends first, or on a thread that runs
// a call of this session.
farcall_error *FARCALL_NULLABLE farcall_session_wait(farcall_session *session);

// Shuts the session down, waits as farcall_session_wait does, and releases the session. Its number is invalid afterwards. If the
// wait fails, managed code continues to run, and its answers are dropped. Does nothing for NULL. May be NULL: session.
farcall_error *FARCALL_NULLABLE farcall_session_dispose(farcall_session *FARCALL_NULLABLE session);

// Delays the shutdown while managed code runs in this thread. Returns NULL if the shutdown has begun: then no managed code may
// be entered. The error of a wait that times out names this code by what. May be NULL: the result, what.
//
// what must be a text.
FARCALL_NODISCARD
farcall_keepalive *FARCALL_NULLABLE farcall_session_keepalive(farcall_session *session,
    const char *FARCALL_NULLABLE what);

// Releases a keepalive, after the managed code has ended. May be NULL: keepalive.
//
// It must come from farcall_session_keepalive, and be released once.
void farcall_keepalive_release(farcall_keepalive *FARCALL_NULLABLE keepalive);

// Reports an error that belongs to no call, as the session does itself. Takes the error. May be NULL: error.
//
// The error must be the caller's.
void farcall_session_report_error(farcall_session *session, farcall_error *FARCALL_NULLABLE error);

// Creates an executor for the controller at the other end of a connected Unix socket. It offers what every executor of this
// library does, and the symbols of the options.
//
// - If is_shared is true, it waits for a lane in shared memory, which the controller sends; otherwise it uses the socket itself.
// - It takes the options. They may set symbols only.
// - It takes the socket. No copy of the descriptor may stay open in this process.
// - Functions among the symbols have the form of LLVM 22: struct farcall_buffer f(const char *data, size_t size).
//
// May be NULL: options.
//
// The options must be the caller's, and polled must be writable.
farcall_error *FARCALL_NULLABLE farcall_polled_create(farcall_options *FARCALL_NULLABLE options,
    int socket,
    bool is_shared,
    farcall_polled *FARCALL_NULLABLE *FARCALL_NONNULL polled);

// The descriptor for the host's event loop. When it is readable, poll. The host must not read or close it. -1 for NULL.
//
// polled must be of this thread.
int farcall_polled_descriptor(const farcall_polled *polled);

// Serves the waiting calls, at most 64, and calls that arrive within linger_ns nanoseconds after the last one. Sets calls to their
// number. Returns an error, with the reason, if the connection is over and the controller did not end it in order. May be NULL:
// calls.
//
// polled must be of this thread, and calls NULL or writable.
farcall_error *FARCALL_NULLABLE farcall_polled_poll(farcall_polled *polled,
    uint64_t linger_ns,
    size_t *FARCALL_NULLABLE calls);

// True when the connection is over, and for NULL.
//
// polled must be of this thread.
bool farcall_polled_has_ended(const farcall_polled *polled);

// Ends the connection, if it is not over, and releases everything. May be NULL: polled.
//
// polled must be of this thread.
void farcall_polled_dispose(farcall_polled *FARCALL_NULLABLE polled);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#ifdef __clang__
#pragma clang assume_nonnull end
#pragma clang diagnostic pop
#endif

#endif  /* FARCALL_H */
