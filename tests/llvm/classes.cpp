// classes.cpp: the classes of farcall/llvm.hpp, one after the other: calls, memory, dylibs, JIT dispatch, links, ends.
//
//     classes LINKED.o LINKED_WITH_RUNTIME.o ORC_RUNTIME.a [ROUNDS [CASE]]
#include "check.hpp"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Debugging/DebuggerSupport.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"

#include <atomic>
#include <thread>

using namespace llvm;
using namespace llvm::orc;
using shared::WrapperFunctionBuffer;

namespace {

std::string ObjectPath, ObjectWithRuntimePath, RuntimePath;
unsigned Rounds = 1000;

// Wrapper functions, and the functions that they need.
constexpr const char *WRAPPERS = R"(
@private = private constant [8 x i8] c"private\00"
@noted = global i64 0
@tag = global i8 0
@other_tag = global i8 0
@session = external global i8
declare { ptr, i64 } @dispatch(ptr, ptr, ptr, i64)
declare ptr @strdup(ptr)
define { ptr, i64 } @refuse(ptr %args, i64 %size) {
  %text = call ptr @strdup(ptr @private)
  %result = insertvalue { ptr, i64 } zeroinitializer, ptr %text, 0
  ret { ptr, i64 } %result
}
define { ptr, i64 } @allocated(ptr %args, i64 %size) {
  %text = call ptr @strdup(ptr @private)
  %result = insertvalue { ptr, i64 } { ptr null, i64 8 }, ptr %text, 0
  ret { ptr, i64 } %result
}
define { i64, i64 } @note(ptr %args, i64 %size) {
  %number = load i64, ptr %args, align 1
  %before = load i64, ptr @noted
  %ten = mul i64 %before, 10
  %after = add i64 %ten, %number
  store i64 %after, ptr @noted
  ret { i64, i64 } { i64 0, i64 1 }
}
define { ptr, i64 } @ask(ptr %args, i64 %size) {
  %result = call { ptr, i64 } @dispatch(ptr @session, ptr @tag, ptr %args, i64 %size)
  ret { ptr, i64 } %result
}
define { ptr, i64 } @ask_nobody(ptr %args, i64 %size) {
  %result = call { ptr, i64 } @dispatch(ptr @session, ptr @other_tag, ptr %args, i64 %size)
  ret { ptr, i64 } %result
}
)";

// An executor with FUNCTIONS and WRAPPERS.
Executor withWrappers() {
    auto E = started();
    auto &ES = E.J->getExecutionSession();
    auto Info = controlOf(E).getJITDispatchInfo();
    cantFail(E.J->getMainJITDylib().define(
        absoluteSymbols({{ES.intern("dispatch"), {Info.JITDispatchFunction, JITSymbolFlags::Exported | JITSymbolFlags::Callable}},
                         {ES.intern("session"), {Info.JITDispatchContext, JITSymbolFlags::Exported}}})));
    cantFail(E.J->addIRModule(module(FUNCTIONS)));
    cantFail(E.J->addIRModule(module(WRAPPERS)));
    return E;
}

ExecutorAddr found(Executor &E, const char *Name) { return cantFail(E.J->lookup(Name)); }

std::unique_ptr<MemoryBuffer> object(const std::string &Path = ObjectPath) {
    return cantFail(errorOrToExpected(MemoryBuffer::getFile(Path)));
}

void calls() {
    auto E = withWrappers();
    auto &EPC = controlOf(E);
    CHECK(EPC.getTargetTriple().isOSLinux() && EPC.getPageSize() == 4096);
    auto Sum = found(E, "sum");
    CHECK(called<int64_t>(E, Sum, {3, 4}) == 7);
    auto Refused = EPC.callWrapper(found(E, "refuse"), {});
    CHECK(Refused.getOutOfBandError() != nullptr && contains(Refused.getOutOfBandError(), "private"));
    int64_t Pair[2] = {40, 2};
    std::atomic<int64_t> Answer{0};
    EPC.callWrapperAsync(
        Sum, [&](WrapperFunctionBuffer Result) { Answer = unpacked<int64_t>(Result); },
        ArrayRef<char>(reinterpret_cast<char *>(Pair), sizeof Pair));
    CHECK(Answer == 42);
    std::vector<std::thread> Threads;
    for (int64_t Own = 0; Own != 8; ++Own)
        Threads.emplace_back([&, Own] {
            for (int64_t At = 0; At != 10000; ++At)
                CHECK(called<int64_t>(E, Sum, {At, Own}) == At + Own);
        });
    for (auto &Thread : Threads)
        Thread.join();
}

