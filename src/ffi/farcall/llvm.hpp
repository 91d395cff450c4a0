// farcall/llvm.hpp: LLVM 22's ORC over farcall.h. Header only, for C++17 and later, with or without exceptions and RTTI.
//
// An LLVM program whose JIT'd code shall run in another process makes its ExecutorProcessControl in this way:
//
//     auto EPC = farcall::FarcallExecutorProcessControl::Create();
//     auto J = llvm::orc::LLJITBuilder().setExecutorProcessControl(std::move(*EPC))....create();
//
// | class | what it is over | messages |
// |---|---|---|
// | FarcallExecutorProcessControl | a controller of farcall.h | one for each call of a wrapper function |
// | FarcallMemoryManager | memory that both processes map | none; actions go ahead of the next call |
// | FarcallMemoryAccess | loads and stores in that memory | one for each request with other memory |
// | FarcallDylibManager | the executor's dylibs | one for each dylib of a look-up |
//
// Threads: as LLVM's own classes. A call runs on a thread of the executor that belongs to the calling thread, and completes on the
// calling thread before callWrapperAsync returns. Handlers of JIT dispatch run on the thread that waits for the executor.
// Errors: a FarcallError, which has the code of farcall.h. A wrapper function's own error is its out-of-band error, as with LLVM's
// classes; so is the executor's end, with a message that says how it died.
// Names are in LLVM's style, since the classes take the place of LLVM's.
#ifndef FARCALL_LLVM_HPP
#define FARCALL_LLVM_HPP

#include "llvm/Config/llvm-config.h"

#if LLVM_VERSION_MAJOR != 22
#error "farcall/llvm.hpp is for LLVM 22: the classes that it implements differ in each version"
#endif

#include <farcall.h>

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/DylibManager.h"
#include "llvm/ExecutionEngine/Orc/EPCGenericMemoryAccess.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/MemoryAccess.h"
#include "llvm/ExecutionEngine/Orc/Shared/OrcRTBridge.h"
#include "llvm/ExecutionEngine/Orc/Shared/SimpleRemoteEPCUtils.h"
#include "llvm/ExecutionEngine/Orc/TaskDispatch.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// Memory for linked code, which both processes map. JITLink writes the code where it will run.
//
// Finalizing and abandoning send no message. The actions of a graph go ahead of the next call, which fails if a finalize action
// fails. Memory of the lifetime Finalize is freed with the rest of its graph.
class FarcallMemoryManager : public llvm::jitlink::JITLinkMemoryManager {
public:
  // The controller must outlive this object, or be closed.
  explicit FarcallMemoryManager(farcall_controller *Controller) : Controller(Controller) {}

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
    auto *Error = farcall_controller_deallocate(Controller, Bases.data(), Bases.size());
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
    Allocated(farcall_controller *Controller, farcall_memory *Memory, llvm::jitlink::LinkGraph &G)
        : Controller(Controller), Memory(Memory), G(G) {}
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
        if (auto *Error = farcall_memory_reserve(Controller, {0, 0, 1}, 0, &Memory))
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

    farcall_controller *Controller;
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
      if (auto *Error = farcall_memory_reserve(Controller, Sizes, ZeroFill, &Memory))
        return takeError(Error);
    }
    auto Alloc = std::make_unique<Allocated>(Controller, Memory, G);
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

  farcall_controller *Controller;
  std::atomic<bool> HasEnded{false};
};

// The executor's memory by address. What both processes map is loaded and stored here; a request with other memory is one message
// from there on. An address that cannot be read or written is an error, and the executor continues.
class FarcallMemoryAccess : public llvm::orc::MemoryAccess {
public:
  FarcallMemoryAccess(farcall_controller *Controller, llvm::orc::ExecutorProcessControl &EPC,
                      llvm::orc::EPCGenericMemoryAccess::FuncAddrs Functions)
      : Controller(Controller), Messages(EPC, Functions) {}

