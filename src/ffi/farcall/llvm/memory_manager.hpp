// farcall/llvm/memory_manager.hpp: JITLink's memory is memory that both processes map.
#ifndef FARCALL_LLVM_MEMORY_MANAGER_HPP
#define FARCALL_LLVM_MEMORY_MANAGER_HPP

#include <farcall/llvm/error.hpp>

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/Support/Alignment.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

// Memory for linked code, which both processes map. JITLink writes the code where it will run.
//
// Finalizing and abandoning send no message. The actions of a graph go ahead of the next call, which fails if a finalize action
// fails. Memory of the lifetime Finalize is freed with the rest of its graph.
class FarcallMemoryManager : public llvm::jitlink::JITLinkMemoryManager {
public:
  // The executor of the process must outlive this object, or be closed.
  explicit FarcallMemoryManager(farcall_process *Process) : Process(Process) {}

  using JITLinkMemoryManager::allocate;
  void allocate(const llvm::jitlink::JITLinkDylib *, llvm::jitlink::LinkGraph &G, OnAllocatedFunction OnAllocated) override {
    OnAllocated(allocate(G));
  }

  using JITLinkMemoryManager::deallocate;
  void deallocate(std::vector<FinalizedAlloc> Allocs, OnDeallocatedFunction OnDeallocated) override {
    llvm::SmallVector<uint64_t, 8> Bases;
    for (auto &Alloc : Allocs)
      Bases.push_back(Alloc.release().getValue());
    // The executor runs the actions of the newest memory first.
    auto *Error = farcall_process_deallocate(Process, Bases.data(), Bases.size());
    // The memory of an executor that has ended went with it.
    if (Error != nullptr && (HasEnded || farcall_error_is_disconnected(Error)))
      farcall_error_consume(std::exchange(Error, nullptr));
    OnDeallocated(takeError(Error));
  }

  // The session is over: there is nothing to deallocate any more.
  void end() { HasEnded = true; }

private:
  class Allocated : public InFlightAlloc {
  public:
    Allocated(farcall_process *Process, farcall_memory *Memory, llvm::jitlink::LinkGraph &G)
        : Process(Process), Memory(Memory), G(G) {}
    ~Allocated() override { farcall_error_consume(farcall_memory_abandon(std::exchange(Memory, nullptr))); }

    void abandon(OnAbandonedFunction OnAbandoned) override {
      OnAbandoned(takeError(farcall_memory_abandon(std::exchange(Memory, nullptr))));
    }

    using InFlightAlloc::finalize;
    void finalize(OnFinalizedFunction OnFinalized) override { OnFinalized(finalizeNow()); }

  private:
    llvm::Expected<FinalizedAlloc> finalizeNow() {
      llvm::SmallVector<farcall_action, 4> Actions;
      for (auto &[Finalize, Dealloc] : G.allocActions())
        Actions.push_back({Finalize.getCallee().getValue(), Finalize.getArgData().data(), Finalize.getArgData().size(),
                           Dealloc.getCallee().getValue(), Dealloc.getArgData().data(), Dealloc.getArgData().size()});
      if (auto Err = nameFunctions())
        return Err;
      // A graph without memory may have actions, which belong to a page then.
      if (Memory == nullptr && !Actions.empty())
        if (auto *Error = farcall_memory_reserve(Process, {0, 0, 1}, 0, &Memory))
          return takeError(Error);
      uint64_t Base = 0;
      if (Memory != nullptr)
        if (auto *Error =
                farcall_memory_finalize(std::exchange(Memory, nullptr), Actions.data(), Actions.size(), &Base))
          return takeError(Error);
      // The actions were copied.
      G.allocActions().clear();
      return FinalizedAlloc(llvm::orc::ExecutorAddr(Base));
    }

    // Names for messages about crashes. Code without a named function has the name of its section: JITLink has dropped the names
    // of local functions that only their section refers to.
    llvm::Error nameFunctions() {
      if (Memory == nullptr)
        return llvm::Error::success();
      llvm::SmallVector<farcall_function_name, 8> Names;
      llvm::SmallPtrSet<llvm::jitlink::Block *, 8> Named;
      for (auto *Symbol : G.defined_symbols())
        if (Symbol->hasName() && Symbol->isCallable()) {
          Names.push_back({Symbol->getAddress().getValue(), Symbol->getSize(), (*Symbol->getName()).data()});
          Named.insert(&Symbol->getBlock());
        }
      std::deque<std::string> SectionNames;
      for (auto &Section : G.sections()) {
        auto Prot = partOf(Section.getMemProt());
        if (!Prot)
          return Prot.takeError();
        if (*Prot != FARCALL_CODE || Section.getMemLifetime() == llvm::orc::MemLifetime::NoAlloc)
          continue;
        for (auto *Block : Section.blocks())
          if (!Named.contains(Block)) {
            SectionNames.push_back(Section.getName().str());
            Names.push_back({Block->getAddress().getValue(), Block->getSize(), SectionNames.back().c_str()});
          }
      }
      if (Names.empty())
        return llvm::Error::success();
      return takeError(farcall_memory_name_functions(Memory, G.getName().c_str(), Names.data(), Names.size()));
    }

