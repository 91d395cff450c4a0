// farcall/llvm/version.hpp: the version of LLVM that these classes are for.
#ifndef FARCALL_LLVM_VERSION_HPP
#define FARCALL_LLVM_VERSION_HPP

#include "llvm/Config/llvm-config.h"

#if LLVM_VERSION_MAJOR != 22
#error "farcall/llvm.hpp is for LLVM 22: the classes that it implements differ in each version"
#endif

#endif
