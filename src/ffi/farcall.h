// farcall in C: a program that embeds a session, is attached by a controller, and serves its calls; or polls for them.
//
// Threads: every function may be called from any thread, except the functions of a polled executor, which belongs to one thread.
// The library calls functions of the host from any thread; they must not throw.
// Sessions: a farcall_session pointer is a number. If its session is over or never existed, functions return an error.
// Ownership: a function that takes a pointer says so; the caller must not use that pointer afterwards.
// Errors: NULL is success.
//
// Memory in buffers and texts comes from malloc. Link with libfarcall_ffi.a -lpthread -ldl -lm, or -lfarcall_ffi.

#ifndef FARCALL_H
#define FARCALL_H

// Made by cbindgen of the Rust files in src/ffi: do not edit.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The completion of a service, to be given once.
typedef struct farcall_done farcall_done;

// The reason of a failure. The receiver owns it, and hands it on or frees it.
typedef struct farcall_error farcall_error;

// Delays the shutdown of a session.
typedef struct farcall_keepalive farcall_keepalive;

// The options of a session. The host owns them until a function takes them.
typedef struct farcall_options farcall_options;

// An executor that starts no thread and never waits by itself. It belongs to the thread that created it.
typedef struct farcall_polled farcall_polled;

// A session that this program embeds.
typedef struct farcall_session farcall_session;

// Something to do once, on any thread: the host runs it or drops it.
typedef struct farcall_task farcall_task;