  void writeUInt8sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt8Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt8sAsync(Rest, std::move(F)); });
  }
  void writeUInt16sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt16Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt16sAsync(Rest, std::move(F)); });
  }
  void writeUInt32sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt32Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt32sAsync(Rest, std::move(F)); });
  }
  void writeUInt64sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt64Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt64sAsync(Rest, std::move(F)); });
  }
  void writePointersAsync(llvm::ArrayRef<llvm::orc::tpctypes::PointerWrite> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writePointersAsync(Rest, std::move(F)); });
  }
  void writeBuffersAsync(llvm::ArrayRef<llvm::orc::tpctypes::BufferWrite> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeBuffersAsync(Rest, std::move(F)); });
  }
  void readUInt8sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint8_t> F) override {
    read<uint8_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt8sAsync(Rs, std::move(F)); });
  }
  void readUInt16sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint16_t> F) override {
    read<uint16_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt16sAsync(Rs, std::move(F)); });
  }
  void readUInt32sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint32_t> F) override {
    read<uint32_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt32sAsync(Rs, std::move(F)); });
  }
  void readUInt64sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint64_t> F) override {
    read<uint64_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt64sAsync(Rs, std::move(F)); });
  }
  void readPointersAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadPointersCompleteFn F) override {
    read<llvm::orc::ExecutorAddr>(Rs, std::move(F), [&](auto F) { Messages.readPointersAsync(Rs, std::move(F)); });
  }

  void readBuffersAsync(llvm::ArrayRef<llvm::orc::ExecutorAddrRange> Rs, OnReadBuffersCompleteFn F) override {
    ReadBuffersResult Buffers;
    for (const auto &Range : Rs) {
      auto From = at(Range.Start, Range.size());
      if (!From)
        return Messages.readBuffersAsync(Rs, std::move(F));
      Buffers.emplace_back(From.Start, From.Start + Range.size());
    }
    F(std::move(Buffers));
  }

  void readStringsAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadStringsCompleteFn F) override {
    ReadStringsResult Strings;
    for (auto Address : Rs) {
      auto From = at(Address, 1);
      size_t Size = From ? strnlen(From.Start, From.Bytes) : 0;
      if (Size == From.Bytes)
        return Messages.readStringsAsync(Rs, std::move(F));
      Strings.emplace_back(From.Start, Size);
    }
    F(std::move(Strings));
  }