// P5: what a program in process does by toPtr.
void functions() {
    auto E = started();
    auto &EPC = static_cast<farcall::FarcallExecutorProcessControl &>(controlOf(E));
    cantFail(E.J->addObjectFile(object()));
    auto Incremented = cantFail(farcall::function_at<int(int)>(EPC, found(E, "incremented")));
    CHECK(cantFail(Incremented(-3)) == -2);
    auto Copy = Incremented;
    CHECK(cantFail(Copy(41)) == 42);
    farcall::pointer Place{found(E, "Kept").getValue()};
    auto Keep = cantFail(farcall::function_at<void(farcall::pointer, long)>(EPC, found(E, "keep")));
    auto Kept = cantFail(farcall::function_at<long(farcall::pointer)>(EPC, found(E, "kept")));
    cantFail(Keep(Place, 7));
    CHECK(cantFail(Kept(Place)) == 7);
    auto Crash = cantFail(farcall::function_at<int(int)>(EPC, found(E, "crash")));
    CHECK(contains(message(Crash(0)), "SIGSEGV"));
    CHECK(contains(message(Incremented(1)), "SIGSEGV"));
    cantFail(EPC.disconnect());
    CHECK(!message(Incremented(1)).empty());
}

void runs() {
    auto E = started();
    auto &EPC = controlOf(E);
    cantFail(E.J->addObjectFile(object()));
    CHECK(cantFail(EPC.runAsMain(found(E, "arguments"), {"name", "four"})) == 204);
    CHECK(cantFail(EPC.runAsVoidFunction(found(E, "seven"))) == 7);
    CHECK(cantFail(EPC.runAsIntFunction(found(E, "incremented"), -3)) == -2);
}

template <typename T, typename W> void words(MemoryAccess &Memory, ExecutorAddr Shared, ExecutorAddr Private, T Value,
                                             Error (MemoryAccess::*Write)(ArrayRef<W>),
                                             Expected<std::vector<T>> (MemoryAccess::*Read)(ArrayRef<ExecutorAddr>)) {
    // Aligned, not aligned, and in memory that only the executor has.
    ExecutorAddr Places[] = {Shared, Shared + 17, Private, Shared + 32};
    std::vector<W> Writes;
    for (auto Place : Places)
        Writes.push_back(W(Place, Value));
    cantFail((Memory.*Write)(Writes));
    CHECK(cantFail((Memory.*Read)(ArrayRef<ExecutorAddr>(Places))) == std::vector<T>(4, Value));
    CHECK(cantFail((Memory.*Read)(ArrayRef<ExecutorAddr>(Places).take_front(2))) == std::vector<T>(2, Value));
    // What comes before an address that cannot be written is written, and the executor continues.
    Writes = {W(Shared, T{}), W(ExecutorAddr(16), T{})};
    CHECK(!message((Memory.*Write)(Writes)).empty());
    CHECK(!message((Memory.*Read)(ExecutorAddr(16))).empty());
    CHECK(cantFail((Memory.*Read)(Shared)) == std::vector<T>(1, T{}));
}

