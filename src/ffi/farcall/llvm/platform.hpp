// farcall/llvm/platform.hpp: initializers and exit handlers without a runtime of LLVM's.
#ifndef FARCALL_LLVM_PLATFORM_HPP
#define FARCALL_LLVM_PLATFORM_HPP

#include <farcall/llvm/object_layer.hpp>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <utility>

namespace farcall {

// The platform of a session whose objects a FarcallObjectLayer links. It knows which of them have initializers.
class FarcallPlatform : public llvm::orc::Platform {
public:
  explicit FarcallPlatform(FarcallObjectLayer &Layer) : Layer(Layer) {}

  // For LLJITBuilder::setPlatformSetUp. LLJIT::initialize links the objects with initializers, and runs those that have not run: of the
  // dylibs that a dylib links against first, and then its own. LLJIT::deinitialize runs the exit handlers of the dylib.
  static llvm::Expected<llvm::orc::JITDylibSP> SetUp(llvm::orc::LLJIT &J) {
    auto *Layer = llvm::dyn_cast<FarcallObjectLayer>(&J.getObjLinkingLayer());
    if (Layer == nullptr)
      return llvm::createStringError("the platform is for farcall's object layer: setObjectLinkingLayerCreator");
    auto Made = std::make_unique<FarcallPlatform>(*Layer);
    J.setPlatformSupport(std::make_unique<Support>(*Made));
    J.getExecutionSession().setPlatform(std::move(Made));
    return nullptr;
  }

  llvm::Error initialize(llvm::orc::JITDylib &JD) {
    auto Order = llvm::orc::JITDylib::getReverseDFSLinkOrder({&JD});
    if (!Order)
      return Order.takeError();
    auto &ES = Layer.getExecutionSession();
    for (auto &Dylib : *Order) {
      llvm::orc::SymbolLookupSet Due;
      ES.runSessionLocked([&] {
        if (auto Found = Initializers.find(Dylib.get()); Found != Initializers.end()) {
          Due = std::move(Found->second);
          Initializers.erase(Found);
        }
      });
      if (!Due.empty()) {
        auto Linked = ES.lookup({{Dylib.get(), llvm::orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(Due));
        if (!Linked)
          return Linked.takeError();
      }
      if (auto Err = Layer.initialize(*Dylib))
        return Err;
    }
    return llvm::Error::success();
  }

  llvm::Error deinitialize(llvm::orc::JITDylib &JD) { return Layer.deinitialize(JD); }

  llvm::Error setupJITDylib(llvm::orc::JITDylib &) override { return llvm::Error::success(); }

  llvm::Error teardownJITDylib(llvm::orc::JITDylib &JD) override {
    Layer.getExecutionSession().runSessionLocked([&] { Initializers.erase(&JD); });
    return llvm::Error::success();
  }

  // Under the session's lock.
  llvm::Error notifyAdding(llvm::orc::ResourceTracker &RT, const llvm::orc::MaterializationUnit &MU) override {
    if (const auto &Name = MU.getInitializerSymbol())
      Initializers[&RT.getJITDylib()].add(Name, llvm::orc::SymbolLookupFlags::WeaklyReferencedSymbol);
    return llvm::Error::success();
  }

  llvm::Error notifyRemoving(llvm::orc::ResourceTracker &) override { return llvm::Error::success(); }

private:
  struct Support : llvm::orc::LLJIT::PlatformSupport {
    explicit Support(FarcallPlatform &Of) : Of(Of) {}
    llvm::Error initialize(llvm::orc::JITDylib &JD) override { return Of.initialize(JD); }
    llvm::Error deinitialize(llvm::orc::JITDylib &JD) override { return Of.deinitialize(JD); }
    FarcallPlatform &Of;
  };

  FarcallObjectLayer &Layer;
  // The symbols whose look-up links objects with initializers, until they are looked up. They belong to the session's lock.
  llvm::DenseMap<llvm::orc::JITDylib *, llvm::orc::SymbolLookupSet> Initializers;
};

// Makes an LLJITBuilder, or an LLLazyJITBuilder, link by farcall: with the object layer, the platform, and position-independent code.
template <typename BuilderT> llvm::Error linkByFarcall(BuilderT &Builder) {
  auto &Target = Builder.getJITTargetMachineBuilder();
  if (!Target) {
    auto Host = llvm::orc::JITTargetMachineBuilder::detectHost();
    if (!Host)
      return Host.takeError();
    Target = std::move(*Host);
  }
  Target->setRelocationModel(llvm::Reloc::PIC_);
  Target->setCodeModel(llvm::CodeModel::Small);
  Builder.setObjectLinkingLayerCreator(FarcallObjectLayer::Create);
  Builder.setPlatformSetUp(FarcallPlatform::SetUp);
  return llvm::Error::success();
}

} // namespace farcall

#endif
