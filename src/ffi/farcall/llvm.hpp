// farcall/llvm.hpp: LLVM 22's ORC over farcall.h. Header only, for C++17 and later, with or without exceptions and RTTI.
//
// An LLVM program whose JIT'd code shall run in another process makes its ExecutorProcessControl in this way:
//
//     auto EPC = farcall::FarcallExecutorProcessControl::Create();
//     auto J = llvm::orc::LLJITBuilder().setExecutorProcessControl(std::move(*EPC))....create();
//
// The guide's section "From LLVM" says what else changes: an address of the executor is no pointer of this process.
//
// | class | what it is over | messages |
// |---|---|---|
// | FarcallExecutorProcessControl | an executor of farcall.h and its process | one for each call of a wrapper function |
// | FarcallMemoryManager | memory that both processes map | none; actions go ahead of the next call |
// | FarcallMemoryAccess | loads and stores in that memory | one for each request with other memory |
// | FarcallDylibManager | the executor's dylibs | one for each dylib of a look-up |
// | FarcallObjectLayer | farcall's linker, in place of LLVM's | none; registration goes ahead of the next call |
// | FarcallPlatform, linkByFarcall | initializers and exit handlers of its links | one for each link that has some |
// | ExecutorFunction, function_at | a C function by its address | one for each call |
// | FarcallPerfMap | a file that perf reads | none |
//
// Threads: as LLVM's own classes. A call runs on a thread of the executor that belongs to the calling thread, and completes on the
// calling thread before callWrapperAsync returns. Handlers of JIT dispatch run on the thread that waits for the executor.
// Errors: a FarcallError, which has the code of farcall.h. A wrapper function's own error is its out-of-band error, as with LLVM's
// classes; so is the executor's end, with a message that says how it died, and an interruption, which says where the call was.
// Ends of calls: FarcallExecutorProcessControl::callWith gives calls a deadline and a cancel.
// Names are in LLVM's style, since the classes take the place of LLVM's.
#ifndef FARCALL_LLVM_HPP
#define FARCALL_LLVM_HPP

#include <farcall/llvm/buffer.hpp>
#include <farcall/llvm/dylib_manager.hpp>
#include <farcall/llvm/error.hpp>
#include <farcall/llvm/function.hpp>
#include <farcall/llvm/memory_access.hpp>
#include <farcall/llvm/memory_manager.hpp>
#include <farcall/llvm/object_layer.hpp>
#include <farcall/llvm/object_link.hpp>
#include <farcall/llvm/perf_map.hpp>
#include <farcall/llvm/platform.hpp>
#include <farcall/llvm/process_control.hpp>

#endif
