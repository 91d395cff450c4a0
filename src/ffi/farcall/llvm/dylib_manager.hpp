// farcall/llvm/dylib_manager.hpp: the dylibs of the executor's process.
#ifndef FARCALL_LLVM_DYLIB_MANAGER_HPP
#define FARCALL_LLVM_DYLIB_MANAGER_HPP

#include <farcall/llvm/call_scope.hpp>
#include <farcall/llvm/error.hpp>

#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/DylibManager.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/Shared/OrcRTBridge.h"

#include <string>
#include <vector>

namespace farcall {

// The dylibs of the executor's process. A look-up sends one message for each dylib that it names.
class FarcallDylibManager : public llvm::orc::DylibManager {
public:
  struct SymbolAddrs {
    llvm::orc::ExecutorAddr Instance;
    llvm::orc::ExecutorAddr Open;
    llvm::orc::ExecutorAddr Resolve;
  };

  FarcallDylibManager(llvm::orc::ExecutorProcessControl &EPC, SymbolAddrs Symbols) : EPC(EPC), Symbols(Symbols) {}

  llvm::Expected<llvm::orc::tpctypes::DylibHandle> loadDylib(const char *Path) override {
    using namespace llvm::orc;
    CallScope Scope(nullptr);
    llvm::Expected<ExecutorAddr> Handle((ExecutorAddr()));
    if (auto Err = EPC.callSPSWrapper<rt::SPSSimpleExecutorDylibManagerOpenSignature>(
            Symbols.Open, Handle, Symbols.Instance, llvm::StringRef(Path), uint64_t(0)))
      return Err;
    return Handle;
  }

  void lookupSymbolsAsync(llvm::ArrayRef<LookupRequest> Requests, SymbolLookupCompleteFn F) override {
    F(lookup(Requests));
  }

private:
  using LookupResult = llvm::orc::tpctypes::LookupResult;

  llvm::Expected<std::vector<LookupResult>> lookup(llvm::ArrayRef<LookupRequest> Requests) {
    using namespace llvm::orc;
    CallScope Scope(nullptr);
    std::vector<LookupResult> Results(Requests.size());
    std::vector<bool> IsDone(Requests.size());
    for (size_t First = 0; First != Requests.size(); ++First) {
      if (IsDone[First])
        continue;
      auto IsOne = [&](size_t At) { return Requests[At].Handle == Requests[First].Handle; };
      RemoteSymbolLookupSet Names;
      for (size_t At = First; At != Requests.size(); ++At)
        if (IsOne(At))
          for (const auto &[Name, Flags] : Requests[At].Symbols)
            Names.push_back({(*Name).str(), Flags == SymbolLookupFlags::RequiredSymbol});
      llvm::Expected<LookupResult> Found((LookupResult()));
      if (auto Err = EPC.callSPSWrapper<rt::SPSSimpleExecutorDylibManagerResolveSignature>(Symbols.Resolve, Found,
                                                                                        Requests[First].Handle, Names))
        return Err;
      if (!Found)
        return Found.takeError();
      if (Found->size() != Names.size())
        return llvm::make_error<llvm::StringError>("the executor has answered for other symbols than were asked for",
                                                   llvm::inconvertibleErrorCode());
      auto Next = Found->begin();
      for (size_t At = First; At != Requests.size(); ++At)
        if (IsOne(At)) {
          IsDone[At] = true;
          auto End = Next + Requests[At].Symbols.size();
          Results[At].assign(Next, End);
          Next = End;
        }
    }
    return Results;
  }

  llvm::orc::ExecutorProcessControl &EPC;
  SymbolAddrs Symbols;
};

} // namespace farcall

#endif
