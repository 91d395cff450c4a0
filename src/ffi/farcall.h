// farcall in C: a program that embeds a session, is attached by a controller, and serves its calls; or polls for them.
//
// Every function may be called from any thread, except those of a polled executor, which belongs to one thread. Functions of the
// host are called from any thread too, and must not throw. A session is a number behind a pointer type: a session that is over, or
// never was, costs an error and nothing else.
// Other pointers are handed over where the comments say so, and are invalid then. A NULL error means success.
//
// Memory in buffers and texts comes from malloc. Link with libfarcall_ffi.a -lpthread -ldl -lm, or -lfarcall_ffi.

#ifndef FARCALL_H
#define FARCALL_H

// Made by cbindgen of the Rust files in src/ffi: do not edit.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Says that a service is done, once.
typedef struct farcall_done farcall_done;

// Why something failed. The receiver owns it, and passes it on or frees it.
typedef struct farcall_error farcall_error;

// Holds the shutdown of a session up.
typedef struct farcall_keepalive farcall_keepalive;

// What a session is made with. Belongs to the host until a session is made of it.
typedef struct farcall_options farcall_options;

// An executor that starts no thread and never waits by itself. It belongs to the thread that made it.
typedef struct farcall_polled farcall_polled;

// A session that this program embeds.
typedef struct farcall_session farcall_session;

// Something to do once, on any thread: the host runs it or drops it.
typedef struct farcall_task farcall_task;

// The bytes of a buffer that has up to 8, the address of those of a larger one.
typedef union {
    // The bytes, from malloc. In a buffer of size 0 it is NULL, or the text of an out-of-band error.
    char *pointer;
    // Up to 8 bytes.
    char bytes[8];
} farcall_buffer_value;

// Arguments or a result, as orc_rt_WrapperFunctionBuffer: empty, up to 8 bytes in place, more from malloc, or an out-of-band
// error. The holder of a value owns what it points to: dispose of it, or pass it on.
typedef struct {
    // Where the bytes are.
    farcall_buffer_value value;
    // How many there are.
    size_t size;
} farcall_buffer;

// Is told how a call of the controller ended. Takes the result, which is an out-of-band error where there is none.
typedef void (*farcall_completion)(farcall_session *session, farcall_buffer result, void *context);

// Receives a task, which is to be run soon, by a thread that may wait. It must not run inside of this function, unless the
// host knows that no task waits for a message.
typedef void (*farcall_dispatch)(farcall_task *task, void *context);

// Receives an error that answers no call, and owns it.
typedef void (*farcall_on_error)(farcall_session *session, farcall_error *error, void *context);

// The session has no controller any more: error is NULL for an orderly end, or why, for good. Must not block.
typedef void (*farcall_on_disconnect)(farcall_session *session, farcall_error *error, void *context);

// Answers the call with this number, once, on any thread. Takes the result.
typedef void (*farcall_return)(farcall_session *session, farcall_buffer result, uint64_t call_id);

// A function that the controller calls, as orc_rt_WrapperFunction: gets the arguments for good, and answers by calling
// answer(session, result, call_id) exactly once, now or later.
typedef void (*farcall_function)(farcall_session *session,
                                 farcall_buffer args,
                                 farcall_return answer,
                                 uint64_t call_id);

// The controller is gone, and managed code may still run. farcall_done_complete(done), now or later, on any thread.
typedef void (*farcall_on_detach)(farcall_done *done, bool shutdown_requested, void *context);

// No managed code runs any more: release everything. farcall_done_complete(done), now or later, on any thread.
typedef void (*farcall_on_shutdown)(farcall_done *done, void *context);

// Is told that something has come about.
typedef void (*farcall_notify)(farcall_session *session, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// An empty buffer, which is also the result of a function that has none.
farcall_buffer farcall_buffer_empty(void);

// A buffer of size bytes, all zero. Ends the process where there is no memory.
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

// The message of an error, to be freed with farcall_error_free_message. Takes the error. Of NULL, the message says that there is
// none.
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

// True when the time was up.
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

// Frees a task that is not to run. What waits for it receives an error.
//
// # Safety
//
// It must come from a dispatch function, and be run or dropped once.
void farcall_task_drop(farcall_task *task);

// The service is done; the next one is told.
//
// # Safety
//
// Must come from the session, and be given back once.
void farcall_done_complete(farcall_done *done);

// Calls the controller's handler with this tag. Takes the arguments. on_complete is called exactly once, as a task, or at once
// on this thread when the call cannot be made.
//
// # Safety
//
// The arguments must be the caller's.
void farcall_session_call_controller(farcall_session *session,
                                     uint64_t tag,
                                     farcall_buffer args,
                                     farcall_completion on_complete,
                                     void *context);

// The same, and waits for the result. It needs no task, so it comes even if every thread of the host waits like this one.
//
// # Safety
//
// The arguments must be the caller's.
farcall_buffer farcall_session_call_controller_and_wait(farcall_session *session,
                                                        uint64_t tag,
                                                        farcall_buffer args);

// Options of a session that offers what every executor of this library does, and runs calls on threads of its own.
farcall_options *farcall_options_create(void);

// Frees options that no session is made of.
//
// # Safety
//
// They must be the caller's, or NULL.
void farcall_options_dispose(farcall_options *options);

// Has the host run calls, completions and whatever else may wait: dispatch gets each as a task.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_dispatch(farcall_options *options, farcall_dispatch dispatch, void *context);

// Gives errors that answer no call to the host, instead of writing them to standard error.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_on_error(farcall_options *options, farcall_on_error on_error, void *context);

// Tells the host, once, that the session has no controller any more.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_on_disconnect(farcall_options *options,
                                   farcall_on_disconnect on_disconnect,
                                   void *context);