void memoryAccess() {
    auto E = withWrappers();
    auto &Memory = controlOf(E).getMemoryAccess();
    cantFail(E.J->addIRModule(module("@area = global [64 x i8] zeroinitializer, align 16")));
    auto Shared = found(E, "area");
    auto Private = ExecutorAddr(called<uint64_t>(E, found(E, "allocated")));
    uint64_t Bytes = 0;
    void *Working = nullptr;
    cantFail(farcall::takeError(farcall_process_shared_memory(processOf(E), Shared.getValue(), &Working, &Bytes)));
    CHECK(Bytes >= 64);
    CHECK(contains(message(farcall::takeError(farcall_process_shared_memory(processOf(E), Private.getValue(), &Working, &Bytes))),
                   "memory for linked code"));

    CHECK(cantFail(Memory.readStrings({Private, Private + 4})) == (std::vector<std::string>{"private", "ate"}));
    words<uint8_t>(Memory, Shared, Private, 0x12, &MemoryAccess::writeUInt8s, &MemoryAccess::readUInt8s);
    words<uint16_t>(Memory, Shared, Private, 0x1234, &MemoryAccess::writeUInt16s, &MemoryAccess::readUInt16s);
    words<uint32_t>(Memory, Shared, Private, 0x12345678, &MemoryAccess::writeUInt32s, &MemoryAccess::readUInt32s);
    words<uint64_t>(Memory, Shared, Private, 0x123456789abcdef0, &MemoryAccess::writeUInt64s, &MemoryAccess::readUInt64s);
    words<ExecutorAddr>(Memory, Shared, Private, Private, &MemoryAccess::writePointers, &MemoryAccess::readPointers);

    std::string Text = "in place";
    ArrayRef<char> Content(Text.c_str(), Text.size() + 1);
    cantFail(Memory.writeBuffers({{Shared + 3, Content}, {Private, Content.drop_front(3)}}));
    CHECK(cantFail(Memory.readStrings({Shared + 3})) == std::vector<std::string>{"in place"});
    CHECK(cantFail(Memory.readStrings({Shared + 3, Private})) == (std::vector<std::string>{"in place", "place"}));
    auto Buffers = cantFail(Memory.readBuffers({{Shared + 3, Shared + 5}, {Private, Private + 2}}));
    CHECK(Buffers[0] == (std::vector<uint8_t>{'i', 'n'}) && Buffers[1] == (std::vector<uint8_t>{'p', 'l'}));
    CHECK(!message(Memory.readStrings({ExecutorAddr(16)})).empty());
    CHECK(!message(Memory.writeBuffers({{ExecutorAddr(16), Content}})).empty());
}

void dylibs() {
    auto E = started();
    auto &ES = E.J->getExecutionSession();
    auto &Dylibs = controlOf(E).getDylibMgr();
    auto Process = cantFail(Dylibs.loadDylib(nullptr));
    auto Math = cantFail(Dylibs.loadDylib("libm.so.6"));
    CHECK(contains(message(Dylibs.loadDylib("no/such/library.so")), "library.so"));
    SymbolLookupSet First, Second, Third;
    First.add(ES.intern("strlen"));
    First.add(ES.intern("no_such_symbol"), SymbolLookupFlags::WeaklyReferencedSymbol);
    Second.add(ES.intern("cos"));
    Third.add(ES.intern("malloc"));
    Third.add(ES.intern("free"));
    auto Found = cantFail(Dylibs.lookupSymbols({{Process, First}, {Math, Second}, {Process, Third}}));
    CHECK(Found.size() == 3 && Found[0].size() == 2 && Found[1].size() == 1 && Found[2].size() == 2);
    CHECK(Found[0][0] && Found[0][0]->getAddress() && (!Found[0][1] || !Found[0][1]->getAddress()));
    CHECK(Found[1][0]->getAddress() && Found[2][0]->getAddress() && Found[2][1]->getAddress());
    CHECK(Found[2][0]->getAddress() != Found[2][1]->getAddress());
    CHECK(cantFail(Dylibs.lookupSymbols({})).empty());
    CHECK(contains(message(E.J->lookup("no_such_symbol")), "no_such_symbol"));
}

