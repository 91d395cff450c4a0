// farcall/llvm/error.hpp: errors of farcall.h as LLVM's.
#ifndef FARCALL_LLVM_ERROR_HPP
#define FARCALL_LLVM_ERROR_HPP

#include <farcall/llvm/version.hpp>
#include <farcall.h>

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <system_error>

namespace farcall {

// A failure of farcall.
class FarcallError : public llvm::ErrorInfo<FarcallError> {
public:
  static inline char ID = 0;

  // Takes the error.
  explicit FarcallError(farcall_error *Taken)
      : Code(farcall_error_code_of(Taken)), Message(farcall_error_message(Taken)) {
    farcall_error_consume(Taken);
  }

  farcall_error_code code() const { return Code; }
  void log(llvm::raw_ostream &OS) const override { OS << Message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  farcall_error_code Code;
  std::string Message;
};

// The outcome of a function of farcall.h, whose error this takes.
inline llvm::Error takeError(farcall_error *Taken) {
  if (Taken == nullptr)
    return llvm::Error::success();
  return llvm::make_error<FarcallError>(Taken);
}

} // namespace farcall

#endif
