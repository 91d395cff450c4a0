// farcall/llvm/object_link.hpp: one link of the object layer, from its bytes to symbols that are ready.
#ifndef FARCALL_LLVM_OBJECT_LINK_HPP
#define FARCALL_LLVM_OBJECT_LINK_HPP

#include <farcall/llvm/error.hpp>

#include "llvm/ADT/FunctionExtras.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

// A link of one object, which fulfils a responsibility. It runs on the threads that complete the session's look-ups; no thread waits.
//
// The object's own addresses are told before those of others are asked for. So links may refer to each other in a circle.
class ObjectLink {
public:
  // Records a link that is finished. An error if nobody wants it any more.
  using OnLinkedFunction =
      llvm::unique_function<llvm::Error(const llvm::orc::MaterializationResponsibility &, farcall_link *, bool HasInitializers)>;

  static void begin(farcall_process *Process, bool IsDebuggable, OnLinkedFunction OnLinked,
                    std::unique_ptr<llvm::orc::MaterializationResponsibility> R, std::unique_ptr<llvm::MemoryBuffer> O) {
    std::unique_ptr<ObjectLink> L(new ObjectLink(std::move(R), std::move(OnLinked)));
    if (auto Err = L->create(Process, IsDebuggable, O->getMemBufferRef()))
      return fail(std::move(L), std::move(Err));
    // farcall has a copy.
    O.reset();
    findNames(std::move(L));
  }

  ObjectLink(const ObjectLink &) = delete;
  ObjectLink &operator=(const ObjectLink &) = delete;
  ~ObjectLink() {
    if (Link != nullptr)
      farcall_error_consume(farcall_link_remove(&Link, 1));
  }

private:
  using Self = std::unique_ptr<ObjectLink>;

  ObjectLink(std::unique_ptr<llvm::orc::MaterializationResponsibility> R, OnLinkedFunction OnLinked)
      : R(std::move(R)), OnLinked(std::move(OnLinked)), ES(this->R->getExecutionSession()) {
    this->R->getTargetJITDylib().withLinkOrderDo([&](const llvm::orc::JITDylibSearchOrder &Of) { Order = Of; });
  }

  // Reads the object, claims what its compiler has added, and collects the names that it needs.
  llvm::Error create(farcall_process *Process, bool IsDebuggable, llvm::MemoryBufferRef O) {
    const std::string Name = O.getBufferIdentifier().str();
    if (auto Err = takeError(
            farcall_link_create(Process, Name.c_str(), O.getBufferStart(), O.getBufferSize(), IsDebuggable, &Link)))
      return Err;
    llvm::orc::SymbolFlagsMap Others;
    auto OnDefinition = [&](const farcall_link_definition &Found) {
      auto Name = ES.intern(Found.name);
      if (R->getSymbols().count(Name) == 0)
        Others[std::move(Name)] = flagsOf(Found);
    };
    if (auto Err = each<farcall_link_definition>(farcall_link_each_definition, OnDefinition))
      return Err;
    // The session refuses those that it has: weak definitions that are elsewhere.
    if (!Others.empty())
      if (auto Err = R->defineMaterializing(Others))
        return Err;
    for (auto &[Name, Flags] : Others) {
      if (R->getSymbols().count(Name) != 0)
        continue;
      if (auto Err = takeError(farcall_link_define(Link, (*Name).str().c_str(), 0, Flags.isCallable())))
        return Err;
      Names.add(Name);
    }
    auto OnReference = [&](const farcall_link_reference &Found) {
      auto Name = ES.intern(Found.name);
      if (Found.is_thread_local)
        Threads.insert(Name);
      Names.add(std::move(Name), Found.is_weak ? llvm::orc::SymbolLookupFlags::WeaklyReferencedSymbol
                                               : llvm::orc::SymbolLookupFlags::RequiredSymbol);
    };
    return each<farcall_link_reference>(farcall_link_each_reference, OnReference);
  }

  // Asks the session which of the names there are.
  static void findNames(Self L) {
    if (L->Names.empty())
      return place(std::move(L));
    auto &ES = L->ES;
    auto Order = L->Order;
    auto Names = L->Names;
    ES.lookupFlags(llvm::orc::LookupKind::Static, std::move(Order), std::move(Names),
                   [L = std::move(L)](llvm::Expected<llvm::orc::SymbolFlagsMap> Found) mutable {
                     auto Err = Found ? L->defineNames(*Found) : Found.takeError();
                     if (Err)
                       return fail(std::move(L), std::move(Err));
                     findThreadLocals(std::move(L));
                   });
  }

  llvm::Error defineNames(const llvm::orc::SymbolFlagsMap &Found) {
    for (auto &[Name, Flags] : Found) {
      if (Threads.count(Name) != 0) {
        WantedThreads.add(Name);
        continue;
      }
      if (auto Err = takeError(farcall_link_define(Link, (*Name).str().c_str(), 0, Flags.isCallable())))
        return Err;
      Wanted.add(Name);
    }
    return llvm::Error::success();
  }

  // The layout needs what the addresses of thread-locals say.
  static void findThreadLocals(Self L) {
    auto Wanted = std::exchange(L->WantedThreads, {});
    lookUp(std::move(L), std::move(Wanted), [](Self L, const llvm::orc::SymbolMap &Found) {
      for (auto &[Name, Symbol] : Found)
        if (auto Err = takeError(
                farcall_link_define(L->Link, (*Name).str().c_str(), Symbol.getAddress().getValue(), false)))
          return fail(std::move(L), std::move(Err));
      place(std::move(L));
    });
  }