void dispatch() {
    auto E = withWrappers();
    auto &EPC = controlOf(E);
    auto Sum = found(E, "sum");
    auto Ask = found(E, "ask");
    ExecutionSession::JITDispatchHandlerAssociationMap Handlers;
    std::vector<std::thread> Later;
    std::mutex Mutex;
    // It answers at once or later, or calls the executor in turn.
    Handlers[EPC.intern("tag")] = [&](ExecutionSession::SendResultFunction Send, const char *Data, size_t Size) {
        std::string Text(Data, Size);
        if (Text == "later") {
            std::lock_guard<std::mutex> Lock(Mutex);
            Later.emplace_back([Send = std::move(Send)]() mutable { Send(WrapperFunctionBuffer::copyFrom("from a thread")); });
        } else if (Text == "nested") {
            Send(WrapperFunctionBuffer::copyFrom(std::to_string(called<int64_t>(E, Sum, {20, 22}))));
        } else {
            Send(WrapperFunctionBuffer::createOutOfBandError("no " + Text));
        }
    };
    cantFail(E.J->getExecutionSession().registerJITDispatchHandlers(E.J->getMainJITDylib(), std::move(Handlers)));
    auto Asked = [&](ExecutorAddr Function, StringRef Text) {
        return EPC.callWrapper(Function, ArrayRef<char>(Text.data(), Text.size()));
    };
    CHECK(StringRef(Asked(Ask, "later").data()) == "from a thread");
    CHECK(StringRef(Asked(Ask, "nested").data()) == "42");
    CHECK(contains(Asked(Ask, "answer").getOutOfBandError(), "no answer"));
    CHECK(Asked(found(E, "ask_nobody"), "x").getOutOfBandError() != nullptr);
    std::vector<std::thread> Threads;
    for (int Own = 0; Own != 4; ++Own)
        Threads.emplace_back([&] {
            for (int At = 0; At != 200; ++At) {
                CHECK(StringRef(Asked(Ask, "nested").data()) == "42");
                CHECK(At % 20 != 0 || StringRef(Asked(Ask, "later").data()) == "from a thread");
            }
        });
    for (auto &Thread : Threads)
        Thread.join();
    for (auto &Thread : Later)
        Thread.join();
}

// A graph with a section of zeros, or of this content.
std::unique_ptr<jitlink::LinkGraph> graph(Executor &E, AllocGroup Group, StringRef Content, uint64_t Zeros, uint64_t Alignment) {
    auto &EPC = controlOf(E);
    auto G = std::make_unique<jitlink::LinkGraph>("graph", EPC.getSymbolStringPool(), EPC.getTargetTriple(), SubtargetFeatures(),
                                                  jitlink::getGenericEdgeKindName);
    auto &Section = G->createSection("section", Group.getMemProt());
    Section.setMemLifetime(Group.getMemLifetime());
    if (!Content.empty())
        G->createContentBlock(Section, ArrayRef<char>(Content.data(), Content.size()), ExecutorAddr(), Alignment, 0);
    if (Zeros > 0)
        G->createZeroFillBlock(Section, Zeros, ExecutorAddr(), Alignment, 0);
    return G;
}

shared::WrapperFunctionCall note(ExecutorAddr Function, int64_t Number) {
    return cantFail(shared::WrapperFunctionCall::Create<shared::SPSArgList<int64_t>>(Function, Number));
}

