// farcall/llvm/process_control.hpp: the class that a program makes, which owns the others.
#ifndef FARCALL_LLVM_PROCESS_CONTROL_HPP
#define FARCALL_LLVM_PROCESS_CONTROL_HPP

#include <farcall.hpp>
#include <farcall/llvm/buffer.hpp>
#include <farcall/llvm/call_scope.hpp>
#include <farcall/llvm/dylib_manager.hpp>
#include <farcall/llvm/error.hpp>
#include <farcall/llvm/memory_access.hpp>
#include <farcall/llvm/memory_manager.hpp>

#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/Shared/OrcRTBridge.h"
#include "llvm/ExecutionEngine/Orc/Shared/SimpleRemoteEPCUtils.h"
#include "llvm/ExecutionEngine/Orc/Shared/WrapperFunctionUtils.h"
#include "llvm/ExecutionEngine/Orc/TaskDispatch.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

// An executor process of farcall that runs the code of an LLVM JIT.
//
// It takes the place of llvm::orc::SimpleRemoteEPC. The executor ends with disconnect, which LLVM's ExecutionSession calls at its
// end, or with this object.
class FarcallExecutorProcessControl : public llvm::orc::ExecutorProcessControl {
public:
  // Options of which only the size is set: the executor is the program that the variable FARCALL_EXECUTOR names, or the file
  // farcall-executor beside this program. With this_program set, main must first call farcall_run_if_spawned.
  static farcall_executor_options options() {
    farcall_executor_options Options = {};
    Options.size = sizeof Options;
    return Options;
  }

  // Starts an executor. By default tasks run on the thread that dispatches them, as in LLVM's SelfExecutorProcessControl.
  static llvm::Expected<std::unique_ptr<FarcallExecutorProcessControl>>
  Create(const farcall_executor_options &Options = options(), std::unique_ptr<llvm::orc::TaskDispatcher> D = nullptr,
         std::shared_ptr<llvm::orc::SymbolStringPool> SSP = nullptr) {
    if (auto Err = takeError(farcall_check_version(FARCALL_VERSION)))
      return Err;
    farcall_executor *Executor = nullptr;
    if (auto Err = takeError(farcall_executor_start(&Options, &Executor)))
      return Err;
    farcall_process *Process = nullptr;
    if (auto Err = takeError(farcall_executor_process(Executor, 0, &Process))) {
      farcall_error_consume(farcall_executor_close(Executor));
      return Err;
    }
    if (D == nullptr)
      D = std::make_unique<TasksInPlace>();
    if (SSP == nullptr)
      SSP = std::make_shared<llvm::orc::SymbolStringPool>();
    std::unique_ptr<FarcallExecutorProcessControl> EPC(
        new FarcallExecutorProcessControl(Executor, Process, std::move(D), std::move(SSP)));
    if (auto Err = EPC->setUp())
      return Err;
    return EPC;
  }

  // The executor is this process: for code that is trusted as this program is. Addresses of what FarcallObjectLayer links are pointers.
  static llvm::Expected<std::unique_ptr<FarcallExecutorProcessControl>> CreateInProcess() {
    auto Options = options();
    Options.in_process = true;
    return Create(Options);
  }

  FarcallExecutorProcessControl(const FarcallExecutorProcessControl &) = delete;
  FarcallExecutorProcessControl &operator=(const FarcallExecutorProcessControl &) = delete;
  ~FarcallExecutorProcessControl() override { llvm::consumeError(disconnect()); }

  // The executor and its process, for what LLVM's classes do not have: libraries, regions, how it died, to kill it. This object closes
  // them.
  farcall_executor *getExecutor() const { return Executor; }
  farcall_process *getProcess() const { return Process; }

  // The process of an executor of any class; null if it is none of farcall's.
  static farcall_process *processOf(ExecutorProcessControl &EPC) {
    auto Found = EPC.getBootstrapMap().find(ProcessKey);
    if (Found == EPC.getBootstrapMap().end())
      return nullptr;
    farcall_process *Process = nullptr;
    std::memcpy(&Process, Found->second.data(), std::min(Found->second.size(), sizeof Process));
    return Process;
  }

