// lljit.cpp: one LLVM program, and three executors for its code: this process, LLVM's over pipes, and farcall's.
//
//     lljit [--executor in-process|llvm|farcall]... [--rounds N] [--calls N] [--cpus A,B] [--llvm-executor PATH]
//
// It adds a module, looks a function up and calls it. Then it measures all executors in turn, round by round, and prints a table. With --cpus this
// process runs on CPU A, and the executors on CPU B.
#include "measures.hpp"

#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <sched.h>

using namespace llvm;

namespace {

double quantile(Times Sorted, double Share) {
    std::sort(Sorted.begin(), Sorted.end());
    return Sorted[static_cast<size_t>(Share * (Sorted.size() - 1))];
}

// The rows in their order. For each executor, the median of each round.
struct Table {
    std::vector<std::string> Rows;
    std::map<std::string, std::map<std::string, Times>> Medians;

    void add(const std::string &Row, const std::string &Executor, const Times &Found) {
        if (Medians.find(Row) == Medians.end())
            Rows.push_back(Row);
        Medians[Row][Executor].push_back(quantile(Found, 0.5));
    }

    void print(const std::vector<Executor> &Executors) {
        outs() << "| us, least / median of the rounds' p50 |";
        for (const auto &E : Executors)
            outs() << " " << E.Name << " |";
        outs() << "\n|---|";
        for (size_t At = 0; At != Executors.size(); ++At)
            outs() << "--:|";
        outs() << "\n";
        for (const auto &Row : Rows) {
            outs() << "| " << Row << " |";
            for (const auto &E : Executors) {
                const auto &Found = Medians[Row][E.Name];
                outs() << format(" %.2f / %.2f |", quantile(Found, 0) / 1000, quantile(Found, 0.5) / 1000);
            }
            outs() << "\n";
        }
    }
};

// Pins all threads of this process to a CPU.
Error pin(unsigned Cpu) {
    cpu_set_t Set;
    CPU_ZERO(&Set);
    CPU_SET(Cpu, &Set);
    for (const auto &Thread : std::filesystem::directory_iterator("/proc/self/task"))
        if (sched_setaffinity(std::stoi(Thread.path().filename()), sizeof Set, &Set) != 0)
            return createStringError(std::error_code(errno, std::generic_category()), "cannot pin to CPU %u", Cpu);
    return Error::success();
}

} // namespace

int main(int Count, char **Arguments) {
    farcall_run_if_spawned();
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    ExitOnError OrExit("lljit: ");

    std::vector<std::string> Names;
    std::string LlvmProgram = "/usr/lib/llvm-22/bin/llvm-jitlink-executor";
    unsigned Rounds = 16, Calls = 1000;
    std::optional<std::pair<unsigned, unsigned>> Cpus;
    for (int At = 1; At + 1 < Count; At += 2) {
        StringRef Option = Arguments[At], Value = Arguments[At + 1];
        if (Option == "--executor")
            Names.push_back(Value.str());
        else if (Option == "--llvm-executor")
            LlvmProgram = Value.str();
        else if (unsigned Own = 0, Theirs = 0; Option == "--cpus" && !Value.split(',').first.getAsInteger(10, Own) &&
                                               !Value.split(',').second.getAsInteger(10, Theirs))
            Cpus = {Own, Theirs};
        else if (!(Option == "--rounds" && !Value.getAsInteger(10, Rounds) && Rounds > 0) &&
                 !(Option == "--calls" && !Value.getAsInteger(10, Calls) && Calls >= 100))
            OrExit(createStringError("no option " + Option + " " + Value));
    }
    if (Names.empty())
        Names = {"in-process", "llvm", "farcall"};

    std::vector<Executor> Executors;
    std::vector<orc::ExecutorAddr> Nothings;
    // Executors run where the thread runs that starts them.
    if (Cpus)
        OrExit(pin(Cpus->second));
    for (const auto &Name : Names) {
        Executors.push_back(OrExit(start(Name, LlvmProgram)));
        auto &E = Executors.back();
        OrExit(E.J->addIRModule(module(FUNCTIONS)));
        auto Sum = OrExit(E.J->lookup("sum"));
        Nothings.push_back(OrExit(E.J->lookup("nothing")));
        int64_t Pair[2] = {3, 4}, Result = 0;
        auto Bytes = controlOf(E).callWrapper(Sum, ArrayRef<char>(reinterpret_cast<char *>(Pair), sizeof Pair));
        if (Bytes.getOutOfBandError() != nullptr)
            OrExit(createStringError(Bytes.getOutOfBandError()));
        memcpy(&Result, Bytes.data(), std::min(Bytes.size(), sizeof Result));
        outs() << Name << ": 3 + 4 = " << Result << "\n";
    }
    if (Cpus)
        OrExit(pin(Cpus->first));

    auto Object = OrExit(compiled(Executors.front(), LINKED));
    Table All;
    for (unsigned Round = 0; Round != Rounds; ++Round)
        for (size_t At = 0; At != Executors.size(); ++At) {
            auto &E = Executors[At];
            auto Nothing = Nothings[At];
            All.add("callWrapper", E.Name, calls(E, Nothing, Calls));
            All.add("finalize 4K + 4K", E.Name, finalizes(E, 4096, Nothing, false, Calls / 4));
            All.add("finalize 4K + 4K, and a call", E.Name, finalizes(E, 4096, Nothing, true, Calls / 4));
            All.add("finalize 512K + 512K", E.Name, finalizes(E, 512 << 10, Nothing, false, Calls / 20));
            All.add("link and look up", E.Name, links(E, *Object, Calls / 20));
        }
    All.print(Executors);
    // Each session ends its executor.
    Executors.clear();
    while (wait(nullptr) > 0) {
    }
    return 0;
}