void memoryManager() {
    auto E = withWrappers();
    auto &EPC = controlOf(E);
    auto &MemMgr = EPC.getMemMgr();
    auto &Memory = EPC.getMemoryAccess();
    auto Data = MemProt::Read | MemProt::Write;
    auto Note = found(E, "note"), Noted = found(E, "noted"), Nothing = found(E, "nothing");
    auto NotedNow = [&] { return cantFail(Memory.readUInt64s({Noted}))[0]; };

    // No memory is both written and executed.
    auto Both = graph(E, Data | MemProt::Exec, "x", 0, 1);
    CHECK(contains(message(MemMgr.allocate(nullptr, *Both)), "both written and executed"));

    // More alignment than a page has, zeros behind content, and memory that was used before: what is no content is zero.
    for (int Round = 0; Round != 3; ++Round)
        for (auto Lifetime : {MemLifetime::Standard, MemLifetime::Finalize}) {
            auto G = graph(E, AllocGroup(Data, Lifetime), "content", 64 << 20, 1 << 16);
            auto Alloc = cantFail(MemMgr.allocate(nullptr, *G));
            std::vector<jitlink::Block *> Blocks(G->blocks().begin(), G->blocks().end());
            CHECK(Blocks.size() == 2);
            auto Before = usageOf(pidOf(E)).Kib + usageOf(getpid()).Kib;
            auto Finalized = cantFail(Alloc->finalize());
            for (auto *Block : Blocks) {
                CHECK(Block->getAddress().getValue() % (1 << 16) == 0);
                if (Block->isZeroFill()) {
                    auto Start = Block->getAddress();
                    auto Found = cantFail(Memory.readBuffers({{Start, Start + (1 << 16)}, {Start + (63 << 20), Start + (64 << 20)}}));
                    for (const auto &Bytes : Found)
                        CHECK(llvm::all_of(Bytes, [](uint8_t Byte) { return Byte == 0; }));
                    std::vector<char> Dirt(1 << 20, 'd');
                    cantFail(Memory.writeBuffers({{Start, Dirt}}));
                } else {
                    CHECK(cantFail(Memory.readBuffers({{Block->getAddress(), Block->getAddress() + 7}}))[0] ==
                          (std::vector<uint8_t>{'c', 'o', 'n', 't', 'e', 'n', 't'}));
                }
            }
            // Zeros take no memory until they are touched; what was touched are a few MiB.
            CHECK(usageOf(pidOf(E)).Kib + usageOf(getpid()).Kib < Before + (32 << 10));
            cantFail(MemMgr.deallocate(std::move(Finalized)));
        }

    // Actions: in order at first, in reverse at the end; those of the newest memory first.
    auto One = graph(E, Data, "1", 0, 1), Two = graph(E, Data, "", 0, 1), Empty = graph(E, Data, "", 0, 1);
    One->allocActions().push_back({note(Note, 1), note(Note, 2)});
    One->allocActions().push_back({note(Note, 3), note(Note, 4)});
    Two->allocActions().push_back({note(Note, 5), note(Note, 6)});
    std::vector<jitlink::JITLinkMemoryManager::FinalizedAlloc> Finalized;
    for (auto *G : {One.get(), Two.get(), Empty.get()})
        Finalized.push_back(cantFail(cantFail(MemMgr.allocate(nullptr, *G))->finalize()));
    (void)EPC.callWrapper(Nothing, {});
    CHECK(NotedNow() == 135);
    cantFail(MemMgr.deallocate(std::move(Finalized)));
    (void)EPC.callWrapper(Nothing, {});
    CHECK(NotedNow() == 135642);

    // A finalize action that fails: the next call fails, once.
    auto Failing = graph(E, Data, "f", 0, 1);
    Failing->allocActions().push_back({shared::WrapperFunctionCall(found(E, "refuse"), {}), {}});
    auto Base = cantFail(cantFail(MemMgr.allocate(nullptr, *Failing))->finalize());
    auto Result = EPC.callWrapper(Nothing, {});
    CHECK(Result.getOutOfBandError() != nullptr && contains(Result.getOutOfBandError(), "private"));
    CHECK(EPC.callWrapper(Nothing, {}).getOutOfBandError() == nullptr);
    (void)message(MemMgr.deallocate(std::move(Base)));

    // Abandoned memory is free again.
    for (unsigned Round = 0; Round != Rounds; ++Round) {
        auto G = graph(E, Data, std::string(1 << 20, 'a'), 0, 1);
        auto Alloc = cantFail(MemMgr.allocate(nullptr, *G));
        if (Round % 2 == 0)
            Alloc->abandon([](Error Failure) { cantFail(std::move(Failure)); });
    }
}

// In this process: the same links and calls, and pointers.
void place() {
    auto There = started();
    auto Here = cantFail(start("farcall-in-process", ""));
    CHECK(pidOf(Here) == getpid() && pidOf(There) != getpid());
    for (auto *E : {&There, &Here}) {
        auto &EPC = static_cast<farcall::FarcallExecutorProcessControl &>(controlOf(*E));
        cantFail(E->J->addObjectFile(object()));
        auto Incremented = cantFail(farcall::function_at<int(int)>(EPC, found(*E, "incremented")));
        CHECK(cantFail(Incremented(41)) == 42);
        cantFail(E->J->addIRModule(module(FUNCTIONS)));
        CHECK(called<int64_t>(*E, found(*E, "sum"), {40, 2}) == 42);
        auto Pointer = Incremented.pointer();
        if (E == &Here)
            CHECK(cantFail(std::move(Pointer))(41) == 42);
        else
            CHECK(contains(message(std::move(Pointer)), "the function is in another process"));
    }
}

