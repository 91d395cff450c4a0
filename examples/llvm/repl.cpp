// repl.cpp: a C++ REPL that survives what is typed. Each line is compiled by clang::Interpreter and runs in an executor of farcall's.
//
//     repl ORC_RUNTIME.a [COMPILER_FLAG...]
//
// Ctrl-C ends the line that runs, and variables keep their values. When a line ends the executor, the REPL says how, and goes on with
// the next line in a new executor. Declarations of before are there again, and variables have their initial values.
#include "executors.hpp"

#include "clang/AST/Decl.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Interpreter/IncrementalExecutor.h"
#include "clang/Interpreter/Interpreter.h"
#include "clang/Interpreter/PartialTranslationUnit.h"
#include "llvm/Support/TargetSelect.h"

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <thread>
#include <utility>

using namespace llvm;

namespace {

// The line of the moment, which Ctrl-C ends.
class Turn {
  public:
    // Runs a line in this executor. Returns true if Ctrl-C was typed meanwhile.
    template <class F> bool run(farcall_executor *Executor, F Line) {
        set(Executor);
        Line();
        return set(nullptr);
    }

    // Waits for Ctrl-C, for ever. Asks again and again, because the line may still be linked. A line that cannot be interrupted costs its
    // executor, and so may a line that is interrupted in LLVM's runtime.
    void serve(const sigset_t &Typed) {
        for (int Signal; sigwait(&Typed, &Signal) == 0;) {
            std::unique_lock<std::mutex> Guard(Lock);
            if (Runs == nullptr)
                continue;
            IsInterrupted = true;
            const auto IsOver = [this, Begun = Number] { return Number != Begun; };
            const auto Until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
            do {
                const uint64_t GraceNs = std::chrono::nanoseconds(Pause).count();
                farcall_error_consume(farcall_executor_interrupt_all(Runs, GraceNs));
            } while (!Ended.wait_for(Guard, Pause, IsOver) && std::chrono::steady_clock::now() < Until);
            if (!IsOver())
                farcall_error_consume(farcall_executor_kill(Runs));
        }
    }

  private:
    static constexpr std::chrono::milliseconds Pause{250};

    bool set(farcall_executor *Executor) {
        std::lock_guard<std::mutex> Guard(Lock);
        Runs = Executor;
        ++Number;
        Ended.notify_all();
        return std::exchange(IsInterrupted, false);
    }

    std::mutex Lock;
    std::condition_variable Ended;
    // Lines that have begun, and that have ended.
    uint64_t Number = 0;
    farcall_executor *Runs = nullptr;
    bool IsInterrupted = false;
};

struct Settings {
    std::string Runtime;
    std::vector<const char *> Flags;
};

// An interpreter, and the executor that it has for life.
class Session : public clang::Interpreter {
  public:
    static Expected<std::unique_ptr<Session>> start(const Settings &From) {
        clang::IncrementalCompilerBuilder Compiler;
        Compiler.SetCompilerArgs(From.Flags);
        auto Instance = Compiler.CreateCpp();
        if (!Instance)
            return Instance.takeError();
        auto EPC = overFarcall();
        if (!EPC)
            return EPC.takeError();
        auto &Control = static_cast<farcall::FarcallExecutorProcessControl &>(**EPC);
        auto *Executor = Control.getExecutor();
        auto *Process = Control.getProcess();
        auto Builder = std::make_unique<clang::IncrementalExecutorBuilder>();
        Builder->JITBuilder = std::make_unique<orc::LLJITBuilder>();
        Builder->JITBuilder->setExecutorProcessControl(std::move(*EPC))
            .setPlatformSetUp(orc::ExecutorNativePlatform(From.Runtime));
        Error Failure = Error::success();
        std::unique_ptr<Session> Made(new Session(std::move(*Instance), Failure, std::move(Builder), Executor, Process));
        if (Failure)
            return Failure;
        return Made;
    }

    // What is left at the end of an executor that lives is run, as at the end of a program.
    ~Session() override {
        if (isDead())
            ResetExecutor();
    }

