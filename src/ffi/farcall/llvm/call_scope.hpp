// farcall/llvm/call_scope.hpp: the options of the calls that a thread makes.
#ifndef FARCALL_LLVM_CALL_SCOPE_HPP
#define FARCALL_LLVM_CALL_SCOPE_HPP

#include <farcall.h>

#include <utility>

namespace farcall {

// While this lives, the calling thread's calls of linked code have these options, or none. Scopes nest as blocks do.
class CallScope {
public:
  // The options must live as long as this does.
  explicit CallScope(const farcall_call_options *Options) : Before(std::exchange(Current, Options)) {}
  ~CallScope() { Current = Before; }
  CallScope(const CallScope &) = delete;
  CallScope &operator=(const CallScope &) = delete;

  // The options of the calling thread's next call of linked code; null if it has none.
  static const farcall_call_options *current() { return Current; }

private:
  static inline thread_local const farcall_call_options *Current = nullptr;
  const farcall_call_options *Before;
};

} // namespace farcall

#endif
