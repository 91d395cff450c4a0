// farcall/llvm/function.hpp: plain C functions of the executor, called by their addresses.
#ifndef FARCALL_LLVM_FUNCTION_HPP
#define FARCALL_LLVM_FUNCTION_HPP

#include <farcall.hpp>
#include <farcall/llvm/call_scope.hpp>
#include <farcall/llvm/error.hpp>
#include <farcall/llvm/process_control.hpp>

#include "llvm/ExecutionEngine/Orc/Shared/ExecutorAddress.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace farcall {

// A C function of the executor, such as ExecutorFunction<long(long, long)>. It is called where LLVM's ExecutorAddr::toPtr makes a
// pointer, which is for code of the same process only. Any thread may call it; a copy is the same function.
template <class S> class ExecutorFunction;

template <class R, class... A> class ExecutorFunction<R(A...)> {
public:
  explicit ExecutorFunction(farcall_function *Taken)
      : Handle(Taken, [](farcall_function *Owned) { farcall_error_consume(farcall_function_dispose(Owned)); }) {}

  // An Error, or the result. An executor that dies is an error, which names the signal. FarcallExecutorProcessControl::callWith sets a
  // deadline or a cancel.
  std::conditional_t<std::is_void_v<R>, llvm::Error, llvm::Expected<std::conditional_t<std::is_void_v<R>, int, R>>>
  operator()(A... Arguments) const {
    const farcall_value Values[sizeof...(A) + 1] = {detail::type<A>::value_of(Arguments)..., {}};
    farcall_value Result{};
    const farcall_call_options *Options = CallScope::current();
    llvm::Error Failure =
        takeError(Options == nullptr ? farcall_function_call(Handle.get(), Values, sizeof...(A), &Result)
                                     : farcall_function_call_with(Handle.get(), Options, Values, sizeof...(A), &Result));
    if constexpr (std::is_void_v<R>) {
      return Failure;
    } else {
      if (Failure)
        return Failure;
      return detail::type<R>::of(Result);
    }
  }

  // A plain pointer to a function in this process (in_process of the options), behind what is finalized: see farcall_function_pointer.
  // toPtr of LLVM's address makes one without that, so it is for code that has been called or pointed to before.
  llvm::Expected<R (*)(A...)> pointer() const {
    farcall_any_function Found = nullptr;
    if (auto Err = takeError(farcall_function_pointer(Handle.get(), &Found)))
      return Err;
    return reinterpret_cast<R (*)(A...)>(Found);
  }

  // Its types, as farcall_function_create reads them.
  static std::string prototype() { return detail::prototype<R, A...>("function"); }

private:
  std::shared_ptr<farcall_function> Handle;
};

// The function at an address that a look-up has found. It has the types of S: numbers, bool, farcall::pointer, or void.
// Sends no message. If the function has other types, the executor may crash.
template <class S>
llvm::Expected<ExecutorFunction<S>> function_at(const FarcallExecutorProcessControl &EPC, llvm::orc::ExecutorAddr Address) {
  farcall_function *Made = nullptr;
  const auto Prototype = ExecutorFunction<S>::prototype();
  if (auto Err = takeError(
          farcall_process_function(EPC.getProcess(), Address.getValue(), nullptr, Prototype.c_str(), &Made)))
    return Err;
  return ExecutorFunction<S>(Made);
}

} // namespace farcall

#endif