    // Runs a line, which Ctrl-C ends. Returns true if it is a declaration alone.
    Expected<bool> run(StringRef Line, Turn &During) {
        auto Part = Parse(Line);
        if (!Part)
            return Part.takeError();
        bool IsDeclaration =
            none_of(Part->TUPart->decls(), [](const clang::Decl *One) { return isa<clang::TopLevelStmtDecl>(One); });
        std::optional<Error> Failure;
        bool IsInterrupted = During.run(Executor, [&] { Failure.emplace(Execute(*Part)); });
        if (*Failure && IsInterrupted && !isDead()) {
            std::cout << toString(std::move(*Failure)) << std::endl;
            return false;
        }
        if (*Failure)
            return std::move(*Failure);
        return IsDeclaration;
    }

    // How the executor ended, if it did.
    std::optional<std::string> death() const {
        farcall_error *Found = farcall_process_death(Process);
        if (Found == nullptr)
            return std::nullopt;
        std::string Text = farcall_error_message(Found);
        farcall_error_consume(Found);
        return Text;
    }
    bool isDead() const { return death().has_value(); }

  private:
    Session(std::unique_ptr<clang::CompilerInstance> Instance, Error &Failure,
            std::unique_ptr<clang::IncrementalExecutorBuilder> Builder, farcall_executor *Executor, farcall_process *Process)
        : Interpreter(std::move(Instance), Failure, std::move(Builder)), Executor(Executor), Process(Process) {}

    farcall_executor *Executor;
    farcall_process *Process;
};

// A session that is replaced when its executor has ended.
class Repl {
  public:
    Repl(Settings From, Turn &Line) : From(std::move(From)), Line(Line) {}

    Error type(const std::string &Text) {
        if (auto Failure = renew())
            return Failure;
        auto IsDeclaration = Current->run(Text, Line);
        if (IsDeclaration) {
            if (*IsDeclaration)
                Declarations.push_back(Text);
            return Error::success();
        }
        auto Failure = IsDeclaration.takeError();
        if (auto Death = Current->death()) {
            consumeError(std::move(Failure));
            std::cout << "crashed: " << *Death << std::endl;
            return Error::success();
        }
        // A line that does not compile: clang has said why.
        std::cout << "refused: " << toString(std::move(Failure)) << std::endl;
        return Error::success();
    }

  private:
    // A new session with the declarations of before, if the executor has ended.
    Error renew() {
        if (Current != nullptr && !Current->isDead())
            return Error::success();
        Current.reset();
        auto Started = Session::start(From);
        if (!Started)
            return Started.takeError();
        Current = std::move(*Started);
        for (const auto &Text : Declarations)
            if (auto Again = Current->run(Text, Line); !Again)
                return Again.takeError();
        return Error::success();
    }

    Settings From;
    Turn &Line;
    std::unique_ptr<Session> Current;
    std::vector<std::string> Declarations;
};

} // namespace

int main(int Count, char **Arguments) {
    // In the executor as well: a terminal sends it Ctrl-C, too, and what a line has printed is out before the next line ends it.
    signal(SIGINT, SIG_IGN);
    setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    farcall_run_if_spawned();
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    InitializeNativeTargetAsmParser();
    if (Count < 2) {
        std::cerr << "repl ORC_RUNTIME.a [COMPILER_FLAG...]" << std::endl;
        return 2;
    }
    // One thread has the signal, and all others block it.
    static Turn Line;
    sigset_t Typed;
    sigemptyset(&Typed);
    sigaddset(&Typed, SIGINT);
    pthread_sigmask(SIG_BLOCK, &Typed, nullptr);
    signal(SIGINT, SIG_DFL);
    std::thread([Typed] { Line.serve(Typed); }).detach();
    ExitOnError OrExit("repl: ");
    Repl Loop({Arguments[1], std::vector<const char *>(Arguments + 2, Arguments + Count)}, Line);
    for (std::string Text; std::getline(std::cin, Text);)
        if (!Text.empty())
            OrExit(Loop.type(Text));
    return 0;
}
