// farcall/llvm/object_layer.hpp: LLVM's session looks symbols up, and farcall's linker links.
#ifndef FARCALL_LLVM_OBJECT_LAYER_HPP
#define FARCALL_LLVM_OBJECT_LAYER_HPP

#include <farcall/llvm/call_scope.hpp>
#include <farcall/llvm/error.hpp>
#include <farcall/llvm/object_link.hpp>
#include <farcall/llvm/process_control.hpp>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/Layer.h"
#include "llvm/Support/Error.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace farcall {

// An object layer that links by farcall, in place of llvm::orc::ObjectLinkingLayer. It is for the executor of a
// FarcallExecutorProcessControl, in this process or another one:
//
//     LLJITBuilder().setExecutorProcessControl(...).setObjectLinkingLayerCreator(farcall::FarcallObjectLayer::Create)
//
// An object is linked when the session looks one of its symbols up. Names come from the link order of its dylib, with the dylib's
// generators. Unwind information, thread-locals and initializers need no runtime and no plugin; FarcallPlatform runs initializers.
// A link sends no message. Code must be compiled with PIC.
//
// Threads: as LLVM's layer. Exit handlers run when a tracker is removed.
class FarcallObjectLayer : public llvm::RTTIExtends<FarcallObjectLayer, llvm::orc::ObjectLayer>,
                           private llvm::orc::ResourceManager {
public:
  static inline char ID = 0;

  // The layer of a session. An error if its executor is none of farcall's.
  static llvm::Expected<std::unique_ptr<llvm::orc::ObjectLayer>> Create(llvm::orc::ExecutionSession &ES) {
    auto Made = std::make_unique<FarcallObjectLayer>(ES);
    if (Made->Process == nullptr)
      return llvm::createStringError("the session's executor is none of farcall's: make it by FarcallExecutorProcessControl");
    return Made;
  }

  // As Create. Without an executor of farcall's, each link fails.
  explicit FarcallObjectLayer(llvm::orc::ExecutionSession &ES)
      : RTTIExtends(ES), Process(FarcallExecutorProcessControl::processOf(ES.getExecutorProcessControl())) {
    ES.registerResourceManager(*this);
  }
  ~FarcallObjectLayer() override { getExecutionSession().deregisterResourceManager(*this); }

  // Debuggers of the executor see the debug information of objects that are linked from now on.
  FarcallObjectLayer &setDebuggable(bool IsOne) {
    IsDebuggable = IsOne;
    return *this;
  }

  // For programs that set them on LLVM's layers. Here symbols have the flags of the responsibility, and what an object defines in addition
  // is claimed, always.
  FarcallObjectLayer &setOverrideObjectFlagsWithResponsibilityFlags(bool) { return *this; }
  FarcallObjectLayer &setAutoClaimResponsibilityForObjectSymbols(bool) { return *this; }

  void emit(std::unique_ptr<llvm::orc::MaterializationResponsibility> R, std::unique_ptr<llvm::MemoryBuffer> O) override {
    auto OnLinked = [this](const llvm::orc::MaterializationResponsibility &Of, farcall_link *Link, bool HasInitializers) {
      return record(Of, Link, HasInitializers);
    };
    ObjectLink::begin(Process, IsDebuggable, std::move(OnLinked), std::move(R), std::move(O));
  }

  // Runs the initializers of the dylib's links that have not run, in the order of the links. FarcallExecutorProcessControl::callWith sets
  // a deadline or a cancel.
  llvm::Error initialize(llvm::orc::JITDylib &JD) {
    std::vector<farcall_link *> Due;
    getExecutionSession().runSessionLocked([&] {
      if (auto Of = Links.find(&JD); Of != Links.end())
        for (auto &[Number, One] : Of->second)
          if (std::exchange(One.HasInitializers, false))
            Due.push_back(One.Link);
    });
    for (auto *Link : Due)
      if (auto Err = takeError(farcall_link_initialize(Link, CallScope::current())))
        return Err;
    return llvm::Error::success();
  }

  // Runs the exit handlers and finalizers of the dylib's links, the last link first.
  llvm::Error deinitialize(llvm::orc::JITDylib &JD) {
    std::vector<farcall_link *> Due;
    getExecutionSession().runSessionLocked([&] {
      if (auto Of = Links.find(&JD); Of != Links.end())
        for (auto At = Of->second.rbegin(); At != Of->second.rend(); ++At)
          Due.push_back(At->second.Link);
    });
    for (auto *Link : Due)
      if (auto Err = takeError(farcall_link_deinitialize(Link)))
        return Err;
    return llvm::Error::success();
  }

private:
  struct Linked {
    farcall_link *Link;
    bool HasInitializers;
  };

  // Records a link under the key of its tracker. An error if that was removed.
  llvm::Error record(const llvm::orc::MaterializationResponsibility &R, farcall_link *Link, bool HasInitializers) {
    return R.withResourceKeyDo([&](llvm::orc::ResourceKey Key) {
      Links[&R.getTargetJITDylib()][++Last] = {Link, HasInitializers};
      ByKey[Key].push_back(Last);
    });
  }

  llvm::Error handleRemoveResources(llvm::orc::JITDylib &JD, llvm::orc::ResourceKey Key) override {
    std::vector<farcall_link *> Removed;
    getExecutionSession().runSessionLocked([&] {
      auto Found = ByKey.find(Key);
      if (Found == ByKey.end())
        return;
      auto Of = Links.find(&JD);
      for (auto Number : Found->second) {
        auto At = Of->second.find(Number);
        Removed.push_back(At->second.Link);
        Of->second.erase(At);
      }
      if (Of->second.empty())
        Links.erase(Of);
      ByKey.erase(Found);
    });
    if (Removed.empty())
      return llvm::Error::success();
    auto *Error = farcall_link_remove(Removed.data(), Removed.size());
    // The memory of an executor that has ended went with it.
    if (Error != nullptr && farcall_error_is_disconnected(Error))
      farcall_error_consume(std::exchange(Error, nullptr));
    return takeError(Error);
  }

  void handleTransferResources(llvm::orc::JITDylib &, llvm::orc::ResourceKey To, llvm::orc::ResourceKey From) override {
    auto Found = ByKey.find(From);
    if (Found == ByKey.end())
      return;
    auto Moved = std::move(Found->second);
    ByKey.erase(Found);
    auto &Into = ByKey[To];
    Into.insert(Into.end(), Moved.begin(), Moved.end());
  }

  farcall_process *Process;
  std::atomic<bool> IsDebuggable{false};
  // The three below belong to the session's lock. The links of each dylib by their numbers, which grow, and the numbers by trackers.
  llvm::DenseMap<llvm::orc::JITDylib *, std::map<uint64_t, Linked>> Links;
  llvm::DenseMap<llvm::orc::ResourceKey, llvm::SmallVector<uint64_t, 1>> ByKey;
  uint64_t Last = 0;
};

} // namespace farcall

#endif