// perf finds the functions of each link by their addresses, also when they are removed.
void perfMap() {
    auto E = started();
    auto &EPC = static_cast<farcall::FarcallExecutorProcessControl &>(controlOf(E));
    auto Map = cantFail(farcall::FarcallPerfMap::Create(EPC));
    auto Path = Map->path();
    CHECK(Path == "/tmp/perf-" + std::to_string(pidOf(E)) + ".map");
    static_cast<ObjectLinkingLayer &>(E.J->getObjLinkingLayer()).addPlugin(Map);
    auto Object = cantFail(compiled(E, LINKED));
    std::string Due;
    for (int At = 0; At != 3; ++At) {
        auto &Dylib = cantFail(E.J->createJITDylib("mapped " + std::to_string(At)));
        auto Tracker = Dylib.createResourceTracker();
        cantFail(E.J->addObjectFile(Tracker, MemoryBuffer::getMemBuffer(Object->getMemBufferRef(), false)));
        auto Linked = cantFail(E.J->lookup(Dylib, "linked"));
        Due = utohexstr(Linked.getValue(), true) + " ";
        cantFail(Tracker->remove());
        std::ifstream File(Path);
        std::string Text{std::istreambuf_iterator<char>(File), {}};
        auto Last = Text.rfind('\n', Text.size() - 2) + 1;
        CHECK(Text.compare(Last, Due.size(), Due) == 0 && contains(Text.substr(Last), " linked\n"));
        CHECK(std::count(Text.begin(), Text.end(), '\n') == At + 1);
    }
    // Another map of this process takes its place.
    CHECK(cantFail(farcall::FarcallPerfMap::Create(EPC))->path() == Path);
    CHECK(std::ifstream(Path).peek() == std::ifstream::traits_type::eof());
    std::remove(Path.c_str());
}

// Adds an object, looks a function up, calls it and removes the object, many times and from eight threads. Every other tracker is
// transferred first. Neither process keeps anything.
void layer() {
    auto E = started();
    std::string Assembly = std::string(LINKED) + R"(
define { i64, i64 } @run(ptr %args, i64 %size) {
  %number = call i64 @linked()
  %result = insertvalue { i64, i64 } { i64 0, i64 8 }, i64 %number, 0
  ret { i64, i64 } %result
}
)";
    auto Object = cantFail(compiled(E, Assembly));
    std::vector<JITDylib *> Own;
    for (int At = 0; At != 8; ++At)
        Own.push_back(&cantFail(E.J->createJITDylib("dylib " + std::to_string(At))));
    auto Work = [&](unsigned Count) {
        std::vector<std::thread> Threads;
        for (auto *Dylib : Own)
            Threads.emplace_back([&, Dylib] {
                for (unsigned At = 0; At != Count; ++At) {
                    auto Tracker = Dylib->createResourceTracker();
                    cantFail(E.J->addObjectFile(Tracker, MemoryBuffer::getMemBuffer(Object->getMemBufferRef(), false)));
                    auto Run = cantFail(E.J->lookup(*Dylib, "run"));
                    // Its data is new each time.
                    CHECK(called<int64_t>(E, Run) == 5 && called<int64_t>(E, Run) == 10);
                    if (At % 2 == 0) {
                        auto Other = Dylib->createResourceTracker();
                        Tracker->transferTo(*Other);
                        Tracker = Other;
                    }
                    cantFail(Tracker->remove());
                }
            });
        for (auto &Thread : Threads)
            Thread.join();
    };
    Work(Rounds / 8 + 1);
    Usage Before[2] = {usageOf(getpid()), usageOf(pidOf(E))};
    Work(Rounds);
    Usage After[2] = {usageOf(getpid()), usageOf(pidOf(E))};
    for (int At = 0; At != 2; ++At) {
        std::printf("  %s: %ld -> %ld descriptors, %ld -> %ld mappings, %ld -> %ld KiB\n", At == 0 ? "controller" : "executor",
                    Before[At].Descriptors, After[At].Descriptors, Before[At].Maps, After[At].Maps, Before[At].Kib, After[At].Kib);
        CHECK(After[At].Descriptors <= Before[At].Descriptors);
        CHECK(After[At].Maps <= Before[At].Maps + 16);
        CHECK(After[At].Kib <= Before[At].Kib + (16 << 10));
    }
}

// Exceptions pass the frames of linked code, which is removed and linked anew.
void exceptions() {
    auto E = started();
    for (unsigned Round = 0; Round != Rounds / 10 + 1; ++Round) {
        auto Tracker = E.J->getMainJITDylib().createResourceTracker();
        cantFail(E.J->addObjectFile(Tracker, object()));
        CHECK(cantFail(controlOf(E).runAsIntFunction(found(E, "caught"), 20)) == 21);
        cantFail(Tracker->remove());
    }
}