private:
  // Bytes that both processes map, in this one.
  struct Shared {
    char *Start = nullptr;
    uint64_t Bytes = 0;
    explicit operator bool() const { return Start != nullptr; }
  };

  // The shared bytes from an address on; none if they are fewer than these.
  Shared at(llvm::orc::ExecutorAddr Address, uint64_t Least) const {
    Shared Found;
    void *Working = nullptr;
    farcall_error_consume(farcall_controller_shared_memory(Controller, Address.getValue(), &Working, &Found.Bytes));
    if (Found.Bytes < Least)
      return {};
    Found.Start = static_cast<char *>(Working);
    return Found;
  }

  // Code that reads a word meanwhile sees all of it or nothing, if the address is a multiple of its size.
  template <typename T> static void store(char *To, T Value) {
    if (reinterpret_cast<uintptr_t>(To) % sizeof(T) == 0)
      __atomic_store(reinterpret_cast<T *>(To), &Value, __ATOMIC_RELEASE);
    else
      std::memcpy(To, &Value, sizeof(T));
  }

  template <typename T> static T load(const char *From) {
    T Value{};
    if (reinterpret_cast<uintptr_t>(From) % sizeof(T) == 0)
      __atomic_load(reinterpret_cast<const T *>(From), &Value, __ATOMIC_ACQUIRE);
    else
      std::memcpy(&Value, From, sizeof(T));
    return Value;
  }

  template <typename T> bool storeOne(const llvm::orc::tpctypes::UIntWrite<T> &W) const {
    return storeWord<T>(W.Addr, W.Value);
  }
  bool storeOne(const llvm::orc::tpctypes::PointerWrite &W) const { return storeWord<uint64_t>(W.Addr, W.Value.getValue()); }
  bool storeOne(const llvm::orc::tpctypes::BufferWrite &W) const {
    auto To = at(W.Addr, W.Buffer.size());
    if (To)
      std::copy(W.Buffer.begin(), W.Buffer.end(), To.Start);
    return bool(To);
  }

  template <typename T> bool storeWord(llvm::orc::ExecutorAddr Address, T Value) const {
    auto To = at(Address, sizeof(T));
    if (To)
      store(To.Start, Value);
    return bool(To);
  }

  // In order: what comes before the first address of other memory is stored here, the rest by a message.
  template <typename W, typename SendT> void write(llvm::ArrayRef<W> Ws, WriteResultFn F, SendT Send) {
    while (!Ws.empty() && storeOne(Ws.front()))
      Ws = Ws.drop_front();
    if (Ws.empty())
      F(llvm::Error::success());
    else
      Send(Ws, std::move(F));
  }

  template <typename T, typename FnT, typename SendT>
  void read(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, FnT F, SendT Send) {
    using Word = std::conditional_t<std::is_same_v<T, llvm::orc::ExecutorAddr>, uint64_t, T>;
    std::vector<T> Values;
    Values.reserve(Rs.size());
    for (auto Address : Rs) {
      auto From = at(Address, sizeof(Word));
      if (!From)
        return Send(std::move(F));
      Values.push_back(T(load<Word>(From.Start)));
    }
    F(std::move(Values));
  }

  farcall_controller *Controller;
  llvm::orc::EPCGenericMemoryAccess Messages;
};

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

// An executor process of farcall that runs the code of an LLVM JIT.
//
// It takes the place of llvm::orc::SimpleRemoteEPC. The executor ends with disconnect, which LLVM's ExecutionSession calls at its
// end, or with this object.
class FarcallExecutorProcessControl : public llvm::orc::ExecutorProcessControl {
public:
  // Options of which only the size is set: the executor is the program that the variable FARCALL_EXECUTOR names, or the file
  // farcall-executor beside this program. With this_program set, main must first call farcall_run_if_spawned.
  static farcall_start_options options() {
    farcall_start_options Options = {};
    Options.size = sizeof Options;
    return Options;
  }

  // Starts an executor. By default tasks run on the thread that dispatches them, as in LLVM's SelfExecutorProcessControl.
  static llvm::Expected<std::unique_ptr<FarcallExecutorProcessControl>>
  Create(const farcall_start_options &Options = options(), std::unique_ptr<llvm::orc::TaskDispatcher> D = nullptr,
         std::shared_ptr<llvm::orc::SymbolStringPool> SSP = nullptr) {
    if (auto Err = takeError(farcall_check_version(FARCALL_VERSION)))
      return Err;
    farcall_controller *Controller = nullptr;
    if (auto Err = takeError(farcall_controller_start(&Options, &Controller)))
      return Err;
    if (D == nullptr)
      D = std::make_unique<llvm::orc::InPlaceTaskDispatcher>();
    if (SSP == nullptr)
      SSP = std::make_shared<llvm::orc::SymbolStringPool>();
    std::unique_ptr<FarcallExecutorProcessControl> EPC(
        new FarcallExecutorProcessControl(Controller, std::move(D), std::move(SSP)));
    if (auto Err = EPC->setUp())
      return Err;
    return EPC;
  }

  FarcallExecutorProcessControl(const FarcallExecutorProcessControl &) = delete;
  FarcallExecutorProcessControl &operator=(const FarcallExecutorProcessControl &) = delete;
  ~FarcallExecutorProcessControl() override { llvm::consumeError(disconnect()); }

  // The controller, for what LLVM's classes do not have: its process, how it died, regions, to kill it. This object closes it.
  farcall_controller *getController() const { return Controller; }

