// object_layer.cpp: farcall's linker under an LLJIT, in another process and in this one.
//
//     object_layer FOLDER LINKED.o [ROUNDS [CASE]]        FOLDER has part1.o to part7.o of layered.cpp, and common_one.o and common_ten.o
#include "check.hpp"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

using namespace llvm;
using namespace llvm::orc;

namespace {

std::string Folder, LinkedPath;
unsigned Rounds = 1000;

// The two places of the code.
const char *const PLACES[] = {"farcall", "farcall-in-process"};

// Each of eight threads waits here until all have come.
class Meeting {
  public:
    void wait() {
        std::unique_lock<std::mutex> Lock(Mutex);
        auto Own = Round;
        if (++Here == 8) {
            Here = 0;
            ++Round;
            All.notify_all();
        }
        All.wait(Lock, [&] { return Round != Own; });
    }

  private:
    std::mutex Mutex;
    std::condition_variable All;
    unsigned Here = 0, Round = 0;
};

// An LLJIT whose objects farcall links.
Executor linking(const std::string &Name) {
    auto EPC = cantFail(control(Name, ""));
    LLJITBuilder Builder;
    Builder.setExecutorProcessControl(std::move(EPC));
    cantFail(farcall::linkByFarcall(Builder));
    return Executor{Name, cantFail(Builder.create())};
}

farcall::FarcallExecutorProcessControl &farcallOf(Executor &E) {
    return static_cast<farcall::FarcallExecutorProcessControl &>(controlOf(E));
}

std::unique_ptr<MemoryBuffer> file(const std::string &Path) {
    return cantFail(errorOrToExpected(MemoryBuffer::getFile(Path)));
}

std::unique_ptr<MemoryBuffer> part(int Number) { return file(Folder + "/part" + std::to_string(Number) + ".o"); }

template <typename S> auto function(Executor &E, JITDylib &JD, const char *Name) {
    return cantFail(farcall::function_at<S>(farcallOf(E), cantFail(E.J->lookup(JD, Name))));
}

template <typename S> auto function(Executor &E, const char *Name) { return function<S>(E, E.J->getMainJITDylib(), Name); }

// A module of IR, an object, and a function of the C library. In this process also by a plain pointer, at once.
void links() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        cantFail(E.J->addIRModule(module(FUNCTIONS)));
        CHECK(called<int64_t>(E, cantFail(E.J->lookup("sum")), {40, 2}) == 42);
        cantFail(E.J->addIRModule(module(LINKED)));
        auto Linked = cantFail(E.J->lookup("linked"));
        if (E.Name != "farcall")
            CHECK(Linked.toPtr<int64_t (*)()>()() == 5);
        else
            CHECK(cantFail(function<long()>(E, "linked")()) == 5);
        cantFail(E.J->addObjectFile(file(LinkedPath)));
        CHECK(cantFail(function<int(int)>(E, "incremented")(41)) == 42);
        CHECK(cantFail(controlOf(E).runAsMain(cantFail(E.J->lookup("arguments")), {"name", "four"})) == 204);
    }
}

// Two objects refer to each other. An exception and a thread-local pass from one to the other.
void circle() {
    for (auto *Place : PLACES)
        for (bool IsFirst : {true, false}) {
            auto E = linking(Place);
            cantFail(E.J->addObjectFile(part(IsFirst ? 1 : 2)));
            cantFail(E.J->addObjectFile(part(IsFirst ? 2 : 1)));
            CHECK(cantFail(function<int(int)>(E, "even")(10)) == 1 && cantFail(function<int(int)>(E, "odd")(10)) == 0);
            CHECK(cantFail(function<int(int)>(E, "caught_from_other")(20)) == 19);
        }
}

void threadLocals() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        cantFail(E.J->addObjectFile(part(2)));
        cantFail(E.J->addObjectFile(part(1)));
        auto Here = function<int()>(E, "shared_here"), There = function<int()>(E, "shared_there");
        CHECK(cantFail(Here()) == 11 && cantFail(There()) == 12 && cantFail(Here()) == 13);
        std::thread([&] { CHECK(cantFail(There()) == 11 && cantFail(Here()) == 12); }).join();
        CHECK(cantFail(There()) == 14);
    }
}

