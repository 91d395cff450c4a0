// measures.hpp: what the table has for each executor. Each function returns the times of single operations, in nanoseconds.
#pragma once

#include "executors.hpp"

#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/CompileUtils.h"
#include "llvm/ExecutionEngine/Orc/ThreadSafeModule.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

#include <chrono>

using Times = std::vector<double>;

// Runs an operation this many times. What the function returns is not measured, but ended: a removal, for example.
template <typename FnT> Times timed(unsigned Count, FnT Operation) {
    Times Found;
    for (unsigned At = 0; At != Count; ++At) {
        auto Start = std::chrono::steady_clock::now();
        auto End = Operation();
        Found.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - Start).count());
        End();
    }
    return Found;
}

inline llvm::orc::ExecutorProcessControl &controlOf(Executor &E) {
    return E.J->getExecutionSession().getExecutorProcessControl();
}

// A module of this assembly.
inline llvm::orc::ThreadSafeModule module(llvm::StringRef Assembly) {
    auto Context = std::make_unique<llvm::LLVMContext>();
    llvm::SMDiagnostic Diagnostic;
    auto M = llvm::parseAssemblyString(Assembly, Diagnostic, *Context);
    if (M == nullptr)
        llvm::report_fatal_error(Diagnostic.getMessage());
    return llvm::orc::ThreadSafeModule(std::move(M), std::move(Context));
}

// The object file that an executor's compiler makes of this assembly.
inline llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> compiled(Executor &E, llvm::StringRef Assembly) {
    llvm::orc::JITTargetMachineBuilder Builder(E.J->getTargetTriple());
    Builder.setRelocationModel(llvm::Reloc::PIC_);
    auto Machine = Builder.createTargetMachine();
    if (!Machine)
        return Machine.takeError();
    return module(Assembly).withModuleDo([&](llvm::Module &M) {
        M.setDataLayout((*Machine)->createDataLayout());
        return llvm::orc::SimpleCompiler(**Machine)(M);
    });
}

// Functions of bytes: one that does nothing, and the sum of two numbers.
inline constexpr const char *FUNCTIONS = R"(
define { ptr, i64 } @nothing(ptr %args, i64 %size) {
  ret { ptr, i64 } zeroinitializer
}
define { i64, i64 } @sum(ptr %args, i64 %size) {
  %behind = getelementptr i64, ptr %args, i64 1
  %one = load i64, ptr %args, align 1
  %other = load i64, ptr %behind, align 1
  %sum = add i64 %one, %other
  %result = insertvalue { i64, i64 } { i64 0, i64 8 }, i64 %sum, 0
  ret { i64, i64 } %result
}
)";

// An object with code, constants, data and a function of the C library.
inline constexpr const char *LINKED = R"(
@text = private constant [6 x i8] c"hello\00"
@count = global i64 0
declare i64 @strlen(ptr)
define i64 @linked() {
  %length = call i64 @strlen(ptr @text)
  %before = load i64, ptr @count
  %after = add i64 %before, %length
  store i64 %after, ptr @count
  ret i64 %after
}
)";

inline Times calls(Executor &E, llvm::orc::ExecutorAddr Nothing, unsigned Count) {
    auto &EPC = controlOf(E);
    char Args[8] = {};
    return timed(Count, [&] {
        auto Result = EPC.callWrapper(Nothing, Args);
        if (Result.getOutOfBandError() != nullptr)
            llvm::report_fatal_error(Result.getOutOfBandError());
        return [] {};
    });
}

// Memory for code and for data is reserved, written and finalized, as for a link of this size. With a call, that runs behind it:
// farcall leaves work to the next call.
inline Times finalizes(Executor &E, size_t Bytes, llvm::orc::ExecutorAddr Nothing, bool IsCalled, unsigned Count) {
    using namespace llvm;
    using namespace llvm::orc;
    auto &EPC = controlOf(E);
    std::vector<char> Content(Bytes, 'x');
    return timed(Count, [&] {
        AllocGroup Code = MemProt::Read | MemProt::Exec, Data = MemProt::Read | MemProt::Write;
        jitlink::SimpleSegmentAlloc::SegmentMap Segments = {{Code, {Bytes, Align(16)}}, {Data, {Bytes, Align(16)}}};
        auto Alloc = cantFail(jitlink::SimpleSegmentAlloc::Create(EPC.getMemMgr(), EPC.getSymbolStringPool(),
                                                                  EPC.getTargetTriple(), nullptr, std::move(Segments)));
        for (auto Group : {Code, Data})
            memcpy(Alloc.getSegInfo(Group).WorkingMem.data(), Content.data(), Bytes);
        auto Finalized = cantFail(Alloc.finalize());
        if (IsCalled)
            (void)EPC.callWrapper(Nothing, {});
        return [&EPC, Finalized = std::move(Finalized)]() mutable {
            cantFail(EPC.getMemMgr().deallocate(std::move(Finalized)));
        };
    });
}

inline Times links(Executor &E, llvm::MemoryBufferRef Object, unsigned Count) {
    auto &Dylib = E.J->getMainJITDylib();
    return timed(Count, [&] {
        auto Tracker = Dylib.createResourceTracker();
        cantFail(E.J->addObjectFile(Tracker, llvm::MemoryBuffer::getMemBuffer(Object, false)));
        cantFail(E.J->lookup("linked"));
        return [Tracker] { cantFail(Tracker->remove()); };
    });
}