    farcall_process *Process;
    farcall_memory *Memory;
    llvm::jitlink::LinkGraph &G;
  };

  // A segment, and its place in the part with its protection.
  struct Placed {
    llvm::jitlink::BasicLayout::Segment *Segment;
    unsigned Part;
    uint64_t Offset;
  };

  static llvm::Expected<unsigned> partOf(llvm::orc::MemProt Prot) {
    using llvm::orc::MemProt;
    auto Has = [Prot](MemProt Bit) { return (static_cast<unsigned>(Prot) & static_cast<unsigned>(Bit)) != 0; };
    bool IsCode = Has(MemProt::Exec), IsData = Has(MemProt::Write);
    if (IsCode && IsData)
      return llvm::make_error<llvm::StringError>("farcall has no memory that is both written and executed by linked code",
                                                 llvm::inconvertibleErrorCode());
    return IsCode ? FARCALL_CODE : IsData ? FARCALL_DATA : FARCALL_CONSTANTS;
  }

  llvm::Expected<std::unique_ptr<InFlightAlloc>> allocate(llvm::jitlink::LinkGraph &G) {
    llvm::jitlink::BasicLayout Layout(G);
    llvm::SmallVector<Placed, 6> All;
    uint64_t Bytes[3] = {0, 0, 0}, Alignments[3] = {1, 1, 1};
    uint64_t ZeroFill = 0;
    // Standard data comes last, so that its zero fill is the end of the data.
    for (auto Lifetime : {llvm::orc::MemLifetime::Finalize, llvm::orc::MemLifetime::Standard})
      for (auto &[Group, Segment] : Layout.segments()) {
        if (Group.getMemLifetime() != Lifetime)
          continue;
        auto Part = partOf(Group.getMemProt());
        if (!Part)
          return Part.takeError();
        uint64_t Offset = llvm::alignTo(Bytes[*Part], Segment.Alignment);
        All.push_back({&Segment, *Part, Offset});
        Bytes[*Part] = Offset + Segment.ContentSize + Segment.ZeroFillSize;
        Alignments[*Part] = std::max<uint64_t>(Alignments[*Part], Segment.Alignment.value());
        if (*Part == FARCALL_DATA)
          ZeroFill = Segment.ZeroFillSize;
      }

    farcall_memory *Memory = nullptr;
    farcall_part Parts[3] = {};
    if (Bytes[0] + Bytes[1] + Bytes[2] > 0) {
      // Parts begin at pages. What has to be aligned further begins behind that.
      for (unsigned At = 0; At != 3; ++At)
        if (Bytes[At] > 0 && Alignments[At] > PageBytes)
          Bytes[At] += Alignments[At] - PageBytes;
      if (Alignments[FARCALL_DATA] > PageBytes)
        ZeroFill = 0;
      farcall_sizes Sizes = {Bytes[FARCALL_CODE], Bytes[FARCALL_CONSTANTS], Bytes[FARCALL_DATA]};
      if (auto *Error = farcall_memory_reserve(Process, Sizes, ZeroFill, &Memory))
        return takeError(Error);
    }
    auto Alloc = std::make_unique<Allocated>(Process, Memory, G);
    for (unsigned At = 0; At != 3; ++At) {
      if (Bytes[At] == 0)
        continue;
      if (auto *Error = farcall_memory_part(Memory, At, &Parts[At]))
        return takeError(Error);
      // Also what lies between blocks, for which JITLink counts on zeros.
      std::memset(Parts[At].working, 0, std::min(Bytes[At], Parts[At].used));
    }
    for (auto &[Segment, Part, Offset] : All) {
      uint64_t Address = llvm::alignTo(Parts[Part].address, Alignments[Part]) + Offset;
      Segment->Addr = llvm::orc::ExecutorAddr(Address);
      Segment->WorkingMem = static_cast<char *>(Parts[Part].working) + (Address - Parts[Part].address);
    }
    if (auto Err = Layout.apply())
      return Err;
    return Alloc;
  }

  // The pages of an executor have this size, or a multiple.
  static constexpr uint64_t PageBytes = 4096;

  farcall_process *Process;
  std::atomic<bool> HasEnded{false};
};

} // namespace farcall

#endif
