// check.hpp: what the checks of farcall/llvm.hpp share. A check that fails ends the program.
#pragma once

#include "measures.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);            \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (false)

// The message of an error that must be there.
inline std::string message(llvm::Error Failure) {
    CHECK(bool(Failure));
    return llvm::toString(std::move(Failure));
}

template <typename T> std::string message(llvm::Expected<T> Failure) { return message(Failure.takeError()); }

inline bool contains(const std::string &Text, const std::string &Part) { return Text.find(Part) != std::string::npos; }

// A farcall executor, of which the linked code is an object file as well.
inline Executor started() { return llvm::cantFail(start("farcall", "")); }

inline farcall_process *processOf(Executor &E) {
    return static_cast<farcall::FarcallExecutorProcessControl &>(controlOf(E)).getProcess();
}

inline int32_t pidOf(Executor &E) {
    int32_t Pid = 0;
    llvm::cantFail(farcall::takeError(farcall_process_pid(processOf(E), &Pid)));
    return Pid;
}

template <typename T> T unpacked(const llvm::orc::shared::WrapperFunctionBuffer &Result) {
    CHECK(Result.getOutOfBandError() == nullptr && Result.size() == sizeof(T));
    T Value;
    std::memcpy(&Value, Result.data(), sizeof Value);
    return Value;
}

template <typename T> T called(Executor &E, llvm::orc::ExecutorAddr Function, llvm::ArrayRef<int64_t> Args = {}) {
    auto *Bytes = reinterpret_cast<const char *>(Args.data());
    return unpacked<T>(controlOf(E).callWrapper(Function, llvm::ArrayRef<char>(Bytes, Args.size() * sizeof(int64_t))));
}

// What a process has: open descriptors, mappings, and KiB of memory.
struct Usage {
    long Descriptors, Maps, Kib;
};

inline Usage usageOf(int32_t Pid) {
    std::string Folder = "/proc/" + std::to_string(Pid);
    Usage Found = {0, 0, 0};
    std::error_code Failure;
    for (llvm::sys::fs::directory_iterator At(Folder + "/fd", Failure), End; At != End && !Failure; At.increment(Failure))
        ++Found.Descriptors;
    std::ifstream Maps(Folder + "/maps"), Status(Folder + "/status");
    for (std::string Line; std::getline(Maps, Line);)
        ++Found.Maps;
    for (std::string Line; std::getline(Status, Line);)
        if (Line.rfind("VmRSS:", 0) == 0)
            Found.Kib = std::atol(Line.c_str() + 6);
    CHECK(Found.Descriptors > 0 && Found.Maps > 0 && Found.Kib > 0);
    return Found;
}