// The bytes of a buffer of up to 8 bytes, or the address of the bytes of a larger one.
typedef union {
    // The bytes, from malloc. In a buffer of size 0: NULL, or the text of an out-of-band error.
    char *pointer;
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

// Receives the result of a call to the controller, and owns it. If the call failed, the result is an out-of-band error.
typedef void (*farcall_completion)(farcall_session *session, farcall_buffer result, void *context);

// Receives a task, which the host runs soon, on a thread that may wait. Run it inside of this function only if no task waits
// for a message.
typedef void (*farcall_dispatch)(farcall_task *task, void *context);

// Receives an error that belongs to no call, and owns it.
typedef void (*farcall_on_error)(farcall_session *session, farcall_error *error, void *context);

// The session has lost its controller. error is NULL after an orderly end, otherwise the reason, which this function owns. Must
// not block.
typedef void (*farcall_on_disconnect)(farcall_session *session, farcall_error *error, void *context);

// Answers the call with this number, once, on any thread. Takes the result.
typedef void (*farcall_return)(farcall_session *session, farcall_buffer result, uint64_t call_id);

// A function that the controller calls, as orc_rt_WrapperFunction. It owns the arguments, and answers by calling
// answer(session, result, call_id) exactly once, now or later.
typedef void (*farcall_function)(farcall_session *session,
                                 farcall_buffer args,
                                 farcall_return answer,
                                 uint64_t call_id);

// The controller has detached, and managed code may still run. Call farcall_done_complete(done), now or later, on any thread.
typedef void (*farcall_on_detach)(farcall_done *done, bool shutdown_requested, void *context);

// No managed code runs any more: release everything. Call farcall_done_complete(done), now or later, on any thread.
typedef void (*farcall_on_shutdown)(farcall_done *done, void *context);

// Called when the operation that it was passed to is done.
typedef void (*farcall_notify)(farcall_session *session, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// An empty buffer, which is also the result of a function without a result.
farcall_buffer farcall_buffer_empty(void);

// A buffer of size bytes, all zero. Ends the process if memory runs out.
farcall_buffer farcall_buffer_allocate(size_t size);

// A copy of size bytes at data.
//
// # Safety
//
// They must be readable.
farcall_buffer farcall_buffer_from_range(const void *data, size_t size);

// A copy of a text, its NUL included.
//
// # Safety
//
// It must be one.
farcall_buffer farcall_buffer_from_string(const char *text);

// An out-of-band error with a copy of this message.
//
// # Safety
//
// It must be a text.
farcall_buffer farcall_buffer_from_out_of_band_error(const char *message);

// Frees what the buffer points to, and leaves it empty.
//
// # Safety
//
// It must be a buffer of the caller's.
void farcall_buffer_dispose(farcall_buffer *buffer);

// The bytes of a buffer, which stay where they are until it is disposed of or moved.
//
// # Safety
//
// It must be a buffer.
char *farcall_buffer_data(farcall_buffer *buffer);

// The bytes of a buffer, to be read.
//
// # Safety
//
// It must be a buffer.
const char *farcall_buffer_const_data(const farcall_buffer *buffer);

// How many bytes a buffer has.
//
// # Safety
//
// It must be a buffer.
size_t farcall_buffer_size(const farcall_buffer *buffer);

// True for a buffer that has no bytes and is no error either.
//
// # Safety
//
// It must be a buffer.
bool farcall_buffer_is_empty(const farcall_buffer *buffer);

// The message of an out-of-band error, which is the buffer's; NULL for any other buffer.
//
// # Safety
//
// It must be a buffer.
const char *farcall_buffer_out_of_band_error(const farcall_buffer *buffer);

// An error of the host's own, with a copy of this message.
//
// # Safety
//
// It must be a text.
farcall_error *farcall_error_create(const char *message);

// The message of an error, to be freed with farcall_error_free_message. Takes the error. For NULL the message says that there
// is no error.
//
// # Safety
//
// The error must be the caller's.
char *farcall_error_to_string(farcall_error *error);

// Frees a message.
//
// # Safety
//
// It must come from farcall_error_to_string.
void farcall_error_free_message(char *message);

// Frees an error.
//
// # Safety
//
// The error must be the caller's, or NULL.
void farcall_error_consume(farcall_error *error);

// Ends the process if there is an error, after writing its message to standard error.
//
// # Safety
//
// The error must be the caller's, or NULL.
void farcall_error_cant_fail(farcall_error *error);

// True when no further call can complete: the session is over, or the connection.
//
// # Safety
//
// The error must be the caller's, or NULL.
bool farcall_error_is_disconnected(const farcall_error *error);

// True after a timeout.
//
// # Safety
//
// The error must be the caller's, or NULL.
bool farcall_error_is_timeout(const farcall_error *error);

// True when the caller's own arguments were refused, or what was called cannot be called now.
//
// # Safety
//
// The error must be the caller's, or NULL.
bool farcall_error_is_invalid_argument(const farcall_error *error);

// True for an error that farcall_error_create made.
//
// # Safety
//
// The error must be the caller's, or NULL.
bool farcall_error_is_hosts(const farcall_error *error);

// Runs a task, on this thread, and frees it.
//
// # Safety
//
// It must come from a dispatch function, and be run or dropped once.
void farcall_task_run(farcall_task *task);

// Frees a task without running it. A thread that waits for the task gets an error.
//
// # Safety
//
// It must come from a dispatch function, and be run or dropped once.
void farcall_task_drop(farcall_task *task);

// Completes a service. The session then calls the next one.
//
// # Safety
//
// Must come from the session, and be given back once.
void farcall_done_complete(farcall_done *done);

// Calls the controller's handler with this tag. Takes the arguments. on_complete is called exactly once: as a task, or at once
// on this thread if the call cannot be made.
//
// # Safety
//
// The arguments must be the caller's.
void farcall_session_call_controller(farcall_session *session,
                                     uint64_t tag,
                                     farcall_buffer args,
                                     farcall_completion on_complete,
                                     void *context);

// As farcall_session_call_controller, but waits for the result. The result needs no task, so it comes even if every thread of
// the host waits here.
//
// # Safety
//
// The arguments must be the caller's.
farcall_buffer farcall_session_call_controller_and_wait(farcall_session *session,
                                                        uint64_t tag,
                                                        farcall_buffer args);

// Options of a session that offers what every executor of this library does, and runs calls on threads of its own.
farcall_options *farcall_options_create(void);

// Frees options that no function has taken.
//
// # Safety
//
// They must be the caller's, or NULL.
void farcall_options_dispose(farcall_options *options);

// Makes the host run calls, completions and all other work that may wait: dispatch receives each as a task.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_dispatch(farcall_options *options, farcall_dispatch dispatch, void *context);

// Passes errors that belong to no call to the host, instead of writing them to standard error.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_on_error(farcall_options *options, farcall_on_error on_error, void *context);

// Calls the host, once, when the session has lost its controller.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_on_disconnect(farcall_options *options,
                                   farcall_on_disconnect on_disconnect,
                                   void *context);

// Sets the longest wait for a shutdown. After that the waiting function returns an error that names what still runs. Without
// this option the wait has no limit.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_grace_ms(farcall_options *options,
                              uint64_t grace_ms);

// Offers the controller an address under a name.
//
// # Safety
//
// The options must be the caller's, and the name a text.
void farcall_options_symbol(farcall_options *options, const char *name, const void *address);

// Sends the controller a copy of size bytes under a name.
//
// # Safety
//
// The options must be the caller's, the name a text, and the bytes readable.
void farcall_options_value(farcall_options *options, const char *name, const void *data, size_t size);

// Offers the controller a function under a name. It is called with the session.
//
// # Safety
//
// The options must be the caller's, and the name a text.
void farcall_options_function(farcall_options *options, const char *name, farcall_function function);

// Sets the form in which linked code is called. If with_session is true, it is that of farcall_function, as in LLVM's runtime.
// Otherwise, and by default, it is that of LLVM 22: struct farcall_buffer f(const char *data, size_t size). Linked code gets the
// address of the session instead of its number. The functions here accept that address while the session lives.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_linked_code(farcall_options *options,
                                 bool with_session);