  llvm::Expected<int32_t> runAsMain(llvm::orc::ExecutorAddr Main, llvm::ArrayRef<std::string> Args) override {
    int64_t Result = 0;
    if (auto Err = callSPSWrapper<llvm::orc::rt::SPSRunAsMainSignature>(RunAsMain, Result, Main, Args))
      return Err;
    return static_cast<int32_t>(Result);
  }

  llvm::Expected<int32_t> runAsVoidFunction(llvm::orc::ExecutorAddr Function) override {
    int32_t Result = 0;
    if (auto Err = callSPSWrapper<llvm::orc::rt::SPSRunAsVoidFunctionSignature>(RunAsVoid, Result, Function))
      return Err;
    return Result;
  }

  llvm::Expected<int32_t> runAsIntFunction(llvm::orc::ExecutorAddr Function, int Arg) override {
    int32_t Result = 0;
    if (auto Err = callSPSWrapper<llvm::orc::rt::SPSRunAsIntFunctionSignature>(RunAsInt, Result, Function, Arg))
      return Err;
    return Result;
  }

  using ExecutorProcessControl::callWrapperAsync;
  void callWrapperAsync(llvm::orc::ExecutorAddr Function, IncomingWFRHandler OnComplete, llvm::ArrayRef<char> Args) override {
    farcall_buffer Result;
    farcall_error *Error =
        farcall_controller_call(Controller, Function.getValue(), Args.data(), Args.size(), &Result);
    OnComplete(Error == nullptr ? takeBuffer(Result) : failed(Error));
  }

  // Ends the executor. Calls under way fail.
  llvm::Error disconnect() override {
    if (IsClosed.exchange(true))
      return llvm::Error::success();
    OwnedMemMgr.end();
    return takeError(farcall_controller_close(Controller));
  }

private:
  FarcallExecutorProcessControl(farcall_controller *Controller, std::unique_ptr<llvm::orc::TaskDispatcher> D,
                                std::shared_ptr<llvm::orc::SymbolStringPool> SSP)
      : ExecutorProcessControl(std::move(SSP), std::move(D)), Controller(Controller), OwnedMemMgr(Controller) {}

  static llvm::orc::shared::WrapperFunctionBuffer failed(farcall_error *Taken) {
    auto Buffer = llvm::orc::shared::WrapperFunctionBuffer::createOutOfBandError(farcall_error_message(Taken));
    farcall_error_consume(Taken);
    return Buffer;
  }

