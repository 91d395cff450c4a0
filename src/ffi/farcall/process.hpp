// farcall/process.hpp: what has addresses: processes, memory, regions, handlers by tags, and LLVM's dylibs.
#ifndef FARCALL_PROCESS_HPP
#define FARCALL_PROCESS_HPP

#include <farcall/function.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall {
inline namespace FARCALL_KIND {

// A call of a handler that wants an answer, once, on any thread. One that is destroyed without is answered with a failure.
class incoming_call {
  public:
    incoming_call(farcall_process *process, std::uint64_t tag, farcall_buffer args, std::uint64_t id)
        : process_(process), tag_(tag), args_(args), id_(id) {}
    incoming_call(incoming_call &&other) noexcept
        : process_(std::exchange(other.process_, nullptr)), tag_(other.tag_), args_(std::move(other.args_)),
          id_(other.id_) {}
    incoming_call &operator=(incoming_call &&) = delete;
    ~incoming_call() {
        if (process_ != nullptr)
            fail("the handler has not answered");
    }

    std::uint64_t tag() const { return tag_; }
    std::string_view args() const { return args_.view(); }
    void answer(std::string_view bytes) { send(farcall_buffer_from_range(bytes.data(), bytes.size())); }
    void fail(const std::string &message) { send(farcall_buffer_from_out_of_band_error(message.c_str())); }

  private:
    void send(farcall_buffer result) {
        // An error says that the session is over.
        farcall_error_consume(farcall_process_answer(std::exchange(process_, nullptr), id_, result));
    }

    farcall_process *process_;
    std::uint64_t tag_;
    buffer args_;
    std::uint64_t id_;
};

using tag_handler = std::function<void(incoming_call)>;

namespace detail {
// The functions that the host has given, until the last object of their executor is destroyed.
class keeper {
  public:
    // Keeps a function, and returns the context that names it.
    template <class F> void *keep(F function) {
        void *context = registry<F>::add(std::move(function));
        std::lock_guard<std::mutex> lock(mutex_);
        all_.emplace_back(context, registry<F>::remove);
        return context;
    }

  private:
    std::mutex mutex_;
    std::vector<std::shared_ptr<void>> all_;
};

using named = std::function<farcall_error *(const farcall_value *, farcall_value *)>;

inline void on_tag(farcall_process *process, std::uint64_t tag, farcall_buffer args, std::uint64_t id, void *context) {
    incoming_call call(process, tag, args, id);
    if (auto handler = registry<tag_handler>::find(context))
        (*handler)(std::move(call));
}

inline farcall_error *on_name(const farcall_value *values, std::size_t, farcall_value *result, void *context) {
    auto handler = registry<named>::find(context);
    return handler ? (*handler)(values, result) : farcall_error_create("the session is over");
}

template <class R, class... A, class F, std::size_t... I>
farcall_error *run(F &handler, const farcall_value *values, farcall_value *result, std::index_sequence<I...>) {
    (void)values, (void)result;
    auto work = [&] {
        if constexpr (std::is_void_v<R>)
            handler(type<A>::of(values[I])...);
        else
            *result = type<R>::value_of(static_cast<R>(handler(type<A>::of(values[I])...)));
    };
    return guarded(work);
}
} // namespace detail


// Owns objects of a dylib, which are removed together.
class tracker {
  public:
    tracker() : handle_(nullptr) {} // the dylib's default tracker
    explicit tracker(farcall_tracker *handle) : handle_(handle) {}
    farcall_tracker *get() const { return handle_; }
    outcome<void> remove() { return detail::give(farcall_tracker_remove(handle_)); }
    // Its objects go to another tracker.
    outcome<void> transfer(const tracker &to) { return detail::give(farcall_tracker_transfer(handle_, to.handle_)); }

  private:
    farcall_tracker *handle_;
};

// A set of linked code in one process, as LLVM's JITDylib: an object is linked when a symbol of it is looked up. Most programs do best
// with a library. A plain value: the code lives until it is removed, or with the process.
class dylib {
  public:
    explicit dylib(farcall_dylib *handle) : handle_(handle) {}
    farcall_dylib *get() const { return handle_; }

    outcome<void> add_object(const std::string &name, std::string_view bytes, tracker of = {}) {
        return detail::give(farcall_dylib_add_object(handle_, of.get(), name.c_str(), bytes.data(), bytes.size()));
    }
    outcome<void> add_object_file(const std::string &path, tracker of = {}) {
        return detail::give(farcall_dylib_add_object_file(handle_, of.get(), path.c_str()));
    }
    outcome<void> add_archive(const std::string &name, std::string_view bytes) {
        return detail::give(farcall_dylib_add_archive(handle_, name.c_str(), bytes.data(), bytes.size()));
    }
    outcome<void> add_archive_file(const std::string &path) {
        return detail::give(farcall_dylib_add_archive_file(handle_, path.c_str()));
    }
    outcome<void> add_to_link_order(const dylib &other) {
        return detail::give(farcall_dylib_add_to_link_order(handle_, other.handle_));
    }
    outcome<void> define(const std::string &name, std::uint64_t address) {
        return detail::give(farcall_dylib_define(handle_, name.c_str(), address));
    }
    outcome<std::uint64_t> lookup(const std::string &name) const {
        std::uint64_t address = 0;
        farcall_error *failure = farcall_dylib_lookup(handle_, name.c_str(), &address);
        return detail::give(failure, address);
    }
    outcome<std::vector<std::uint64_t>> lookup(const std::vector<std::string> &names) const {
        std::vector<const char *> texts;
        for (const auto &name : names)
            texts.push_back(name.c_str());
        std::vector<std::uint64_t> found(names.size());
        farcall_error *failure = farcall_dylib_lookup_many(handle_, texts.data(), texts.size(), found.data());
        return detail::give(failure, std::move(found));
    }
    outcome<void> initialize() { return detail::give(farcall_dylib_initialize(handle_)); }
    outcome<tracker> create_tracker() {
        farcall_tracker *made = nullptr;
        farcall_error *failure = farcall_tracker_create(handle_, &made);
        return detail::give(failure, tracker(made));
    }
    outcome<void> clear() { return detail::give(farcall_dylib_clear(handle_)); }
    outcome<void> remove() { return detail::give(farcall_dylib_remove(handle_)); }

  private:
    farcall_dylib *handle_;
};

// Memory in the executor that no code uses yet; it is freed unless it is finalized.
class memory {
  public:
    explicit memory(farcall_memory *taken) : handle_(taken) {}

    outcome<farcall_part> part(farcall_protection protection) const {
        farcall_part found{};
        farcall_error *failure = farcall_memory_part(handle_.get(), protection, &found);
        return detail::give(failure, found);
    }
    // Names for messages about crashes, until the memory is freed.
    outcome<void> name_functions(const std::string &object, const std::vector<farcall_function_name> &functions) {
        farcall_error *failure =
            farcall_memory_name_functions(handle_.get(), object.c_str(), functions.data(), functions.size());
        return detail::give(failure);
    }
    // The base of the memory, for process::deallocate.
    outcome<std::uint64_t> finalize(const std::vector<farcall_action> &actions = {}) {
        std::uint64_t base = 0;
        farcall_error *failure = farcall_memory_finalize(handle_.release(), actions.data(), actions.size(), &base);
        return detail::give(failure, base);
    }

  private:
    detail::owned<farcall_memory, farcall_memory_abandon> handle_;
};

// A process of an executor: what has addresses. With its handle go dylibs, functions by address, pipelines, handlers and memory that
// was not finalized; the process itself runs on.
class process {
  public:
    explicit process(farcall_process *taken, std::shared_ptr<detail::keeper> kept = std::make_shared<detail::keeper>())
        : handle_(taken), kept_(std::move(kept)) {}

    farcall_process *get() const { return handle_.get(); }
    // Leaves the handle to its owner.
    farcall_process *release() { return handle_.release(); }
    outcome<void> kill() { return detail::give(farcall_process_kill(get())); }
    outcome<int> exit(int status) {
        int exit_status = 0;
        farcall_error *failure = farcall_process_exit(get(), status, &exit_status);
        return detail::give(failure, exit_status);
    }
    // How the process died, if it did.
    std::optional<error> death() const {
        farcall_error *found = farcall_process_death(get());
        return found == nullptr ? std::nullopt : std::optional<error>(error(found));
    }

    outcome<int> pid() const {
        std::int32_t number = 0;
        farcall_error *failure = farcall_process_pid(get(), &number);
        return detail::give(failure, static_cast<int>(number));
    }
    outcome<std::string> triple() const {
        char *text = nullptr;
        farcall_error *failure = farcall_process_triple(get(), &text);
        return detail::give(failure, detail::taken(text));
    }
    outcome<std::string> confinement() const {
        char *text = nullptr;
        farcall_error *failure = farcall_process_confinement(get(), &text);
        return detail::give(failure, detail::taken(text));
    }
    outcome<std::uint64_t> page_bytes() const {
        std::uint64_t bytes = 0;
        farcall_error *failure = farcall_process_page_bytes(get(), &bytes);
        return detail::give(failure, bytes);
    }
    outcome<std::uint64_t> symbol(const std::string &name) const {
        std::uint64_t address = 0;
        farcall_error *failure = farcall_process_symbol(get(), name.c_str(), &address);
        return detail::give(failure, address);
    }
    outcome<std::map<std::string, std::uint64_t>> symbols() const {
        std::map<std::string, std::uint64_t> all;
        auto visit = [](const char *name, std::uint64_t address, void *context) {
            static_cast<std::map<std::string, std::uint64_t> *>(context)->emplace(name, address);
        };
        farcall_error *failure = farcall_process_each_symbol(get(), visit, &all);
        return detail::give(failure, std::move(all));
    }
    outcome<std::map<std::string, std::int64_t>> values() const {
        std::map<std::string, std::int64_t> all;
        auto visit = [](const char *name, std::int64_t value, void *context) {
            static_cast<std::map<std::string, std::int64_t> *>(context)->emplace(name, value);
        };
        farcall_error *failure = farcall_process_each_value(get(), visit, &all);
        return detail::give(failure, std::move(all));
    }

    // The C function at an address, such as function<double(long, double)>(address).
    template <class S> outcome<farcall::function<S>> function(std::uint64_t address) const {
        farcall_function *made = nullptr;
        const std::string text = detail::signature<S>::prototype("function");
        farcall_error *failure = farcall_process_function(get(), address, nullptr, text.c_str(), &made);
        return detail::give(failure, farcall::function<S>(made));
    }
    // Calls a wrapper function.
    outcome<buffer> call(std::uint64_t function, std::string_view args) const {
        farcall_buffer made = farcall_buffer_empty();
        farcall_error *failure = farcall_process_call(get(), function, args.data(), args.size(), &made);
        return detail::give(failure, buffer(made));
    }
    outcome<buffer> call_with(const call_options &options, std::uint64_t function, std::string_view args) const {
        farcall_buffer made = farcall_buffer_empty();
        const farcall_call_options with = options.get();
        farcall_error *failure = farcall_process_call_with(get(), function, &with, args.data(), args.size(), &made);
        return detail::give(failure, buffer(made));
    }
    outcome<void> read(std::uint64_t address, void *data, std::size_t size) const {
        return detail::give(farcall_process_read(get(), address, data, size));
    }
    outcome<void> write(std::uint64_t address, const void *data, std::size_t size) const {
        return detail::give(farcall_process_write(get(), address, data, size));
    }
    // Where this program reads and writes memory for linked code, and how many bytes from there on.
    outcome<std::pair<void *, std::uint64_t>> shared_memory(std::uint64_t address) const {
        std::pair<void *, std::uint64_t> found{};
        farcall_error *failure = farcall_process_shared_memory(get(), address, &found.first, &found.second);
        return detail::give(failure, found);
    }

    outcome<dylib> create_dylib(const std::string &name) {
        farcall_dylib *made = nullptr;
        farcall_error *failure = farcall_dylib_create(get(), name.c_str(), &made);
        return detail::give(failure, dylib(made));
    }
    // If is_polled is true, completions run within pipeline::poll.
    outcome<pipeline> open_pipeline(bool is_polled = false) {
        farcall_pipeline *made = nullptr;
        farcall_error *failure = farcall_pipeline_open(get(), is_polled, &made);
        return detail::give(failure, pipeline(made));
    }

    // The tag of a new handler.
    outcome<std::uint64_t> register_handler(tag_handler handler) {
        std::uint64_t tag = 0;
        farcall_error *failure =
            farcall_process_register_handler(get(), detail::on_tag, kept_->keep(std::move(handler)), &tag);
        return detail::give(failure, tag);
    }
    outcome<void> remove_handler(std::uint64_t tag) {
        return detail::give(farcall_process_remove_handler(get(), tag));
    }
    outcome<void> handle_other_tags(tag_handler handler) {
        return detail::give(farcall_process_handle_other_tags(get(), detail::on_tag, kept_->keep(std::move(handler))));
    }

    // The last zero_fill bytes of the data are zero.
    outcome<memory> reserve(farcall_sizes sizes, std::uint64_t zero_fill = 0) {
        farcall_memory *made = nullptr;
        farcall_error *failure = farcall_memory_reserve(get(), sizes, zero_fill, &made);
        return detail::give(failure, memory(made));
    }
    outcome<void> deallocate(const std::vector<std::uint64_t> &bases) {
        return detail::give(farcall_process_deallocate(get(), bases.data(), bases.size()));
    }


  private:
    detail::owned<farcall_process, farcall_process_dispose> handle_;
    std::shared_ptr<detail::keeper> kept_;
};

// Memory of this program that executors map as well.
class region {
  public:
    static outcome<region> create(std::uint64_t bytes, bool is_read_only = false) {
        farcall_region *made = nullptr;
        farcall_error *failure = farcall_region_create(bytes, is_read_only, &made);
        region wrapped(made);
        void *data = nullptr;
        if (failure == nullptr)
            failure = farcall_region_data(made, &data, &wrapped.bytes_);
        wrapped.data_ = static_cast<unsigned char *>(data);
        return detail::give(failure, std::move(wrapped));
    }

    farcall_region *get() const { return handle_.get(); }
    unsigned char *data() const { return data_; }
    std::uint64_t bytes() const { return bytes_; }
    // The executor's address of the first byte: data(), unless is_anywhere is true and other memory is there.
    outcome<std::uint64_t> attach(const process &to, bool is_anywhere = false) {
        std::uint64_t address = 0;
        farcall_error *failure = farcall_region_attach(handle_.get(), to.get(), is_anywhere, &address);
        return detail::give(failure, address);
    }
    outcome<void> detach(const process &from) {
        return detail::give(farcall_region_detach(handle_.get(), from.get()));
    }
    // Takes the memory of a part now, in pages of 2 MiB, or gives it back.
    outcome<void> populate(std::size_t offset, std::size_t bytes) {
        return detail::give(farcall_region_populate(handle_.get(), offset, bytes));
    }
    outcome<void> use_large_pages(std::size_t offset, std::size_t bytes) {
        return detail::give(farcall_region_use_large_pages(handle_.get(), offset, bytes));
    }
    outcome<void> discard(std::size_t offset, std::size_t bytes) {
        return detail::give(farcall_region_discard(handle_.get(), offset, bytes));
    }
    // The offset of a block of the region's heap.
    outcome<std::uint64_t> allocate(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) {
        std::uint64_t offset = 0;
        farcall_error *failure = farcall_region_allocate(handle_.get(), size, alignment, &offset);
        return detail::give(failure, offset);
    }
    outcome<void> free(std::uint64_t offset) { return detail::give(farcall_region_free(handle_.get(), offset)); }

  private:
    explicit region(farcall_region *taken) : handle_(taken) {}

    detail::owned<farcall_region, farcall_region_dispose> handle_;
    unsigned char *data_ = nullptr;
    std::uint64_t bytes_ = 0;
};

} // inline namespace
} // namespace farcall

#endif
