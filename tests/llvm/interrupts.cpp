// interrupts.cpp: calls that farcall/llvm.hpp ends while their executor lives: at a deadline, by a cancel, behind a lazy compile.
//
//     interrupts LINKED.o LINKED_WITH_RUNTIME.o ORC_RUNTIME.a SLOW_LIBRARY.so [ROUNDS [CASE]]
#include "check.hpp"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/JITLinkRedirectableSymbolManager.h"
#include "llvm/ExecutionEngine/Orc/JITLinkReentryTrampolines.h"
#include "llvm/ExecutionEngine/Orc/LazyReexports.h"
#include "llvm/Support/TargetSelect.h"

#include <atomic>
#include <future>
#include <thread>

using namespace llvm;
using namespace llvm::orc;
using namespace std::chrono_literals;
using farcall::call_options;
using farcall::FarcallError;
using shared::WrapperFunctionBuffer;

namespace {

std::string ObjectPath, ObjectWithRuntimePath, RuntimePath, SlowLibraryPath;
unsigned Rounds = 100;

// Far more than an interrupt takes.
constexpr auto GRACE = 20s;

farcall::FarcallExecutorProcessControl &epcOf(Executor &E) {
    return static_cast<farcall::FarcallExecutorProcessControl &>(controlOf(E));
}

ExecutorAddr found(Executor &E, const char *Name) { return cantFail(E.J->lookup(Name)); }

Executor linked() {
    auto E = started();
    cantFail(E.J->addObjectFile(cantFail(errorOrToExpected(MemoryBuffer::getFile(ObjectPath)))));
    return E;
}

// Counts the calls without end that have begun.
class Begun {
  public:
    explicit Begun(Executor &E) : Count(cantFail(farcall::function_at<int()>(epcOf(E), found(E, "begun")))) {}
    int now() const { return cantFail(Count()); }
    void await(int Least) const {
        while (now() < Least)
            std::this_thread::sleep_for(1ms);
    }