  llvm::Error setUp() {
    using namespace llvm::orc;
    char *Triple = nullptr;
    if (auto Err = takeError(farcall_controller_triple(Controller, &Triple)))
      return Err;
    TargetTriple = llvm::Triple(Triple);
    farcall_text_free(Triple);
    uint64_t Bytes = 0;
    if (auto Err = takeError(farcall_controller_page_bytes(Controller, &Bytes)))
      return Err;
    PageSize = static_cast<unsigned>(Bytes);

    auto OnSymbol = [](const char *Name, uint64_t Address, void *Context) {
      (*static_cast<llvm::StringMap<ExecutorAddr> *>(Context))[Name] = ExecutorAddr(Address);
    };
    if (auto Err = takeError(farcall_controller_each_symbol(Controller, OnSymbol, &BootstrapSymbols)))
      return Err;
    auto OnValue = [](const char *Name, int64_t Value, void *Context) {
      std::vector<char> Packed(sizeof Value);
      shared::SPSOutputBuffer To(Packed.data(), Packed.size());
      shared::SPSArgList<int64_t>::serialize(To, Value);
      (*static_cast<llvm::StringMap<std::vector<char>> *>(Context))[Name] = std::move(Packed);
    };
    if (auto Err = takeError(farcall_controller_each_value(Controller, OnValue, &BootstrapMap)))
      return Err;

    FarcallDylibManager::SymbolAddrs Dylibs;
    EPCGenericMemoryAccess::FuncAddrs Memory;
    if (auto Err = getBootstrapSymbols({
            {JDI.JITDispatchFunction, SimpleRemoteEPCDefaultBootstrapSymbolNames::DispatchFnName},
            {JDI.JITDispatchContext, SimpleRemoteEPCDefaultBootstrapSymbolNames::ExecutorSessionObjectName},
            {RunAsMain, rt::RunAsMainWrapperName},
            {RunAsVoid, rt::RunAsVoidFunctionWrapperName},
            {RunAsInt, rt::RunAsIntFunctionWrapperName},
            {Dylibs.Instance, rt::SimpleExecutorDylibManagerInstanceName},
            {Dylibs.Open, rt::SimpleExecutorDylibManagerOpenWrapperName},
            {Dylibs.Resolve, rt::SimpleExecutorDylibManagerResolveWrapperName},
            {Memory.WriteUInt8s, rt::MemoryWriteUInt8sWrapperName},
            {Memory.WriteUInt16s, rt::MemoryWriteUInt16sWrapperName},
            {Memory.WriteUInt32s, rt::MemoryWriteUInt32sWrapperName},
            {Memory.WriteUInt64s, rt::MemoryWriteUInt64sWrapperName},
            {Memory.WritePointers, rt::MemoryWritePointersWrapperName},
            {Memory.WriteBuffers, rt::MemoryWriteBuffersWrapperName},
            {Memory.ReadUInt8s, rt::MemoryReadUInt8sWrapperName},
            {Memory.ReadUInt16s, rt::MemoryReadUInt16sWrapperName},
            {Memory.ReadUInt32s, rt::MemoryReadUInt32sWrapperName},
            {Memory.ReadUInt64s, rt::MemoryReadUInt64sWrapperName},
            {Memory.ReadPointers, rt::MemoryReadPointersWrapperName},
            {Memory.ReadBuffers, rt::MemoryReadBuffersWrapperName},
            {Memory.ReadStrings, rt::MemoryReadStringsWrapperName},
        }))
      return Err;
    MemMgr = &OwnedMemMgr;
    DylibMgr = &OwnedDylibMgr.emplace(*this, Dylibs);
    MemAccess = &OwnedMemAccess.emplace(Controller, *this, Memory);
    // Every tag is LLVM's: the address of a symbol that its session knows.
    return takeError(farcall_controller_handle_other_tags(Controller, dispatch, this));
  }

  // Runs a handler of the session for linked code. It may answer later, on another thread.
  static void dispatch(farcall_controller *Controller, uint64_t Tag, farcall_buffer Args, uint64_t Id, void *Context) {
    using llvm::orc::shared::WrapperFunctionBuffer;
    auto *Session = static_cast<FarcallExecutorProcessControl *>(Context)->ES;
    auto ArgBytes = takeBuffer(Args);
    auto Answer = [Controller, Id](WrapperFunctionBuffer Result) {
      // An error says that the session is over.
      farcall_error_consume(farcall_controller_answer(Controller, Id, giveBuffer(std::move(Result))));
    };
    if (Session == nullptr)
      Answer(WrapperFunctionBuffer::createOutOfBandError("no session of LLVM has this executor yet"));
    else
      Session->runJITDispatchHandler(std::move(Answer), llvm::orc::ExecutorAddr(Tag), std::move(ArgBytes));
  }

  farcall_controller *Controller;
  std::atomic<bool> IsClosed{false};
  FarcallMemoryManager OwnedMemMgr;
  std::optional<FarcallDylibManager> OwnedDylibMgr;
  std::optional<FarcallMemoryAccess> OwnedMemAccess;
  llvm::orc::ExecutorAddr RunAsMain;
  llvm::orc::ExecutorAddr RunAsVoid;
  llvm::orc::ExecutorAddr RunAsInt;
};

} // namespace farcall

#endif