// Sixty-four modules refer to each other in a circle. Threads of tasks link them, while eight threads look them up.
void tasks() {
    for (bool IsHere : {false, true}) {
        auto Options = farcall::FarcallExecutorProcessControl::options();
        Options.in_process = IsHere;
        Options.this_program = !IsHere;
        auto Dispatcher = std::make_unique<DynamicThreadPoolTaskDispatcher>(std::nullopt);
        LLJITBuilder Builder;
        Builder.setExecutorProcessControl(
            cantFail(farcall::FarcallExecutorProcessControl::Create(Options, std::move(Dispatcher))));
        cantFail(farcall::linkByFarcall(Builder));
        Executor E{"tasks", cantFail(Builder.create())};
        constexpr int Count = 64;
        for (int Round = 0; Round != 5; ++Round) {
            auto &Dylib = cantFail(E.J->createJITDylib("round " + std::to_string(Round)));
            for (int At = 0; At != Count; ++At) {
                auto Own = std::to_string(At), Next = std::to_string((At + 1) % Count);
                cantFail(E.J->addIRModule(Dylib, module("declare i32 @step" + Next + "(i32)\n" + R"(
define i32 @step)" + Own + R"((i32 %n) {
  %is_end = icmp eq i32 %n, 0
  br i1 %is_end, label %end, label %more
more:
  %less = sub i32 %n, 1
  %r = call i32 @step)" + Next + R"((i32 %less)
  %sum = add i32 %r, 1
  ret i32 %sum
end:
  ret i32 0
}
)")));
            }
            std::vector<std::thread> Threads;
            for (int Own = 0; Own != 8; ++Own)
                Threads.emplace_back([&, Own] {
                    auto Step = function<int(int)>(E, Dylib, ("step" + std::to_string(Own * 8)).c_str());
                    CHECK(cantFail(Step(1000)) == 1000);
                });
            for (auto &Thread : Threads)
                Thread.join();
            cantFail(E.J->getExecutionSession().removeJITDylib(Dylib));
        }
    }
}

// One definition of several is used, in the order in which they were added. Common symbols are one.
void weak() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        cantFail(E.J->addObjectFile(part(3)));
        cantFail(E.J->addObjectFile(part(4)));
        auto One = function<int()>(E, "bump_one"), Other = function<int()>(E, "bump_other");
        CHECK(cantFail(One()) == 6 && cantFail(Other()) == 7 && cantFail(One()) == 8);
        CHECK(cantFail(function<int()>(E, "chosen_by_one")()) == 3);
        CHECK(cantFail(function<int()>(E, "chosen_by_other")()) == 3);
        CHECK(cantFail(function<int()>(E, "has_missing")()) == 0);
        // A strong definition that is added first takes the place of a weak one.
        auto &Strong = cantFail(E.J->createJITDylib("strong"));
        cantFail(E.J->addIRModule(Strong, module("define i32 @chosen() {\n  ret i32 9\n}\n")));
        cantFail(E.J->addObjectFile(Strong, part(3)));
        CHECK(cantFail(function<int()>(E, Strong, "chosen_by_one")()) == 9);
        auto &Common = cantFail(E.J->createJITDylib("common"));
        cantFail(E.J->addObjectFile(Common, file(Folder + "/common_one.o")));
        cantFail(E.J->addObjectFile(Common, file(Folder + "/common_ten.o")));
        CHECK(cantFail(function<int()>(E, Common, "add_one")()) == 1);
        CHECK(cantFail(function<int()>(E, Common, "add_ten")()) == 11);
    }
}