  private:
    farcall::ExecutorFunction<int()> Count;
};

// The message of a call that was interrupted in a function whose name begins so, after these words.
void isInterrupted(const std::string &Message, const std::string &Words, const std::string &Function) {
    auto Due = Words + ": interrupted in " + Function;
    if (!contains(Message, Due))
        std::fprintf(stderr, "%s\n", Message.c_str());
    CHECK(contains(Message, Due));
}

void isInterrupted(Error Failure, const std::string &Words, const std::string &Function) {
    CHECK(Failure.isA<FarcallError>());
    handleAllErrors(std::move(Failure), [&](const FarcallError &E) {
        isInterrupted(E.message(), Words, Function);
        CHECK(E.code() == FARCALL_INTERRUPTED);
    });
}

// The ways to run a function without end. Each returns the call's error.
std::vector<std::function<Error()>> ways(Executor &E) {
    auto &EPC = epcOf(E);
    auto Hang = found(E, "hang"), Main = found(E, "hang_main"), Wrapped = found(E, "hang_wrapped");
    auto Function = cantFail(farcall::function_at<int(int)>(EPC, Hang));
    auto OutOfBand = [](const WrapperFunctionBuffer &Result) {
        CHECK(Result.getOutOfBandError() != nullptr);
        return createStringError(inconvertibleErrorCode(), "%s", Result.getOutOfBandError());
    };
    return {
        [&EPC, Main] { return EPC.runAsMain(Main, {"name"}).takeError(); },
        [&EPC, Hang] { return EPC.runAsVoidFunction(Hang).takeError(); },
        [&EPC, Hang] { return EPC.runAsIntFunction(Hang, 1).takeError(); },
        [Function] { return Function(1).takeError(); },
        [&EPC, Wrapped, OutOfBand] { return OutOfBand(EPC.callWrapper(Wrapped, {})); },
        [&EPC, Wrapped] { return EPC.callSPSWrapper<void()>(Wrapped); },
    };
}

// Of these ways, the first four have errors of farcall's. LLVM makes the others' of the text.
void deadlines() {
    auto E = linked();
    auto &EPC = epcOf(E);
    Begun Count(E);
    auto Pid = pidOf(E);
    const auto Ways = ways(E);
    auto Incremented = cantFail(farcall::function_at<int(int)>(EPC, found(E, "incremented")));
    const char *Late = "the call did not return in time";
    for (unsigned Round = 0; Round != Rounds; ++Round)
        for (size_t Way = 0; Way != Ways.size(); ++Way) {
            auto Failure = EPC.callWith(call_options().timeout(3ms).grace(GRACE), Ways[Way]);
            if (Way < 4)
                isInterrupted(std::move(Failure), Late, "hang");
            else
                isInterrupted(message(std::move(Failure)), Late, "hang");
            // On a loaded machine a call may end before it has counted.
            CHECK(Count.now() <= static_cast<int>(Round * Ways.size() + Way + 1));
            CHECK(cantFail(Incremented(41)) == 42 && cantFail(EPC.runAsIntFunction(found(E, "incremented"), 1)) == 2);
        }
    CHECK(Count.now() > 0);
    CHECK(cantFail(EPC.callWith(call_options().timeout(1min), [&] { return Incremented(1); })) == 2);
    CHECK(pidOf(E) == Pid && usageOf(Pid).Maps > 0);
}

// Two calls at a time. Each has a cancel of its own, which another thread asks for.
void cancels() {
    auto E = linked();
    auto &EPC = epcOf(E);
    Begun Count(E);
    auto Pid = pidOf(E);
    const auto Ways = ways(E);
    int Due = 0;
    for (unsigned Round = 0; Round != Rounds; ++Round) {
        const auto &Way = Ways[Round % 4];
        std::atomic<bool> IsCancelled[2] = {false, false};
        auto Run = [&](int Own) {
            auto Look = [&IsCancelled, Own]() -> std::optional<std::string> {
                if (!IsCancelled[Own])
                    return std::nullopt;
                return "cancelled " + std::to_string(Own);
            };
            return EPC.callWith(call_options().watch(1ms, Look).grace(GRACE), Way);
        };
        auto First = std::async(std::launch::async, Run, 0), Second = std::async(std::launch::async, Run, 1);
        // Both threads count in one variable, so one may be lost.
        Count.await(Due + 1);
        IsCancelled[1] = true;
        isInterrupted(Second.get(), "cancelled 1", "hang");
        CHECK(First.wait_for(0s) == std::future_status::timeout);
        IsCancelled[0] = true;
        isInterrupted(First.get(), "cancelled 0", "hang");
        Due = Count.now();
    }
    CHECK(pidOf(E) == Pid);
}

// What LLVM calls, and what a handler calls, goes to its end, whatever becomes of the call.
void others() {
    auto E = started();
    auto &EPC = epcOf(E);
    auto &ES = E.J->getExecutionSession();
    auto Info = EPC.getJITDispatchInfo();
    cantFail(E.J->getMainJITDylib().define(
        absoluteSymbols({{ES.intern("dispatch"), {Info.JITDispatchFunction, JITSymbolFlags::Exported | JITSymbolFlags::Callable}},
                         {ES.intern("session"), {Info.JITDispatchContext, JITSymbolFlags::Exported}}})));
    cantFail(E.J->addObjectFile(cantFail(errorOrToExpected(MemoryBuffer::getFile(ObjectPath)))));
    cantFail(E.J->addIRModule(module(R"(
@tag = global i8 0
@session = external global i8
declare { ptr, i64 } @dispatch(ptr, ptr, ptr, i64)
declare { ptr, i64 } @hang_wrapped(ptr, i64)
define { ptr, i64 } @ask_and_hang(ptr %args, i64 %size) uwtable {
  %answer = call { ptr, i64 } @dispatch(ptr @session, ptr @tag, ptr %args, i64 %size)
  %result = call { ptr, i64 } @hang_wrapped(ptr %args, i64 %size)
  ret { ptr, i64 } %result
}
)")));
    auto Ended = call_options().watch(1ms, [] { return std::optional<std::string>("cancelled"); }).grace(GRACE);
    // The load of a dylib, and links, whose memory has actions.
    auto Handle = EPC.callWith(Ended, [&] { return EPC.getDylibMgr().loadDylib(SlowLibraryPath.c_str()); });
    CHECK(cantFail(std::move(Handle)) != ExecutorAddr());
    auto Ask = EPC.callWith(Ended, [&] { return found(E, "ask_and_hang"); });
    auto Busy = cantFail(farcall::function_at<void(long)>(EPC, found(E, "busy")));
    Begun Count(E);
    // A handler whose own call takes long.
    std::atomic<int> Served{0};
    std::atomic<bool> Begins{false};
    ExecutionSession::JITDispatchHandlerAssociationMap Handlers;
    Handlers[EPC.intern("tag")] = [&](ExecutionSession::SendResultFunction Send, const char *, size_t) {
        Begins = true;
        cantFail(Busy(600));
        ++Served;
        Send(WrapperFunctionBuffer());
    };
    cantFail(ES.registerJITDispatchHandlers(E.J->getMainJITDylib(), std::move(Handlers)));
    auto Behind = call_options().grace(GRACE).watch(
        1ms, [&] { return Begins ? std::optional<std::string>("cancelled") : std::nullopt; });
    for (int Round = 0; Round != 3; ++Round)
        for (const auto &Options : {Behind, call_options().timeout(500ms).grace(GRACE)}) {
            Begins = false;
            auto Result = EPC.callWith(Options, [&] { return EPC.callWrapper(Ask, {}); });
            CHECK(Result.getOutOfBandError() != nullptr);
            CHECK(contains(Result.getOutOfBandError(), ": interrupted in "));
        }
    CHECK(Served == 6);
    // A scope inside of a scope.
    EPC.callWith(Ended, [&] {
        cantFail(EPC.callWith(call_options(), [&] { return Busy(50); }));
        isInterrupted(Busy(60000), "cancelled", "busy");
    });
    cantFail(Busy(1));
}

// An executor with LLVM's runtime.
Executor withRuntime() {
    auto J = LLJITBuilder()
                 .setExecutorProcessControl(cantFail(control("farcall", "")))
                 .setPlatformSetUp(ExecutorNativePlatform(RuntimePath))
                 .create();
    return {"farcall", cantFail(std::move(J))};
}

// A function whose code is compiled by its first call: with a number below 0 it has no end.
std::string late(const std::string &Name) {
    return "@" + Name + "_turns = global i64 0\ndefine i32 @" + Name + R"(_body(i32 %number) uwtable {
  %ends = icmp sge i32 %number, 0
  br i1 %ends, label %end, label %turn
turn:
  %before = load volatile i64, ptr @)" + Name + R"(_turns
  %after = add i64 %before, 1
  store volatile i64 %after, ptr @)" + Name + R"(_turns
  br label %turn
end:
  %result = add i32 %number, 1
  ret i32 %result
}
)";
}

// A call that is ended while it waits for its code ends behind the compile. The next call has the code.
void lazy() {
    std::unique_ptr<RedirectableSymbolManager> Stubs;
    std::unique_ptr<LazyReexportsManager> Lazies;
    auto E = withRuntime();
    auto &EPC = epcOf(E);
    auto &Dylib = E.J->getMainJITDylib();
    auto &Layer = static_cast<ObjectLinkingLayer &>(E.J->getObjLinkingLayer());
    Stubs = cantFail(JITLinkRedirectableSymbolManager::Create(Layer));
    Lazies = cantFail(createJITLinkLazyReexportsManager(Layer, *Stubs, *E.J->getPlatformJITDylib()));
    std::atomic<int> Compiled{0};
    std::atomic<bool> IsCancelled{false};
    E.J->getIRTransformLayer().setTransform([&](ThreadSafeModule TSM, MaterializationResponsibility &) {
        ++Compiled;
        std::this_thread::sleep_for(30ms);
        IsCancelled = true;
        std::this_thread::sleep_for(30ms);
        return Expected<ThreadSafeModule>(std::move(TSM));
    });
    auto Cancel = call_options().grace(GRACE).watch(1ms, [&] {
        return IsCancelled ? std::optional<std::string>("cancelled") : std::nullopt;
    });
    auto Deadline = call_options().grace(GRACE).timeout(20ms);
    auto Pid = pidOf(E);
    for (int Round = 0; Round != 20; ++Round) {
        auto Name = "late" + std::to_string(Round), Body = Name + "_body";
        cantFail(E.J->addIRModule(module(late(Name))));
        auto Flags = JITSymbolFlags::Exported | JITSymbolFlags::Callable;
        cantFail(Dylib.define(lazyReexports(
            *Lazies, SymbolAliasMap({{EPC.intern(Name), SymbolAliasMapEntry(EPC.intern(Body), Flags)}}))));
        auto Late = cantFail(farcall::function_at<int(int)>(EPC, found(E, Name.c_str())));
        CHECK(Compiled == Round);
        IsCancelled = false;
        bool IsCancel = Round % 2 == 0;
        auto Failure = EPC.callWith(IsCancel ? Cancel : Deadline, [&] { return Late(-1); }).takeError();
        isInterrupted(std::move(Failure), IsCancel ? "cancelled" : "the call did not return in time", Body);
        CHECK(Compiled == Round + 1);
        CHECK(cantFail(Late(Round)) == Round + 1);
        Failure = EPC.callWith(Deadline, [&] { return Late(-1); }).takeError();
        isInterrupted(std::move(Failure), "the call did not return in time", Body);
        CHECK(cantFail(EPC.callWith(Deadline, [&] { return Late(7); })) == 8);
        CHECK(Compiled == Round + 1);
    }
    CHECK(pidOf(E) == Pid);
    // They have names of the session, and the stubs go with it.
    cantFail(E.J->getExecutionSession().endSession());
    Lazies.reset();
}

// The constructors that LLJIT runs.
void initializers() {
    auto E = withRuntime();
    auto &EPC = epcOf(E);
    cantFail(E.J->addObjectFile(cantFail(errorOrToExpected(MemoryBuffer::getFile(ObjectWithRuntimePath)))));
    cantFail(E.J->addIRModule(module(R"(
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @construct, ptr null }]
declare i32 @hang(i32)
define void @construct() uwtable {
  %result = call i32 @hang(i32 0)
  ret void
}
)")));
    auto Run = [&] { return E.J->initialize(E.J->getMainJITDylib()); };
    auto Failure = EPC.callWith(call_options().timeout(500ms).grace(GRACE), Run);
    isInterrupted(message(std::move(Failure)), "the call did not return in time", "hang");
    CHECK(cantFail(EPC.runAsIntFunction(found(E, "incremented"), 1)) == 2);
    CHECK(Begun(E).now() == 1);
}

} // namespace

int main(int Count, char **Arguments) {
    farcall_run_if_spawned();
    CHECK(Count >= 5);
    ObjectPath = Arguments[1];
    ObjectWithRuntimePath = Arguments[2];
    RuntimePath = Arguments[3];
    SlowLibraryPath = Arguments[4];
    if (Count > 5)
        CHECK(!StringRef(Arguments[5]).getAsInteger(10, Rounds));
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    std::pair<const char *, void (*)()> Cases[] = {
        {"deadlines", deadlines}, {"cancels", cancels},           {"others", others},
        {"lazy", lazy},           {"initializers", initializers},
    };
    for (auto &[Name, Case] : Cases) {
        if (Count > 6 && StringRef(Arguments[6]) != Name)
            continue;
        Case();
        std::printf("%s\n", Name);
        std::fflush(stdout);
    }
    return 0;
}