  // Returns what Work returns. Each call of linked code that Work makes on this thread has these options: a deadline, a cancel, or both.
  // Work makes it by any function of LLVM's, such as runAsMain, callSPSWrapper or LLJIT::initialize, or by an ExecutorFunction.
  //
  // A call that the options end is interrupted. It fails with FARCALL_INTERRUPTED, and the executor keeps its variables. The calls of
  // farcall's managers of memory and dylibs, of LLVM's tasks, and of handlers of JIT dispatch have no options, nor have those of other
  // threads. A handler that runs, such as a lazy compile, goes to its end first. Any thread may call this, also inside of itself.
  template <class F> auto callWith(const call_options &Options, F &&Work) {
    const farcall_call_options Made = Options.get();
    CallScope Scope(&Made);
    return std::forward<F>(Work)();
  }

  llvm::Expected<int32_t> runAsMain(llvm::orc::ExecutorAddr Main, llvm::ArrayRef<std::string> Args) override {
    int64_t Result = 0;
    if (auto Err = run<llvm::orc::rt::SPSRunAsMainSignature>(RunAsMain, Result, Main, Args))
      return Err;
    return static_cast<int32_t>(Result);
  }

  llvm::Expected<int32_t> runAsVoidFunction(llvm::orc::ExecutorAddr Function) override {
    int32_t Result = 0;
    if (auto Err = run<llvm::orc::rt::SPSRunAsVoidFunctionSignature>(RunAsVoid, Result, Function))
      return Err;
    return Result;
  }

  llvm::Expected<int32_t> runAsIntFunction(llvm::orc::ExecutorAddr Function, int Arg) override {
    int32_t Result = 0;
    if (auto Err = run<llvm::orc::rt::SPSRunAsIntFunctionSignature>(RunAsInt, Result, Function, Arg))
      return Err;
    return Result;
  }

  using ExecutorProcessControl::callWrapperAsync;
  void callWrapperAsync(llvm::orc::ExecutorAddr Function, IncomingWFRHandler OnComplete, llvm::ArrayRef<char> Args) override {
    farcall_buffer Result;
    farcall_error *Error = call(Function, Args.data(), Args.size(), Result);
    OnComplete(Error == nullptr ? takeBuffer(Result) : failed(Error));
  }

  // Ends the executor. Calls under way fail.
  llvm::Error disconnect() override {
    if (IsClosed.exchange(true))
      return llvm::Error::success();
    OwnedMemMgr.end();
    return takeError(farcall_executor_close(Executor));
  }

private:
  // What a task calls is LLVM's, and has no options.
  struct TasksInPlace : llvm::orc::InPlaceTaskDispatcher {
    void dispatch(std::unique_ptr<llvm::orc::Task> T) override {
      CallScope Scope(nullptr);
      InPlaceTaskDispatcher::dispatch(std::move(T));
    }
  };

  FarcallExecutorProcessControl(farcall_executor *Executor, farcall_process *Process,
                                std::unique_ptr<llvm::orc::TaskDispatcher> D,
                                std::shared_ptr<llvm::orc::SymbolStringPool> SSP)
      : ExecutorProcessControl(std::move(SSP), std::move(D)), Executor(Executor), Process(Process), OwnedMemMgr(Process) {}

  farcall_error *call(llvm::orc::ExecutorAddr Function, const char *Args, size_t Size, farcall_buffer &Result) {
    const farcall_call_options *Options = CallScope::current();
    if (Options == nullptr)
      return farcall_process_call(Process, Function.getValue(), Args, Size, &Result);
    return farcall_process_call_with(Process, Function.getValue(), Options, Args, Size, &Result);
  }