// Names that are missing are an error that says them, and cost nothing else.
void failures() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        std::string Reported;
        E.J->getExecutionSession().setErrorReporter([&](Error Failure) { Reported += toString(std::move(Failure)); });
        cantFail(E.J->addIRModule(module("declare i32 @nowhere()\ndefine i32 @lost() {\n  %r = call i32 @nowhere()\n  ret i32 %r\n}\n")));
        CHECK(contains(message(E.J->lookup("lost")), "lost"));
        CHECK(contains(Reported, "nowhere"));
        Reported.clear();
        cantFail(E.J->addIRModule(module("declare i32 @broken()\ndefine i32 @user() {\n  %r = call i32 @broken()\n  ret i32 %r\n}\n")));
        cantFail(E.J->addIRModule(
            module("declare i32 @nowhere2()\ndefine i32 @broken() {\n  %r = call i32 @nowhere2()\n  ret i32 %r\n}\n")));
        CHECK(contains(message(E.J->lookup("user")), "user"));
        CHECK(contains(Reported, "nowhere2"));
        // No object at all.
        CHECK(!message(E.J->addObjectFile(MemoryBuffer::getMemBuffer("text", "text"))).empty());
        cantFail(E.J->addObjectFile(file(LinkedPath)));
        CHECK(cantFail(function<int(int)>(E, "incremented")(1)) == 2);
    }
    // The layer and the platform are for each other, and for an executor of farcall's.
    auto Own = LLJITBuilder().setObjectLinkingLayerCreator(farcall::FarcallObjectLayer::Create).create();
    CHECK(contains(message(std::move(Own)), "none of farcall's"));
    auto Other = LLJITBuilder().setPlatformSetUp(farcall::FarcallPlatform::SetUp).create();
    CHECK(contains(message(std::move(Other)), "object layer"));
}

// An exception passes the frames of linked code, also when that is removed and linked anew.
void exceptions() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        for (unsigned Round = 0; Round != Rounds / 10 + 1; ++Round) {
            auto Tracker = E.J->getMainJITDylib().createResourceTracker();
            cantFail(E.J->addObjectFile(Tracker, file(LinkedPath)));
            CHECK(cantFail(function<int(int)>(E, "caught")(20)) == 21);
            cantFail(Tracker->remove());
        }
    }
}

// Initializers run once, in their order, and exit handlers at the end or at the removal.
void initializers() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        // The number where the exit handlers write, which outlives their object.
        cantFail(E.J->addIRModule(module("@kept = global i32 0\n"
                                         "define i32 @kept_now() {\n  %r = load i32, ptr @kept\n  ret i32 %r\n}\n")));
        auto Kept = farcall::pointer{cantFail(E.J->lookup("kept")).getValue()};
        auto KeptNow = function<int()>(E, "kept_now");
        auto Begin = [&](JITDylib &JD, ResourceTrackerSP Tracker) {
            cantFail(E.J->addObjectFile(std::move(Tracker), part(5)));
            cantFail(E.J->initialize(JD));
            CHECK(cantFail(function<int()>(E, JD, "noted")()) == 12);
            cantFail(E.J->initialize(JD));
            CHECK(cantFail(function<int()>(E, JD, "noted")()) == 12);
            CHECK(cantFail(function<int()>(E, JD, "text_length")()) == 13);
            cantFail(function<void(farcall::pointer)>(E, JD, "note_at")(Kept));
        };
        auto &One = cantFail(E.J->createJITDylib("one"));
        auto Tracker = One.createResourceTracker();
        Begin(One, Tracker);
        cantFail(Tracker->remove());
        CHECK(cantFail(KeptNow()) == 65);
        auto &Two = cantFail(E.J->createJITDylib("two"));
        Begin(Two, Two.getDefaultResourceTracker());
        cantFail(E.J->deinitialize(Two));
        CHECK(cantFail(KeptNow()) == 6565);
        cantFail(Two.clear());
        CHECK(cantFail(KeptNow()) == 6565);
        // IR with a constructor that nothing refers to.
        auto &Three = cantFail(E.J->createJITDylib("three"));
        Three.addToLinkOrder(E.J->getMainJITDylib());
        cantFail(E.J->addIRModule(Three, module("@kept = external global i32\n"
                                                "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
                                                "[{ i32, ptr, ptr } { i32 65535, ptr @begin, ptr null }]\n"
                                                "define internal void @begin() {\n  store i32 33, ptr @kept\n  ret void\n}\n")));
        cantFail(E.J->initialize(Three));
        CHECK(cantFail(KeptNow()) == 33);
    }
}

