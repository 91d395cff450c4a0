// executors.hpp: an LLJIT over each of three executors.
#pragma once

#include <farcall/llvm.hpp>

#include "llvm/ExecutionEngine/Orc/EHFrameRegistrationPlugin.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/SimpleRemoteEPC.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// An executor of which the code runs, and how it is called.
struct Executor {
    std::string Name;
    std::unique_ptr<llvm::orc::LLJIT> J;
};

// LLVM's own executor, over a pair of pipes.
inline llvm::Expected<std::unique_ptr<llvm::orc::ExecutorProcessControl>> overPipes(const std::string &Program) {
    int Calls[2], Results[2];
    if (pipe2(Calls, O_CLOEXEC) != 0 || pipe2(Results, O_CLOEXEC) != 0)
        return llvm::errorCodeToError(std::error_code(errno, std::generic_category()));
    std::string Pipes = "filedescs=" + std::to_string(Calls[0]) + "," + std::to_string(Results[1]);
    char *Arguments[] = {const_cast<char *>(Program.c_str()), Pipes.data(), nullptr};
    posix_spawn_file_actions_t Kept;
    posix_spawn_file_actions_init(&Kept);
    // A descriptor that is copied to itself stays open in the new process.
    posix_spawn_file_actions_adddup2(&Kept, Calls[0], Calls[0]);
    posix_spawn_file_actions_adddup2(&Kept, Results[1], Results[1]);
    pid_t Pid;
    int Refused = posix_spawn(&Pid, Program.c_str(), &Kept, nullptr, Arguments, environ);
    posix_spawn_file_actions_destroy(&Kept);
    close(Calls[0]);
    close(Results[1]);
    if (Refused != 0)
        return llvm::createStringError(std::error_code(Refused, std::generic_category()), "cannot start %s", Program.c_str());
    auto D = std::make_unique<llvm::orc::DynamicThreadPoolTaskDispatcher>(std::nullopt);
    return llvm::orc::SimpleRemoteEPC::Create<llvm::orc::FDSimpleRemoteEPCTransport>(
        std::move(D), llvm::orc::SimpleRemoteEPC::Setup(), Results[0], Calls[1]);
}

// The executor is this program, started again: main calls farcall_run_if_spawned.
inline llvm::Expected<std::unique_ptr<llvm::orc::ExecutorProcessControl>> overFarcall() {
    auto Options = farcall::FarcallExecutorProcessControl::options();
    Options.this_program = true;
    return farcall::FarcallExecutorProcessControl::Create(Options);
}

inline llvm::Expected<std::unique_ptr<llvm::orc::ExecutorProcessControl>> control(const std::string &Name,
                                                                                  const std::string &LlvmProgram) {
    if (Name == "in-process")
        return llvm::orc::SelfExecutorProcessControl::Create();
    if (Name == "llvm")
        return overPipes(LlvmProgram);
    if (Name == "farcall")
        return overFarcall();
    if (Name == "farcall-in-process")
        return farcall::FarcallExecutorProcessControl::CreateInProcess();
    return llvm::createStringError("no executor is called " + Name + ": in-process, llvm, farcall or farcall-in-process");
}

inline llvm::Expected<Executor> start(const std::string &Name, const std::string &LlvmProgram) {
    auto EPC = control(Name, LlvmProgram);
    if (!EPC)
        return EPC.takeError();
    // The one line in which the three programs differ is the one above. The rest is LLVM's: exceptions pass linked code, and there is
    // no runtime of LLVM's.
    auto AddFrames = [](llvm::orc::LLJIT &J) -> llvm::Error {
        auto Frames = llvm::orc::EHFrameRegistrationPlugin::Create(J.getExecutionSession());
        if (!Frames)
            return Frames.takeError();
        static_cast<llvm::orc::ObjectLinkingLayer &>(J.getObjLinkingLayer()).addPlugin(std::move(*Frames));
        return llvm::Error::success();
    };
    auto J = llvm::orc::LLJITBuilder()
                 .setExecutorProcessControl(std::move(*EPC))
                 .setPrePlatformSetup(AddFrames)
                 .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                 .create();
    if (!J)
        return J.takeError();
    return Executor{Name, std::move(*J)};
}
