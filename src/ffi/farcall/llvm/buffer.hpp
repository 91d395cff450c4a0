// farcall/llvm/buffer.hpp: buffers of farcall.h as LLVM's.
#ifndef FARCALL_LLVM_BUFFER_HPP
#define FARCALL_LLVM_BUFFER_HPP

#include <farcall/llvm/version.hpp>
#include <farcall.h>

#include "llvm/ExecutionEngine/Orc/Shared/WrapperFunctionUtils.h"

#include <cstring>

namespace farcall {

// LLVM's buffers are those of farcall.h.
static_assert(sizeof(farcall_buffer) == sizeof(llvm::orc::shared::CWrapperFunctionBuffer));

inline llvm::orc::shared::WrapperFunctionBuffer takeBuffer(farcall_buffer Taken) {
  llvm::orc::shared::CWrapperFunctionBuffer Buffer;
  std::memcpy(&Buffer, &Taken, sizeof Buffer);
  return llvm::orc::shared::WrapperFunctionBuffer(Buffer);
}

inline farcall_buffer giveBuffer(llvm::orc::shared::WrapperFunctionBuffer Given) {
  llvm::orc::shared::CWrapperFunctionBuffer Raw = Given.release();
  farcall_buffer Buffer;
  std::memcpy(&Buffer, &Raw, sizeof Buffer);
  return Buffer;
}

} // namespace farcall

#endif