// LLJIT's default platform, which calls by pointers, does in this process.
void defaultPlatform() {
    auto EPC = cantFail(control("farcall-in-process", ""));
    auto J = cantFail(LLJITBuilder()
                          .setExecutorProcessControl(std::move(EPC))
                          .setObjectLinkingLayerCreator(farcall::FarcallObjectLayer::Create)
                          .create());
    Executor E{"default platform", std::move(J)};
    cantFail(E.J->addIRModule(module("@kept = global i32 0\n"
                                     "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
                                     "[{ i32, ptr, ptr } { i32 65535, ptr @begin, ptr null }]\n"
                                     "define internal void @begin() {\n  store i32 33, ptr @kept\n  ret void\n}\n")));
    cantFail(E.J->initialize(E.J->getMainJITDylib()));
    CHECK(*cantFail(E.J->lookup("kept")).toPtr<int *>() == 33);
    cantFail(E.J->deinitialize(E.J->getMainJITDylib()));
}

// How many objects a debugger of the executor sees.
unsigned debugObjects(Executor &E) {
    auto &Memory = controlOf(E).getMemoryAccess();
    auto At = cantFail(E.J->lookup(*E.J->getProcessSymbolsJITDylib(), "__jit_debug_descriptor"));
    unsigned Count = 0;
    // The first entry is the third word of the descriptor, and the next one the first word of an entry.
    for (auto Next = cantFail(Memory.readPointers({At + 16}))[0]; Next; Next = cantFail(Memory.readPointers({Next}))[0])
        ++Count;
    return Count;
}

void debuggers() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        static_cast<farcall::FarcallObjectLayer &>(E.J->getObjLinkingLayer()).setDebuggable(true);
        auto Before = debugObjects(E);
        auto Tracker = E.J->getMainJITDylib().createResourceTracker();
        cantFail(E.J->addObjectFile(Tracker, file(LinkedPath)));
        CHECK(cantFail(function<int(int)>(E, "incremented")(1)) == 2);
        CHECK(debugObjects(E) == Before + 1);
        cantFail(Tracker->remove());
        CHECK(debugObjects(E) == Before);
    }
}

// An executor that dies is an error that names the function. The session's end is none.
void deaths() {
    auto E = linking("farcall");
    cantFail(E.J->addObjectFile(file(LinkedPath)));
    auto Why = message(controlOf(E).runAsIntFunction(cantFail(E.J->lookup("crash")), 0));
    CHECK(contains(Why, "died by SIGSEGV, fault address 0x10, in crash+"));
    cantFail(E.J->getExecutionSession().endSession());
}