  // Tells the session the addresses of the object, and asks it for those of others.
  static void place(Self L) {
    if (auto Err = L->resolve())
      return fail(std::move(L), std::move(Err));
    auto Wanted = std::exchange(L->Wanted, {});
    lookUp(std::move(L), std::move(Wanted), [](Self L, const llvm::orc::SymbolMap &Found) {
      for (auto &[Name, Symbol] : Found)
        if (auto Err =
                takeError(farcall_link_locate(L->Link, (*Name).str().c_str(), Symbol.getAddress().getValue())))
          return fail(std::move(L), std::move(Err));
      finish(std::move(L));
    });
  }

  llvm::Error resolve() {
    if (auto Err = takeError(farcall_link_place(Link)))
      return Err;
    llvm::orc::SymbolMap Resolved;
    auto OnDefinition = [&](const farcall_link_definition &Found) {
      auto Name = ES.intern(Found.name);
      auto Owed = R->getSymbols().find(Name);
      if (Owed == R->getSymbols().end())
        return;
      auto Flags = Owed->second;
      Flags &= ~llvm::JITSymbolFlags::Common;
      Resolved[std::move(Name)] = {llvm::orc::ExecutorAddr(Found.address), Flags};
    };
    if (auto Err = each<farcall_link_definition>(farcall_link_each_definition, OnDefinition))
      return Err;
    llvm::orc::SymbolNameVector Missing;
    for (auto &[Name, Flags] : R->getSymbols())
      if (!Flags.hasMaterializationSideEffectsOnly() && Resolved.count(Name) == 0)
        Missing.push_back(Name);
    if (!Missing.empty())
      return llvm::make_error<llvm::orc::MissingSymbolDefinitions>(ES.getSymbolStringPool(), "a link of farcall",
                                                                   std::move(Missing));
    return R->notifyResolved(Resolved);
  }

  // Makes the code usable, and its symbols ready when those are of all others that the object refers to.
  static void finish(Self L) {
    bool HasInitializers = false;
    if (auto Err = takeError(farcall_link_finish(L->Link, &HasInitializers)))
      return fail(std::move(L), std::move(Err));
    if (auto Err = L->OnLinked(*L->R, L->Link, HasInitializers))
      return fail(std::move(L), std::move(Err));
    // It is the layer's now.
    L->Link = nullptr;
    if (auto Err = L->R->notifyEmitted(L->group()))
      return fail(std::move(L), std::move(Err));
    // LLVM 22's transferTo may lose a responsibility that still lives then.
    L->R.reset();
  }

  // All symbols depend on each other one that is not ready. Groups of their own would take LLVM's session time that grows by the square
  // of their number.
  std::vector<llvm::orc::SymbolDependenceGroup> group() const {
    if (Unready.empty())
      return {};
    llvm::orc::SymbolDependenceGroup Group;
    for (auto &[Name, Flags] : R->getSymbols())
      Group.Symbols.insert(Name);
    Group.Dependencies = Unready;
    return {std::move(Group)};
  }

  // Looks names up along the link order, and goes on when all have addresses.
  template <typename ThenT> static void lookUp(Self L, llvm::orc::SymbolLookupSet Names, ThenT Then) {
    if (Names.empty())
      return Then(std::move(L), llvm::orc::SymbolMap());
    auto *Of = L.get();
    auto Register = [Of](const llvm::orc::SymbolDependenceMap &Unready) {
      for (auto &[Dylib, Names] : Unready)
        Of->Unready[Dylib].insert(Names.begin(), Names.end());
    };
    auto &ES = L->ES;
    auto Order = L->Order;
    ES.lookup(
        llvm::orc::LookupKind::Static, Order, std::move(Names), llvm::orc::SymbolState::Resolved,
        [L = std::move(L), Then](llvm::Expected<llvm::orc::SymbolMap> Found) mutable {
          if (!Found)
            return fail(std::move(L), Found.takeError());
          Then(std::move(L), *Found);
        },
        std::move(Register));
  }

  static void fail(Self L, llvm::Error Err) {
    L->ES.reportError(std::move(Err));
    L->R->failMaterialization();
  }

  static llvm::JITSymbolFlags flagsOf(const farcall_link_definition &Found) {
    llvm::JITSymbolFlags Flags;
    if (Found.is_weak)
      Flags |= llvm::JITSymbolFlags::Weak;
    if (Found.is_callable)
      Flags |= llvm::JITSymbolFlags::Callable;
    if (!Found.is_hidden)
      Flags |= llvm::JITSymbolFlags::Exported;
    return Flags;
  }

  // Calls Visit for each thing that a function of farcall.h finds in the link.
  template <typename T, typename EachT, typename VisitT> llvm::Error each(EachT Each, VisitT &Visit) {
    auto OnOne = [](const T *Found, void *Context) { (*static_cast<VisitT *>(Context))(*Found); };
    return takeError(Each(Link, OnOne, &Visit));
  }

  farcall_link *Link = nullptr;
  std::unique_ptr<llvm::orc::MaterializationResponsibility> R;
  OnLinkedFunction OnLinked;
  llvm::orc::ExecutionSession &ES;
  llvm::orc::JITDylibSearchOrder Order;
  // The names that the object needs, and those among them that are thread-locals.
  llvm::orc::SymbolLookupSet Names;
  llvm::orc::SymbolNameSet Threads;
  // Those that the session has.
  llvm::orc::SymbolLookupSet Wanted;
  llvm::orc::SymbolLookupSet WantedThreads;
  // Those that were not ready when they had addresses.
  llvm::orc::SymbolDependenceMap Unready;
};

} // namespace farcall

#endif
