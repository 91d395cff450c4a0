// repl.cpp: a C++ REPL that survives what is typed. Each line is compiled by clang::Interpreter, linked by farcall, and runs in an
// executor of farcall's.
//
//     repl [COMPILER_FLAG...]
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

#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <utility>

using namespace llvm;

namespace {

// Ctrl-C was typed since the line began.
volatile std::sig_atomic_t IsTyped;

// A line runs until Ctrl-C is typed. If it cannot be interrupted then, it costs its executor.
farcall::call_options untilTyped() {
    using namespace std::chrono_literals;
    auto Look = []() -> std::optional<std::string> {
        return IsTyped ? std::optional<std::string>("Ctrl-C") : std::nullopt;
    };
    return farcall::call_options().watch(10ms, Look).grace(5s);
}

using Flags = std::vector<const char *>;

// An interpreter, and the executor that it has for life.
class Session : public clang::Interpreter {
  public:
    static Expected<std::unique_ptr<Session>> start(const Flags &Given) {
        clang::IncrementalCompilerBuilder Compiler;
        Compiler.SetCompilerArgs(Given);
        auto Instance = Compiler.CreateCpp();
        if (!Instance)
            return Instance.takeError();
        auto EPC = overFarcall();
        if (!EPC)
            return EPC.takeError();
        auto &Control = static_cast<farcall::FarcallExecutorProcessControl &>(**EPC);
        auto Builder = std::make_unique<clang::IncrementalExecutorBuilder>();
        Builder->JITBuilder = std::make_unique<orc::LLJITBuilder>();
        Builder->JITBuilder->setExecutorProcessControl(std::move(*EPC));
        if (auto Refused = farcall::linkByFarcall(*Builder->JITBuilder))
            return Refused;
        Error Failure = Error::success();
        std::unique_ptr<Session> Made(new Session(std::move(*Instance), Failure, std::move(Builder), Control));
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
    Expected<bool> run(StringRef Line) {
        auto Part = Parse(Line);
        if (!Part)
            return Part.takeError();
        bool IsDeclaration =
            none_of(Part->TUPart->decls(), [](const clang::Decl *One) { return isa<clang::TopLevelStmtDecl>(One); });
        IsTyped = false;
        auto Failure = Control.callWith(untilTyped(), [&] { return Execute(*Part); });
        if (Failure && IsTyped) {
            // It says where the line was, or why it has cost the executor.
            std::cout << toString(std::move(Failure)) << std::endl;
            return false;
        }
        if (Failure)
            return Failure;
        return IsDeclaration;
    }

    // How the executor ended, if it did.
    std::optional<std::string> death() const {
        farcall_error *Found = farcall_process_death(Control.getProcess());
        if (Found == nullptr)
            return std::nullopt;
        std::string Text = farcall_error_message(Found);
        farcall_error_consume(Found);
        return Text;
    }
    bool isDead() const { return death().has_value(); }

  private:
    Session(std::unique_ptr<clang::CompilerInstance> Instance, Error &Failure,
            std::unique_ptr<clang::IncrementalExecutorBuilder> Builder, farcall::FarcallExecutorProcessControl &Control)
        : Interpreter(std::move(Instance), Failure, std::move(Builder)), Control(Control) {}

    farcall::FarcallExecutorProcessControl &Control;
};

// A session that is replaced when its executor has ended.
class Repl {
  public:
    explicit Repl(Flags Given) : Given(std::move(Given)) {}

    Error type(const std::string &Text) {
        if (auto Failure = renew())
            return Failure;
        auto IsDeclaration = Current->run(Text);
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
        auto Started = Session::start(Given);
        if (!Started)
            return Started.takeError();
        Current = std::move(*Started);
        for (const auto &Text : Declarations)
            if (auto Again = Current->run(Text); !Again)
                return Again.takeError();
        return Error::success();
    }

    Flags Given;
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
    signal(SIGINT, [](int) { IsTyped = true; });
    ExitOnError OrExit("repl: ");
    Repl Loop(Flags(Arguments + 1, Arguments + Count));
    for (std::string Text; std::getline(std::cin, Text);)
        if (!Text.empty())
            OrExit(Loop.type(Text));
    return 0;
}