// A thread that waits for the shutdown waits no longer than this; the error names what still runs. Without it, that wait has
// no bound.
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

// Tells the controller a copy of size bytes under a name.
//
// # Safety
//
// The options must be the caller's, the name a text, and the bytes readable.
void farcall_options_value(farcall_options *options, const char *name, const void *data, size_t size);

// Offers the controller a function under a name, which is called with the session.
//
// # Safety
//
// The options must be the caller's, and the name a text.
void farcall_options_function(farcall_options *options, const char *name, farcall_function function);

// Chooses the form in which linked code is called. If with_session is true, it is that of farcall_function, as in LLVM's
// runtime. Otherwise, and by default, it is LLVM 22's: struct farcall_buffer f(const char *data, size_t size). In place of the
// session linked code gets its address, which the functions here take as well while the session lives.
//
// # Safety
//
// The options must be the caller's.
void farcall_options_linked_code(farcall_options *options,
                                 bool with_session);

// Adds a service. When the session ends, on_detach and then on_shutdown are called once each. The service that was added last
// is first; each function is called when the one before is done. Either may be NULL.
//
// # Safety
//
// The options must be the caller's, and the name a text.
void farcall_options_service(farcall_options *options,
                             const char *name,
                             farcall_on_detach on_detach,
                             farcall_on_shutdown on_shutdown,
                             void *context);

// Makes a session of options, which are given away, also where this fails.
//
// # Safety
//
// The options must be the caller's, and session must be writable.
farcall_error *farcall_session_create(farcall_options *options, farcall_session **session);

// Attaches the controller at the other end of a connected stream socket, which is the session's from here on. Once in a
// session's life.
farcall_error *farcall_session_attach_socket(farcall_session *session,
                                             int socket);

// Attaches the controller at the other ends of two pipes, which are the session's from here on.
farcall_error *farcall_session_attach_pipes(farcall_session *session, int reader, int writer);

// Attaches the controller that listens on the Unix socket of this name.
//
// # Safety
//
// The name must be a text.
farcall_error *farcall_session_attach_name(farcall_session *session, const char *name);

// Attaches the controller at the other end of a connected Unix stream socket over a lane in shared memory. The controller
// sends its descriptor over that socket, which is the session's from here on. Waits for it. Calls of the session go out inside
// of calls of the controller, or while that attends.
farcall_error *farcall_session_attach_shared(farcall_session *session,
                                             int socket);

// The same, with the controller that listens on the Unix socket of this name.
//
// # Safety
//
// The name must be a text.
farcall_error *farcall_session_attach_shared_name(farcall_session *session, const char *name);

// Ends the connection to the controller. Managed code goes on. on_detach, which may be NULL, is called once, when all services
// are detached; at once if they are.
farcall_error *farcall_session_detach(farcall_session *session,
                                      farcall_notify on_detach,
                                      void *context);

// Detaches, waits for managed code to end and releases everything, without blocking here. When that is done, on_shutdown is
// called once; it may be NULL.
farcall_error *farcall_session_shutdown(farcall_session *session,
                                        farcall_notify on_shutdown,
                                        void *context);

// Waits until the session is shut down by any thread. Returns an error when the grace period is over first, or on a thread
// that runs a call of this session.
farcall_error *farcall_session_wait(farcall_session *session);

// Shuts the session down, waits for that as farcall_session_wait does, and forgets it; its number means nothing from then on.
// Where the wait fails what still runs goes on, and its answers go nowhere. NULL is no session, and fine.
farcall_error *farcall_session_dispose(farcall_session *session);

// Delays the shutdown while managed code runs in this thread. NULL when the session is being shut down, and none may be
// entered any more. what names the code in the error of a shutdown that takes too long.
//
// # Safety
//
// what must be a text.
farcall_keepalive *farcall_session_keepalive(farcall_session *session,
                                             const char *what);

// The managed code has ended.
//
// # Safety
//
// It must come from farcall_session_keepalive, and be released once; NULL is fine.
void farcall_keepalive_release(farcall_keepalive *keepalive);

// Reports an error that answers no call, as the session does itself. Takes the error.
//
// # Safety
//
// The error must be the caller's.
void farcall_session_report_error(farcall_session *session, farcall_error *error);

// Offers what every executor of this library does, and the symbols of the options, to the controller at the other end of a
// connected Unix socket. If is_shared is true, calls travel over a lane in shared memory, which the controller sends and this
// function waits for; else over the socket. Takes the options, which may say nothing but symbols, or be NULL, and the socket,
// of which no copy may stay open in this process. A function that is offered has the form of LLVM 22: struct farcall_buffer
// f(const char *data, size_t size).
//
// # Safety
//
// The options must be the caller's, and polled must be writable.
farcall_error *farcall_polled_create(farcall_options *options,
                                     int socket,
                                     bool is_shared,
                                     farcall_polled **polled);

// What to wait for in a loop, until it can be read: there is something to poll for then. Not to be read or closed.
//
// # Safety
//
// polled must be of this thread.
int farcall_polled_descriptor(const farcall_polled *polled);

// Serves the calls that wait, up to 64, and those that come within this time after the last call. calls, which may be NULL,
// receives their number. An error says why the connection is over, unless the controller has ended it in order.
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