  // Calls a wrapper function of the executor that calls linked code. A failure of the call is a FarcallError.
  template <typename Signature, typename R, typename... A>
  llvm::Error run(llvm::orc::ExecutorAddr Runner, R &Returned, const A &...Args) {
    using llvm::orc::shared::WrapperFunctionBuffer;
    farcall_error *Failure = nullptr;
    auto Caller = [&](const char *Bytes, size_t Size) {
      farcall_buffer Result;
      Failure = call(Runner, Bytes, Size, Result);
      return Failure == nullptr ? takeBuffer(Result) : WrapperFunctionBuffer::createOutOfBandError("");
    };
    auto Err = llvm::orc::shared::WrapperFunction<Signature>::call(Caller, Returned, Args...);
    if (Failure == nullptr)
      return Err;
    llvm::consumeError(std::move(Err));
    return takeError(Failure);
  }

  static llvm::orc::shared::WrapperFunctionBuffer failed(farcall_error *Taken) {
    auto Buffer = llvm::orc::shared::WrapperFunctionBuffer::createOutOfBandError(farcall_error_message(Taken));
    farcall_error_consume(Taken);
    return Buffer;
  }

  llvm::Error setUp() {
    using namespace llvm::orc;
    char *Triple = nullptr;
    if (auto Err = takeError(farcall_process_triple(Process, &Triple)))
      return Err;
    TargetTriple = llvm::Triple(Triple);
    farcall_text_free(Triple);
    uint64_t Bytes = 0;
    if (auto Err = takeError(farcall_process_page_bytes(Process, &Bytes)))
      return Err;
    PageSize = static_cast<unsigned>(Bytes);

    auto OnSymbol = [](const char *Name, uint64_t Address, void *Context) {
      (*static_cast<llvm::StringMap<ExecutorAddr> *>(Context))[Name] = ExecutorAddr(Address);
    };
    if (auto Err = takeError(farcall_process_each_symbol(Process, OnSymbol, &BootstrapSymbols)))
      return Err;
    auto OnValue = [](const char *Name, int64_t Value, void *Context) {
      std::vector<char> Packed(sizeof Value);
      shared::SPSOutputBuffer To(Packed.data(), Packed.size());
      shared::SPSArgList<int64_t>::serialize(To, Value);
      (*static_cast<llvm::StringMap<std::vector<char>> *>(Context))[Name] = std::move(Packed);
    };
    if (auto Err = takeError(farcall_process_each_value(Process, OnValue, &BootstrapMap)))
      return Err;

    auto &Own = BootstrapMap[ProcessKey];
    Own.resize(sizeof Process);
    std::memcpy(Own.data(), &Process, sizeof Process);

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
    MemAccess = &OwnedMemAccess.emplace(Process, *this, Memory);
    // Every tag is LLVM's: the address of a symbol that its session knows.
    return takeError(farcall_process_handle_other_tags(Process, dispatch, this));
  }

  // Runs a handler of the session for linked code. It may answer later, on another thread.
  static void dispatch(farcall_process *Process, uint64_t Tag, farcall_buffer Args, uint64_t Id, void *Context) {
    using llvm::orc::shared::WrapperFunctionBuffer;
    // What the handler calls is LLVM's, or a call of its own.
    CallScope Scope(nullptr);
    auto *Session = static_cast<FarcallExecutorProcessControl *>(Context)->ES;
    auto ArgBytes = takeBuffer(Args);
    auto Answer = [Process, Id](WrapperFunctionBuffer Result) {
      // An error says that the session is over.
      farcall_error_consume(farcall_process_answer(Process, Id, giveBuffer(std::move(Result))));
    };
    if (Session == nullptr)
      Answer(WrapperFunctionBuffer::createOutOfBandError("no session of LLVM has this executor yet"));
    else
      Session->runJITDispatchHandler(std::move(Answer), llvm::orc::ExecutorAddr(Tag), std::move(ArgBytes));
  }

  // Under this name the values of the executor have its process.
  static constexpr const char *ProcessKey = "farcall process";

  farcall_executor *Executor;
  farcall_process *Process;
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
