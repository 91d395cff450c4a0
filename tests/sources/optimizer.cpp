// A compiler from LLVM's libraries: reads IR, optimizes it at O2 and prints assembly.
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

using namespace llvm;

int main(int count, char **arguments) {
    if (count != 2) {
        errs() << "a file with IR is needed\n";
        return 2;
    }
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    LLVMContext context;
    SMDiagnostic diagnostic;
    auto module = parseIRFile(arguments[1], diagnostic, context);
    if (!module) {
        diagnostic.print(arguments[0], errs());
        return 1;
    }
    Triple triple("x86_64-pc-linux-gnu");
    std::string error;
    const Target *target = TargetRegistry::lookupTarget(triple, error);
    if (!target) {
        errs() << error << '\n';
        return 1;
    }
    auto *machine = target->createTargetMachine(triple, "generic", "", TargetOptions(), Reloc::PIC_);
    module->setDataLayout(machine->createDataLayout());
    PassBuilder builder(machine);
    LoopAnalysisManager loops;
    FunctionAnalysisManager functions;
    CGSCCAnalysisManager components;
    ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(*module, modules);
    legacy::PassManager emit;
    if (machine->addPassesToEmitFile(emit, outs(), nullptr, CodeGenFileType::AssemblyFile)) return 1;
    emit.run(*module);
    outs().flush();
    return 0;
}
