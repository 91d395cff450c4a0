// farcall/llvm/perf_map.hpp: perf finds the names of linked functions.
#ifndef FARCALL_LLVM_PERF_MAP_HPP
#define FARCALL_LLVM_PERF_MAP_HPP

#include <farcall/llvm/process_control.hpp>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <mutex>
#include <string>

namespace farcall {

// Writes the functions of every link to /tmp/perf-PID.map, PID being the executor's: a line "START SIZE name" for each, the numbers in
// hexadecimal. Add it to the ObjectLinkingLayer:
//
//     Layer.addPlugin(llvm::cantFail(farcall::FarcallPerfMap::Create(EPC)));
//
// It sends no message. An executor has one map. The file stays, with removed functions, because perf reads it after the process has
// ended; only the user removes it. Links of several threads write whole blocks of lines.
class FarcallPerfMap : public llvm::orc::ObjectLinkingLayer::Plugin {
public:
  // Makes an empty map. Removes an existing file, which belongs to an earlier process with that number. Follows no link.
  static llvm::Expected<std::shared_ptr<FarcallPerfMap>> Create(const FarcallExecutorProcessControl &EPC) {
    int32_t Pid = 0;
    if (auto Err = takeError(farcall_process_pid(EPC.getProcess(), &Pid)))
      return Err;
    // perf looks in this folder only.
    std::string Path = "/tmp/perf-" + std::to_string(Pid) + ".map";
    if (auto Code = llvm::sys::fs::remove(Path))
      return llvm::createFileError(Path, Code);
    int Descriptor = -1;
    if (auto Code = llvm::sys::fs::openFileForWrite(Path, Descriptor, llvm::sys::fs::CD_CreateNew))
      return llvm::createFileError(Path, Code);
    return std::shared_ptr<FarcallPerfMap>(new FarcallPerfMap(std::move(Path), Descriptor));
  }

  const std::string &path() const { return Path; }

  void modifyPassConfig(llvm::orc::MaterializationResponsibility &, llvm::jitlink::LinkGraph &,
                        llvm::jitlink::PassConfiguration &Config) override {
    // The layer keeps its plugins while it links.
    Config.PostFixupPasses.push_back([this](llvm::jitlink::LinkGraph &G) { return write(G); });
  }

  llvm::Error notifyFailed(llvm::orc::MaterializationResponsibility &) override { return llvm::Error::success(); }
  llvm::Error notifyRemovingResources(llvm::orc::JITDylib &, llvm::orc::ResourceKey) override {
    return llvm::Error::success();
  }
  void notifyTransferringResources(llvm::orc::JITDylib &, llvm::orc::ResourceKey, llvm::orc::ResourceKey) override {}

private:
  FarcallPerfMap(std::string Path, int Descriptor) : Path(std::move(Path)), File(Descriptor, /*shouldClose=*/true) {}

  llvm::Error write(llvm::jitlink::LinkGraph &G) {
    std::string Lines;
    llvm::raw_string_ostream To(Lines);
    for (auto *Symbol : G.defined_symbols())
      if (Symbol->hasName() && Symbol->isCallable() && Symbol->getSize() > 0)
        To << llvm::utohexstr(Symbol->getAddress().getValue(), /*LowerCase=*/true) << ' '
           << llvm::utohexstr(Symbol->getSize(), /*LowerCase=*/true) << ' ' << *Symbol->getName() << '\n';
    std::lock_guard<std::mutex> Lock(FileMutex);
    File << Lines;
    File.flush();
    if (File.has_error()) {
      auto Code = File.error();
      File.clear_error();
      return llvm::createFileError(Path, Code);
    }
    return llvm::Error::success();
  }

  std::string Path;
  std::mutex FileMutex;
  llvm::raw_fd_ostream File;
};

} // namespace farcall

#endif
