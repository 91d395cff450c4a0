// farcall/llvm/memory_access.hpp: the executor's memory by address, by loads and stores where both processes map it.
#ifndef FARCALL_LLVM_MEMORY_ACCESS_HPP
#define FARCALL_LLVM_MEMORY_ACCESS_HPP

#include <farcall/llvm/call_scope.hpp>
#include <farcall/llvm/error.hpp>

#include "llvm/ExecutionEngine/Orc/EPCGenericMemoryAccess.h"
#include "llvm/ExecutionEngine/Orc/MemoryAccess.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall {

// The executor's memory by address. What both processes map is loaded and stored here; a request with other memory is one message
// from there on. An address that cannot be read or written is an error, and the executor continues.
class FarcallMemoryAccess : public llvm::orc::MemoryAccess {
public:
  FarcallMemoryAccess(farcall_process *Process, llvm::orc::ExecutorProcessControl &EPC,
                      llvm::orc::EPCGenericMemoryAccess::FuncAddrs Functions)
      : Process(Process), Messages(EPC, Functions) {}

  void writeUInt8sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt8Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt8sAsync(Rest, std::move(F)); });
  }
  void writeUInt16sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt16Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt16sAsync(Rest, std::move(F)); });
  }
  void writeUInt32sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt32Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt32sAsync(Rest, std::move(F)); });
  }
  void writeUInt64sAsync(llvm::ArrayRef<llvm::orc::tpctypes::UInt64Write> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeUInt64sAsync(Rest, std::move(F)); });
  }
  void writePointersAsync(llvm::ArrayRef<llvm::orc::tpctypes::PointerWrite> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writePointersAsync(Rest, std::move(F)); });
  }
  void writeBuffersAsync(llvm::ArrayRef<llvm::orc::tpctypes::BufferWrite> Ws, WriteResultFn F) override {
    write(Ws, std::move(F), [&](auto Rest, auto F) { Messages.writeBuffersAsync(Rest, std::move(F)); });
  }
  void readUInt8sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint8_t> F) override {
    read<uint8_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt8sAsync(Rs, std::move(F)); });
  }
  void readUInt16sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint16_t> F) override {
    read<uint16_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt16sAsync(Rs, std::move(F)); });
  }
  void readUInt32sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint32_t> F) override {
    read<uint32_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt32sAsync(Rs, std::move(F)); });
  }
  void readUInt64sAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadUIntsCompleteFn<uint64_t> F) override {
    read<uint64_t>(Rs, std::move(F), [&](auto F) { Messages.readUInt64sAsync(Rs, std::move(F)); });
  }
  void readPointersAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadPointersCompleteFn F) override {
    read<llvm::orc::ExecutorAddr>(Rs, std::move(F), [&](auto F) { Messages.readPointersAsync(Rs, std::move(F)); });
  }

  void readBuffersAsync(llvm::ArrayRef<llvm::orc::ExecutorAddrRange> Rs, OnReadBuffersCompleteFn F) override {
    ReadBuffersResult Buffers;
    for (const auto &Range : Rs) {
      auto From = at(Range.Start, Range.size());
      if (!From)
        return send([&] { Messages.readBuffersAsync(Rs, std::move(F)); });
      Buffers.emplace_back(From.Start, From.Start + Range.size());
    }
    F(std::move(Buffers));
  }

  void readStringsAsync(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, OnReadStringsCompleteFn F) override {
    ReadStringsResult Strings;
    for (auto Address : Rs) {
      auto From = at(Address, 1);
      size_t Size = From ? strnlen(From.Start, From.Bytes) : 0;
      if (Size == From.Bytes)
        return send([&] { Messages.readStringsAsync(Rs, std::move(F)); });
      Strings.emplace_back(From.Start, Size);
    }
    F(std::move(Strings));
  }

private:
  // Sends a message, whatever options the thread's calls have.
  template <typename SendT> static void send(SendT Send) {
    CallScope Scope(nullptr);
    Send();
  }

  // Bytes that both processes map, in this one.
  struct Shared {
    char *Start = nullptr;
    uint64_t Bytes = 0;
    explicit operator bool() const { return Start != nullptr; }
  };

  // The shared bytes from an address on; none if they are fewer than these.
  Shared at(llvm::orc::ExecutorAddr Address, uint64_t Least) const {
    Shared Found;
    void *Working = nullptr;
    farcall_error_consume(farcall_process_shared_memory(Process, Address.getValue(), &Working, &Found.Bytes));
    if (Found.Bytes < Least)
      return {};
    Found.Start = static_cast<char *>(Working);
    return Found;
  }

  // Code that reads a word meanwhile sees all of it or nothing, if the address is a multiple of its size.
  template <typename T> static void store(char *To, T Value) {
    if (reinterpret_cast<uintptr_t>(To) % sizeof(T) == 0)
      __atomic_store(reinterpret_cast<T *>(To), &Value, __ATOMIC_RELEASE);
    else
      std::memcpy(To, &Value, sizeof(T));
  }

  template <typename T> static T load(const char *From) {
    T Value{};
    if (reinterpret_cast<uintptr_t>(From) % sizeof(T) == 0)
      __atomic_load(reinterpret_cast<const T *>(From), &Value, __ATOMIC_ACQUIRE);
    else
      std::memcpy(&Value, From, sizeof(T));
    return Value;
  }

  template <typename T> bool storeOne(const llvm::orc::tpctypes::UIntWrite<T> &W) const {
    return storeWord<T>(W.Addr, W.Value);
  }
  bool storeOne(const llvm::orc::tpctypes::PointerWrite &W) const { return storeWord<uint64_t>(W.Addr, W.Value.getValue()); }
  bool storeOne(const llvm::orc::tpctypes::BufferWrite &W) const {
    auto To = at(W.Addr, W.Buffer.size());
    if (To)
      std::copy(W.Buffer.begin(), W.Buffer.end(), To.Start);
    return bool(To);
  }

  template <typename T> bool storeWord(llvm::orc::ExecutorAddr Address, T Value) const {
    auto To = at(Address, sizeof(T));
    if (To)
      store(To.Start, Value);
    return bool(To);
  }

  // In order: what comes before the first address of other memory is stored here, the rest by a message.
  template <typename W, typename SendT> void write(llvm::ArrayRef<W> Ws, WriteResultFn F, SendT Send) {
    while (!Ws.empty() && storeOne(Ws.front()))
      Ws = Ws.drop_front();
    if (Ws.empty())
      F(llvm::Error::success());
    else
      send([&] { Send(Ws, std::move(F)); });
  }

  template <typename T, typename FnT, typename SendT>
  void read(llvm::ArrayRef<llvm::orc::ExecutorAddr> Rs, FnT F, SendT Send) {
    using Word = std::conditional_t<std::is_same_v<T, llvm::orc::ExecutorAddr>, uint64_t, T>;
    std::vector<T> Values;
    Values.reserve(Rs.size());
    for (auto Address : Rs) {
      auto From = at(Address, sizeof(Word));
      if (!From)
        return send([&] { Send(std::move(F)); });
      Values.push_back(T(load<Word>(From.Start)));
    }
    F(std::move(Values));
  }

  farcall_process *Process;
  llvm::orc::EPCGenericMemoryAccess Messages;
};

} // namespace farcall

#endif