// With LLVM's runtime: constructors, thread-locals, and links that linked code asks for.
void runtime() {
    auto EPC = cantFail(control("farcall", ""));
    auto J = cantFail(LLJITBuilder()
                          .setExecutorProcessControl(std::move(EPC))
                          .setPlatformSetUp(ExecutorNativePlatform(RuntimePath))
                          .create());
    Executor E{"farcall", std::move(J)};
    cantFail(E.J->addObjectFile(object(ObjectWithRuntimePath)));
    cantFail(E.J->initialize(E.J->getMainJITDylib()));
    auto &EPCOf = controlOf(E);
    CHECK(cantFail(EPCOf.runAsIntFunction(found(E, "constructed"), 1)) == 42);
    auto Own = found(E, "own");
    CHECK(cantFail(EPCOf.runAsIntFunction(Own, 1)) == 4 && cantFail(EPCOf.runAsIntFunction(Own, 1)) == 5);
    std::thread([&] { CHECK(cantFail(EPCOf.runAsIntFunction(Own, 1)) == 4); }).join();
    CHECK(cantFail(EPCOf.runAsIntFunction(found(E, "caught"), 3)) == 21);
    cantFail(E.J->deinitialize(E.J->getMainJITDylib()));
}

// The executor dies in five ways, each named; this program goes on.
void deaths() {
    const char *Names[] = {"died by SIGSEGV, fault address 0x10, in crash+", "died by SIGABRT", "exited with status 9", "died by SIGILL",
                           "died by SIGABRT"};
    for (int Kind = 0; Kind != 5; ++Kind) {
        auto E = started();
        // A debugger may look on.
        cantFail(enableDebuggerSupport(*E.J));
        cantFail(E.J->addObjectFile(object()));
        auto Crash = found(E, "crash");
        auto Why = message(controlOf(E).runAsIntFunction(Crash, Kind));
        std::printf("  %s\n", Why.c_str());
        CHECK(contains(Why, Names[Kind]));
        CHECK(message(controlOf(E).runAsIntFunction(Crash, Kind)) == Why);
        // What belonged to the executor went with it: that is no failure of the session's end.
        cantFail(E.J->getExecutionSession().endSession());
    }
}

// A session that ends while eight threads call: every call ends.
void disconnects() {
    for (int Round = 0; Round != 10; ++Round) {
        auto E = withWrappers();
        auto Sum = found(E, "sum");
        std::atomic<int> Failed{0};
        std::vector<std::thread> Threads;
        for (int Own = 0; Own != 8; ++Own)
            Threads.emplace_back([&] {
                int64_t Pair[2] = {1, 2};
                while (controlOf(E)
                           .callWrapper(Sum, ArrayRef<char>(reinterpret_cast<char *>(Pair), sizeof Pair))
                           .getOutOfBandError() == nullptr) {
                }
                ++Failed;
            });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        cantFail(controlOf(E).disconnect());
        for (auto &Thread : Threads)
            Thread.join();
        CHECK(Failed == 8);
    }
}

} // namespace

int main(int Count, char **Arguments) {
    farcall_run_if_spawned();
    CHECK(Count >= 4);
    ObjectPath = Arguments[1];
    ObjectWithRuntimePath = Arguments[2];
    RuntimePath = Arguments[3];
    if (Count > 4)
        CHECK(!StringRef(Arguments[4]).getAsInteger(10, Rounds));
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    std::pair<const char *, void (*)()> Cases[] = {
        {"calls", calls},       {"functions", functions},
        {"runs", runs},         {"memory access", memoryAccess}, {"dylibs", dylibs},
        {"dispatch", dispatch}, {"memory manager", memoryManager},               {"layer", layer},
        {"perf map", perfMap},                   {"place", place},
        {"exceptions", exceptions},               {"runtime", runtime},            {"deaths", deaths},
        {"disconnects", disconnects},
    };
    for (auto &[Name, Case] : Cases) {
        if (Count > 5 && StringRef(Arguments[5]) != Name)
            continue;
        Case();
        std::printf("%s\n", Name);
        std::fflush(stdout);
    }
    return 0;
}
