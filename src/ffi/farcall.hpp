// farcall.hpp: farcall.h for C++17 and later, for programs that start executors. Header only; link what farcall.h asks for.
//
// | header | what it has |
// |---|---|
// | farcall/executor.hpp | executors, libraries, snapshots, redirected functions |
// | farcall/process.hpp | what has addresses: processes, memory, regions, handlers by tags, LLVM's dylibs |
// | farcall/function.hpp | functions, pipelines, how long a call may take |
// | farcall/value.hpp | bytes, and values of C types |
// | farcall/error.hpp | errors, and how an executor died |
//
// Errors: functions return outcome<T>. With exceptions that is T, and a failure throws farcall::error. Without them
// (-fno-exceptions, or FARCALL_EXCEPTIONS defined as 0) it is result<T>, which has the value or the error. A program may have
// translation units of both kinds.
//
// Ownership: objects own what they name, and free it when they are destroyed. They are moved, not copied. An executor ends with its
// object. A library, a function and a redirection leave their code. dylib and tracker are plain values.
//
// Threads: as in farcall.h. One object is not to be moved or destroyed while another thread uses it; executor::close() ends calls.
#ifndef FARCALL_HPP
#define FARCALL_HPP

#include <farcall/executor.hpp>

#endif