// Adds an object, looks a function up, calls it, transfers and removes it, many times and from eight threads, which share a dylib that
// all refer to. Neither process keeps anything.
void trackers() {
    for (auto *Place : PLACES) {
        auto E = linking(Place);
        cantFail(E.J->addIRModule(module("define i64 @common_to_all(i64 %n) {\n  %r = add i64 %n, 1\n  ret i64 %r\n}\n")));
        std::string Assembly = std::string(LINKED) + R"(
declare i64 @common_to_all(i64)
define { i64, i64 } @run(ptr %args, i64 %size) {
  %number = call i64 @linked()
  %more = call i64 @common_to_all(i64 %number)
  %result = insertvalue { i64, i64 } { i64 0, i64 8 }, i64 %more, 0
  ret { i64, i64 } %result
}
)";
        auto Object = cantFail(compiled(E, Assembly));
        std::vector<JITDylib *> Own;
        for (int At = 0; At != 8; ++At) {
            Own.push_back(&cantFail(E.J->createJITDylib("dylib " + std::to_string(At))));
            Own.back()->addToLinkOrder(E.J->getMainJITDylib());
        }
        Meeting Met;
        auto Work = [&](unsigned Count) {
            std::vector<std::thread> Threads;
            for (auto *Dylib : Own)
                Threads.emplace_back([&, Dylib] {
                    for (unsigned At = 0; At != Count; ++At) {
                        auto Tracker = Dylib->createResourceTracker();
                        cantFail(E.J->addObjectFile(Tracker, MemoryBuffer::getMemBuffer(Object->getMemBufferRef(), false)));
                        auto Run = cantFail(E.J->lookup(*Dylib, "run"));
                        CHECK(called<int64_t>(E, Run) == 6 && called<int64_t>(E, Run) == 11);
                        if (At % 2 == 0) {
                            // LLVM 22 crashes, with any layer, if the responsibility for the symbols still lives: another thread may
                            // have it that has linked for this one, and has not returned.
                            Met.wait();
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
        Work(Rounds / 4 + 1);
        Usage Before[2] = {usageOf(getpid()), usageOf(pidOf(E))};
        Work(Rounds);
        Usage After[2] = {usageOf(getpid()), usageOf(pidOf(E))};
        for (int At = 0; At != 2; ++At) {
            std::printf("  %s, %s: %ld -> %ld descriptors, %ld -> %ld mappings, %ld -> %ld KiB\n", Place,
                        At == 0 ? "controller" : "executor", Before[At].Descriptors, After[At].Descriptors, Before[At].Maps,
                        After[At].Maps, Before[At].Kib, After[At].Kib);
            CHECK(After[At].Descriptors <= Before[At].Descriptors);
            CHECK(After[At].Maps <= Before[At].Maps + 16);
            CHECK(After[At].Kib <= Before[At].Kib + (16 << 10));
        }
    }
}

// The time from the bytes of an object to the address of one of its functions, in milliseconds.
double instanceTime(Executor &E, const MemoryBuffer &Object) {
    static int Number = 0;
    auto &Dylib = cantFail(E.J->createJITDylib("instances " + std::to_string(++Number)));
    Dylib.addToLinkOrder(E.J->getMainJITDylib());
    auto Start = std::chrono::steady_clock::now();
    cantFail(E.J->addObjectFile(Dylib, MemoryBuffer::getMemBuffer(Object.getMemBufferRef(), false)));
    cantFail(E.J->addObjectFile(Dylib, part(7)));
    auto Found = cantFail(E.J->lookup(Dylib, "chain"));
    std::chrono::duration<double, std::milli> Time = std::chrono::steady_clock::now() - Start;
    CHECK(cantFail(controlOf(E).runAsIntFunction(Found, 0)) == 2000);
    cantFail(E.J->getExecutionSession().removeJITDylib(Dylib));
    return Time.count();
}

// LLVM issue 182954: an object has 2,000 instances of a template, each of which calls the next one. LLVM's linker needs at least a hundred times
// the time of farcall's, in both places.
void instances() {
    auto Object = part(6);
    std::pair<const char *, const char *> Pairs[] = {{"in-process", "farcall-in-process"}, {"farcall", "farcall"}};
    for (auto &[LlvmPlace, Place] : Pairs) {
        auto Llvm = cantFail(start(LlvmPlace, ""));
        auto Farcall = linking(Place);
        // The first link of a process is no measure.
        (void)instanceTime(Farcall, *Object);
        Times Ours, Theirs;
        for (int Round = 0; Round != 5; ++Round)
            Ours.push_back(instanceTime(Farcall, *Object));
        Theirs.push_back(instanceTime(Llvm, *Object));
        auto Least = *std::min_element(Ours.begin(), Ours.end()), Median = (std::sort(Ours.begin(), Ours.end()), Ours[2]);
        std::printf("  %s: LLVM's linker %.0f ms, farcall's %.2f ms at least, %.2f ms in the median: 1/%.0f\n", Place, Theirs[0], Least,
                    Median, Theirs[0] / Median);
        CHECK(Median * 100 <= Theirs[0]);
    }
}

} // namespace

int main(int Count, char **Arguments) {
    farcall_run_if_spawned();
    CHECK(Count >= 3);
    Folder = Arguments[1];
    LinkedPath = Arguments[2];
    if (Count > 3)
        CHECK(!StringRef(Arguments[3]).getAsInteger(10, Rounds));
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    std::pair<const char *, void (*)()> Cases[] = {
        {"links", links},           {"circle", circle},
        {"tasks", tasks},
        {"weak", weak},             {"thread-locals", threadLocals},
        {"failures", failures},     {"exceptions of the layer", exceptions},
        {"initializers", initializers}, {"default platform", defaultPlatform},
        {"debuggers", debuggers},   {"deaths in the layer", deaths},
        {"trackers", trackers},     {"instances", instances},
    };
    for (auto &[Name, Case] : Cases) {
        if (Count > 4 && StringRef(Arguments[4]) != Name)
            continue;
        Case();
        std::printf("%s\n", Name);
        std::fflush(stdout);
    }
    return 0;
}