// Adds a service. When the session ends, it calls on_detach and then on_shutdown, once each. It calls services in reverse order
// of addition, each after the one before is done. Either function may be NULL.
//
// # Safety
//
// The options must be the caller's, and the name a text.
void farcall_options_service(farcall_options *options,
                             const char *name,
                             farcall_on_detach on_detach,
                             farcall_on_shutdown on_shutdown,
                             void *context);

// Creates a session. Takes the options, even if this fails.
//
// # Safety
//
// The options must be the caller's, and session must be writable.
farcall_error *farcall_session_create(farcall_options *options, farcall_session **session);

// Attaches the controller at the other end of a connected stream socket. Takes the socket. A session can attach once.
farcall_error *farcall_session_attach_socket(farcall_session *session,
                                             int socket);

// Attaches the controller at the other ends of two pipes. Takes the pipes.
farcall_error *farcall_session_attach_pipes(farcall_session *session, int reader, int writer);

// Attaches the controller that listens on the Unix socket of this name.
//
// # Safety
//
// The name must be a text.
farcall_error *farcall_session_attach_name(farcall_session *session, const char *name);

// Attaches the controller at the other end of a connected Unix stream socket over a lane in shared memory. Takes the socket, and
// waits for the lane's descriptor, which the controller sends over it. Calls of the session reach the controller inside of its
// own calls, or while it attends.
farcall_error *farcall_session_attach_shared(farcall_session *session,
                                             int socket);

// As farcall_session_attach_shared, with the controller that listens on the Unix socket of this name.
//
// # Safety
//
// The name must be a text.
farcall_error *farcall_session_attach_shared_name(farcall_session *session, const char *name);

// Ends the connection to the controller. Managed code continues. on_detach, which may be NULL, is called once, after all services
// are detached; at once if they are detached already.
farcall_error *farcall_session_detach(farcall_session *session,
                                      farcall_notify on_detach,
                                      void *context);

// Starts the shutdown: the session detaches, waits for managed code to end and releases everything. This function does not block.
// on_shutdown, which may be NULL, is called once, after the shutdown; at once if the session is shut down already.
farcall_error *farcall_session_shutdown(farcall_session *session,
                                        farcall_notify on_shutdown,
                                        void *context);

// Waits until the session is shut down, by any thread. Returns an error if the grace period ends first, or on a thread that runs
// a call of this session.
farcall_error *farcall_session_wait(farcall_session *session);

// Shuts the session down, waits as farcall_session_wait does, and releases the session. Its number is invalid afterwards. If the
// wait fails, managed code continues to run, and its answers are dropped. Does nothing for NULL.
farcall_error *farcall_session_dispose(farcall_session *session);

// Delays the shutdown while managed code runs in this thread. Returns NULL if the shutdown has begun: then no managed code may
// be entered. The error of a wait that times out names this code by what.
//
// # Safety
//
// what must be a text.
farcall_keepalive *farcall_session_keepalive(farcall_session *session,
                                             const char *what);

// Releases a keepalive, after the managed code has ended.
//
// # Safety
//
// It must come from farcall_session_keepalive, and be released once; NULL is fine.
void farcall_keepalive_release(farcall_keepalive *keepalive);

// Reports an error that belongs to no call, as the session does itself. Takes the error.
//
// # Safety
//
// The error must be the caller's.
void farcall_session_report_error(farcall_session *session, farcall_error *error);

// Creates an executor for the controller at the other end of a connected Unix socket. It offers what every executor of this
// library does, and the symbols of the options.
//
// - If is_shared is true, it waits for a lane in shared memory, which the controller sends; otherwise it uses the socket itself.
// - It takes the options, which may be NULL. They may set symbols only.
// - It takes the socket. No copy of the descriptor may stay open in this process.
// - Functions among the symbols have the form of LLVM 22: struct farcall_buffer f(const char *data, size_t size).
//
// # Safety
//
// The options must be the caller's, and polled must be writable.
farcall_error *farcall_polled_create(farcall_options *options,
                                     int socket,
                                     bool is_shared,
                                     farcall_polled **polled);

// The descriptor for the host's event loop. When it is readable, poll. The host must not read or close it.
//
// # Safety
//
// polled must be of this thread.
int farcall_polled_descriptor(const farcall_polled *polled);

// Serves the waiting calls, at most 64, and calls that arrive within linger_ns nanoseconds after the last one. Sets calls, which
// may be NULL, to their number. Returns an error, with the reason, if the connection is over and the controller did not end it
// in order.
//
// # Safety
//
// polled must be of this thread, and calls NULL or writable.
farcall_error *farcall_polled_poll(farcall_polled *polled,
                                   uint64_t linger_ns,
                                   size_t *calls);

// True when the connection is over.
//
// # Safety
//
// polled must be of this thread.
bool farcall_polled_has_ended(const farcall_polled *polled);

// Ends the connection, if it is not over, and releases everything.
//
// # Safety
//
// polled must be of this thread, or NULL.
void farcall_polled_dispose(farcall_polled *polled);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FARCALL_H */
