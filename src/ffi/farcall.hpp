// farcall.hpp: the controller's side of farcall.h for C++17 and later. Header only; link what farcall.h asks for.
//
// Errors: functions return outcome<T>. With exceptions that is T, and a failure throws farcall::error. Without them
// (-fno-exceptions, or FARCALL_EXCEPTIONS defined as 0) it is result<T>, which has the value or the error. A program may have
// translation units of both kinds.
//
// Ownership: controller, pipeline, function, region and memory own what they name, and free it when they are destroyed. They
// are moved, not copied. dylib and tracker are plain values: their code lives until it is removed, or with the controller.
//
// Threads: as in farcall.h. One object is not to be moved or destroyed while another thread uses it; call close() to end calls.
#ifndef FARCALL_HPP
#define FARCALL_HPP

#include "farcall.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#ifndef FARCALL_EXCEPTIONS
#ifdef __cpp_exceptions
#define FARCALL_EXCEPTIONS 1
#else
#define FARCALL_EXCEPTIONS 0
#endif
#endif

namespace farcall {
#if FARCALL_EXCEPTIONS
inline namespace throwing {
#else
inline namespace returning {
#endif

// A fact about a death: nothing where it is so, a number or an address, a text, or several texts.
using fact = std::variant<std::monostate, std::uint64_t, std::string, std::vector<std::string>>;

// How an executor's process ended: the facts that are known, by the names of farcall_error_facts.
class death {
  public:
    explicit death(const farcall_error *of) {
        std::size_t count = 0;
        const farcall_fact *all = farcall_error_facts(of, &count);
        for (std::size_t at = 0; at < count; at++)
            facts_.emplace(all[at].name, value_of(all[at]));
    }

    const std::map<std::string, fact, std::less<>> &facts() const { return facts_; }
    // A flag of this name; also any fact of it.
    bool is(std::string_view name) const { return facts_.count(name) != 0; }
    std::optional<std::uint64_t> number(std::string_view name) const { return get<std::uint64_t>(name); }
    std::optional<std::string> text(std::string_view name) const { return get<std::string>(name); }
    // Texts; none if the fact is unknown.
    std::vector<std::string> list(std::string_view name) const {
        return get<std::vector<std::string>>(name).value_or(std::vector<std::string>());
    }

  private:
    static fact value_of(const farcall_fact &from) {
        switch (from.kind) {
        case FARCALL_NUMBER: return from.number;
        case FARCALL_TEXT: return std::string(from.text);
        case FARCALL_LIST: {
            std::vector<std::string> texts;
            for (auto text = from.list; *text != nullptr; text++)
                texts.emplace_back(*text);
            return texts;
        }
        default: return std::monostate();
        }
    }
    template <class T> std::optional<T> get(std::string_view name) const {
        auto found = facts_.find(name);
        const T *value = found == facts_.end() ? nullptr : std::get_if<T>(&found->second);
        return value == nullptr ? std::nullopt : std::optional<T>(*value);
    }

    std::map<std::string, fact, std::less<>> facts_;
};

// The reason of a failure: a code, a message, and how the executor died, if that is the reason.
class error : public std::runtime_error {
  public:
    // Takes the error.
    explicit error(farcall_error *taken)
        : std::runtime_error(farcall_error_message(taken)), code_(farcall_error_code_of(taken)),
          is_disconnected_(farcall_error_is_disconnected(taken)) {
        if (code_ == FARCALL_DIED)
            death_.emplace(taken);
        farcall_error_consume(taken);
    }

    farcall_error_code code() const { return code_; }
    // True when no further call can complete.
    bool is_disconnected() const { return is_disconnected_; }
    const std::optional<class death> &death() const { return death_; }

  private:
    farcall_error_code code_;
    bool is_disconnected_;
    std::optional<class death> death_;
};

// A value, or the reason for having none.
template <class T> class [[nodiscard]] result {
  public:
    result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    result(error failure) : held_(std::in_place_index<1>, std::move(failure)) {}

    explicit operator bool() const { return held_.index() == 0; }
    // The value; there must be one.
    T &operator*() { return *std::get_if<0>(&held_); }
    T *operator->() { return std::get_if<0>(&held_); }
    // The reason; there must be one.
    const error &failure() const { return *std::get_if<1>(&held_); }

  private:
    std::variant<T, error> held_;
};

template <> class [[nodiscard]] result<void> {
  public:
    result() = default;
    result(error failure) : failure_(std::move(failure)) {}

    explicit operator bool() const { return !failure_; }
    const error &failure() const { return *failure_; }

  private:
    std::optional<error> failure_;
};

namespace detail {
#if FARCALL_EXCEPTIONS
template <class T> struct outcome_of {
    using type = T;
};
inline void give(farcall_error *failure) {
    if (failure != nullptr)
        throw error(failure);
}
template <class T> T give(farcall_error *failure, T value) {
    give(failure);
    return value;
}
#else
template <class T> struct outcome_of {
    using type = result<T>;
};
inline result<void> give(farcall_error *failure) {
    if (failure != nullptr)
        return error(failure);
    return {};
}
template <class T> result<T> give(farcall_error *failure, T value) {
    if (failure != nullptr)
        return error(failure);
    return value;
}
#endif

// What C calls the host with, by number, so that a late call finds nothing in place of freed memory.
template <class F> class registry {
  public:
    static void *add(F function) {
        auto &all = instance();
        std::lock_guard<std::mutex> lock(all.mutex_);
        all.functions_[++all.last_] = std::make_shared<F>(std::move(function));
        return reinterpret_cast<void *>(all.last_);
    }
    static std::shared_ptr<F> find(void *number) {
        auto &all = instance();
        std::lock_guard<std::mutex> lock(all.mutex_);
        auto found = all.functions_.find(reinterpret_cast<std::uintptr_t>(number));
        return found == all.functions_.end() ? nullptr : found->second;
    }
    static void remove(void *number) {
        std::shared_ptr<F> removed;
        auto &all = instance();
        std::lock_guard<std::mutex> lock(all.mutex_);
        auto found = all.functions_.find(reinterpret_cast<std::uintptr_t>(number));
        if (found != all.functions_.end()) {
            removed = std::move(found->second);
            all.functions_.erase(found);
        }
    }

  private:
    static registry &instance() {
        static registry *all = new registry; // threads may outlive static objects
        return *all;
    }
    std::mutex mutex_;
    std::uintptr_t last_ = 0;
    std::map<std::uintptr_t, std::shared_ptr<F>> functions_;
};

// A number of farcall.h that is freed at the end.
template <class H, farcall_error *(*Free)(H *)> class owned {
  public:
    owned() = default;
    explicit owned(H *handle) : handle_(handle) {}
    owned(owned &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    owned &operator=(owned &&other) noexcept {
        if (this != &other) {
            reset();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;
    ~owned() { reset(); }

    H *get() const { return handle_; }
    H *release() { return std::exchange(handle_, nullptr); }
    void reset() {
        if (handle_ != nullptr)
            farcall_error_consume(Free(release()));
    }

  private:
    H *handle_ = nullptr;
};
} // namespace detail

// T, or result<T> without exceptions.
template <class T> using outcome = typename detail::outcome_of<T>::type;

// A pointer of the executor, as an argument or a result.
struct pointer {
    std::uint64_t address = 0;
};

namespace detail {
template <class> inline constexpr bool is_never = false;

// The name of a type in prototypes, its kind, and its member of farcall_value.
template <class T> struct type {
    static constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool>;
    static_assert(is_number || std::is_same_v<T, bool> || std::is_same_v<T, float> || std::is_same_v<T, double> ||
                      std::is_same_v<T, pointer> || std::is_void_v<T>,
                  "a number, bool, farcall::pointer or void");

    static std::string name() {
        if constexpr (std::is_void_v<T>)
            return "void";
        else if constexpr (std::is_same_v<T, bool>)
            return "bool";
        else if constexpr (std::is_same_v<T, float>)
            return "float";
        else if constexpr (std::is_same_v<T, double>)
            return "double";
        else if constexpr (std::is_same_v<T, pointer>)
            return "void *";
        else
            return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T)) + "_t";
    }

    static constexpr std::uint32_t kind() {
        if constexpr (std::is_void_v<T>)
            return FARCALL_VOID;
        else if constexpr (std::is_same_v<T, bool>)
            return FARCALL_BOOL;
        else if constexpr (std::is_same_v<T, float>)
            return FARCALL_F32;
        else if constexpr (std::is_same_v<T, double>)
            return FARCALL_F64;
        else if constexpr (std::is_same_v<T, pointer>)
            return FARCALL_POINTER;
        else {
            constexpr bool is_signed = std::is_signed_v<T>;
            switch (sizeof(T)) {
            case 1: return is_signed ? FARCALL_I8 : FARCALL_U8;
            case 2: return is_signed ? FARCALL_I16 : FARCALL_U16;
            case 4: return is_signed ? FARCALL_I32 : FARCALL_U32;
            default: return is_signed ? FARCALL_I64 : FARCALL_U64;
            }
        }
    }

    template <class V> static farcall_value value_of(V value) {
        farcall_value made{};
        made.kind = kind();
        static_assert(sizeof value <= sizeof made.data);
        std::memcpy(&made.data, &value, sizeof value);
        return made;
    }

    static T of(const farcall_value &value) {
        if constexpr (std::is_same_v<T, pointer>) {
            return pointer{value.data.address};
        } else if constexpr (!std::is_void_v<T>) {
            T made{};
            std::memcpy(&made, &value.data, sizeof made);
            return made;
        }
    }
};

template <class R, class... A> std::string prototype(const std::string &name) {
    std::string text = type<R>::name() + " " + name + "(";
    std::string separator;
    ((text += separator + type<A>::name(), separator = ", "), ...);
    return text + (sizeof...(A) == 0 ? "void)" : ")");
}

inline std::uint64_t milliseconds(std::chrono::nanoseconds time) {
    // Rounded up: a shorter wait than was asked for would be no wait of that time.
    return time.count() <= 0 ? 0 : static_cast<std::uint64_t>((time.count() + 999999) / 1000000);
}
} // namespace detail

// Bytes that a call has returned, or that a handler receives.
class buffer {
  public:
    buffer() : held_(farcall_buffer_empty()) {}
    // Takes the bytes.
    explicit buffer(farcall_buffer taken) : held_(taken) {}
    explicit buffer(std::string_view bytes) : held_(farcall_buffer_from_range(bytes.data(), bytes.size())) {}
    buffer(buffer &&other) noexcept : held_(other.release()) {}
    buffer &operator=(buffer &&other) noexcept {
        if (this != &other) {
            farcall_buffer_dispose(&held_);
            held_ = other.release();
        }
        return *this;
    }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer() { farcall_buffer_dispose(&held_); }

    // They stay where they are until the buffer is moved or destroyed.
    std::string_view view() const { return {farcall_buffer_const_data(&held_), farcall_buffer_size(&held_)}; }
    std::size_t size() const { return farcall_buffer_size(&held_); }
    farcall_buffer release() { return std::exchange(held_, farcall_buffer_empty()); }

  private:
    farcall_buffer held_;
};

// A C function of the executor, such as function<double(long, double)>. Calling it waits for its result.
template <class S> class function;

template <class R, class... A> class function<R(A...)> {
  public:
    explicit function(farcall_function *taken) : handle_(taken) {}

    outcome<R> operator()(A... arguments) const {
        return run(
            [this](const farcall_value *values, std::size_t count, farcall_value *result) {
                return farcall_function_call(handle_.get(), values, count, result);
            },
            arguments...);
    }
    // As above, for at most this time.
    outcome<R> call_for(std::chrono::nanoseconds time, A... arguments) const {
        return run(
            [this, time](const farcall_value *values, std::size_t count, farcall_value *result) {
                auto ms = detail::milliseconds(time);
                return farcall_function_call_timeout(handle_.get(), values, count, ms, result);
            },
            arguments...);
    }

  private:
    template <class F> static outcome<R> run(F call, A... arguments) {
        const farcall_value values[sizeof...(A) + 1] = {detail::type<A>::value_of(arguments)..., {}};
        farcall_value result{};
        farcall_error *failure = call(values, sizeof...(A), &result);
        if constexpr (std::is_void_v<R>)
            return detail::give(failure);
        else
            return detail::give(failure, detail::type<R>::of(result));
    }

    detail::owned<farcall_function, farcall_function_dispose> handle_;
};

// A call of a handler that wants an answer, once, on any thread. One that is destroyed without is answered with a failure.
class incoming_call {
  public:
    incoming_call(farcall_controller *controller, std::uint64_t tag, farcall_buffer args, std::uint64_t id)
        : controller_(controller), tag_(tag), args_(args), id_(id) {}
    incoming_call(incoming_call &&other) noexcept
        : controller_(std::exchange(other.controller_, nullptr)), tag_(other.tag_), args_(std::move(other.args_)),
          id_(other.id_) {}
    incoming_call &operator=(incoming_call &&) = delete;
    ~incoming_call() {
        if (controller_ != nullptr)
            fail("the handler has not answered");
    }

    std::uint64_t tag() const { return tag_; }
    std::string_view args() const { return args_.view(); }
    void answer(std::string_view bytes) { send(farcall_buffer_from_range(bytes.data(), bytes.size())); }
    void fail(const std::string &message) { send(farcall_buffer_from_out_of_band_error(message.c_str())); }

  private:
    void send(farcall_buffer result) {
        // An error says that the session is over.
        farcall_error_consume(farcall_controller_answer(std::exchange(controller_, nullptr), id_, result));
    }

    farcall_controller *controller_;
    std::uint64_t tag_;
    buffer args_;
    std::uint64_t id_;
};

using tag_handler = std::function<void(incoming_call)>;

namespace detail {
using named = std::function<farcall_error *(const farcall_value *, farcall_value *)>;

inline void on_tag(farcall_controller *controller, std::uint64_t tag, farcall_buffer args, std::uint64_t id, void *context) {
    incoming_call call(controller, tag, args, id);
    if (auto handler = registry<tag_handler>::find(context))
        (*handler)(std::move(call));
}

inline farcall_error *on_name(farcall_controller *, const farcall_value *values, std::size_t, farcall_value *result,
                              void *context) {
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
#if FARCALL_EXCEPTIONS
    try {
        work();
    } catch (const std::exception &failure) {
        return farcall_error_create(failure.what());
    } catch (...) {
        return farcall_error_create("the handler has thrown");
    }
#else
    work();
#endif
    return nullptr;
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

class controller;

// A set of linked code in the executor.
class dylib {
  public:
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
    // Defines a C function, such as define_handler<double(int, double)>("scale", ...), that calls one of this program. What it
    // throws becomes the error of the controller's call.
    template <class S, class F> outcome<void> define_handler(const std::string &name, F handler, tracker of = {}) {
        return define_handler_as(static_cast<S *>(nullptr), name, std::move(handler), of);
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
    // The function of this name and type: function_of<double(long, double)>("scale").
    template <class S> outcome<function<S>> function_of(const std::string &name) const {
        std::uint64_t address = 0;
        farcall_function *made = nullptr;
        farcall_error *failure = farcall_dylib_lookup(handle_, name.c_str(), &address);
        if (failure == nullptr)
            failure = create(static_cast<S *>(nullptr), name, address, &made);
        return detail::give(failure, function<S>(made));
    }

    outcome<void> initialize() { return detail::give(farcall_dylib_initialize(handle_)); }
    // Runs main with these arguments, the program's name first.
    outcome<int> run_main(const std::vector<std::string> &arguments) {
        std::vector<const char *> texts;
        for (const auto &argument : arguments)
            texts.push_back(argument.c_str());
        texts.push_back(nullptr);
        int returned = 0;
        farcall_error *failure = farcall_dylib_run_main(handle_, texts.data(), &returned);
        return detail::give(failure, returned);
    }

    outcome<tracker> create_tracker() {
        farcall_tracker *made = nullptr;
        farcall_error *failure = farcall_tracker_create(handle_, &made);
        return detail::give(failure, tracker(made));
    }
    outcome<void> clear() { return detail::give(farcall_dylib_clear(handle_)); }
    outcome<void> remove() { return detail::give(farcall_dylib_remove(handle_)); }

  private:
    friend class controller;
    using contexts = std::vector<std::shared_ptr<void>>;
    struct keeper {
        std::mutex mutex;
        contexts all;
    };

    dylib(farcall_controller *controller, farcall_dylib *handle, std::shared_ptr<keeper> kept)
        : controller_(controller), handle_(handle), kept_(std::move(kept)) {}

    template <class R, class... A>
    farcall_error *create(R (*)(A...), const std::string &name, std::uint64_t address, farcall_function **made) const {
        auto text = detail::prototype<R, A...>(name);
        return farcall_function_create(controller_, address, nullptr, text.c_str(), made);
    }

    template <class R, class... A, class F>
    outcome<void> define_handler_as(R (*)(A...), const std::string &name, F handler, tracker of) {
        detail::named named = [handler = std::move(handler)](const farcall_value *values, farcall_value *result) mutable {
            return detail::run<R, A...>(handler, values, result, std::index_sequence_for<A...>());
        };
        void *context = detail::registry<detail::named>::add(std::move(named));
        {
            std::lock_guard<std::mutex> lock(kept_->mutex);
            kept_->all.emplace_back(context, detail::registry<detail::named>::remove);
        }
        auto text = detail::prototype<R, A...>(name);
        return detail::give(
            farcall_dylib_define_handler(handle_, of.get(), nullptr, text.c_str(), detail::on_name, context));
    }

    farcall_controller *controller_ = nullptr;
    farcall_dylib *handle_ = nullptr;
    std::shared_ptr<keeper> kept_;
};

// Sends calls without waiting for their results.
class pipeline {
  public:
    // Receives a result, or the reason for having none.
    using completion = std::function<void(result<buffer>)>;

    explicit pipeline(farcall_pipeline *taken) : handle_(taken) {}

    // on_complete runs once: see farcall_on_complete.
    outcome<void> submit(std::uint64_t function, std::string_view args, completion on_complete) {
        auto *context = new completion(std::move(on_complete));
        farcall_error *failure =
            farcall_pipeline_submit(handle_.get(), function, args.data(), args.size(), completed, context);
        if (failure != nullptr)
            delete context;
        return detail::give(failure);
    }
    // How many calls have completed, on this thread.
    outcome<std::size_t> poll() {
        std::size_t count = 0;
        farcall_error *failure = farcall_pipeline_poll(handle_.get(), &count);
        return detail::give(failure, count);
    }
    void close() { handle_.reset(); }

  private:
    static void completed(farcall_error *failure, farcall_buffer bytes, void *context) {
        std::unique_ptr<completion> on_complete(static_cast<completion *>(context));
        buffer held(bytes);
        if (failure != nullptr)
            (*on_complete)(error(failure));
        else
            (*on_complete)(std::move(held));
    }

    detail::owned<farcall_pipeline, farcall_pipeline_close> handle_;
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
    // The base of the memory, for controller::deallocate.
    outcome<std::uint64_t> finalize(const std::vector<farcall_action> &actions = {}) {
        std::uint64_t base = 0;
        farcall_error *failure = farcall_memory_finalize(handle_.release(), actions.data(), actions.size(), &base);
        return detail::give(failure, base);
    }

  private:
    detail::owned<farcall_memory, farcall_memory_abandon> handle_;
};

// A session with an executor that this program has started. It ends when this object is destroyed.
class controller {
  public:
    // Options that start this program again as its executor; main must first call farcall_run_if_spawned.
    static farcall_start_options this_program() {
        farcall_start_options options{};
        options.size = sizeof options;
        options.this_program = true;
        return options;
    }
    static outcome<controller> start(const farcall_start_options &options = this_program()) {
        farcall_controller *made = nullptr;
        farcall_error *failure = farcall_check_version(FARCALL_VERSION);
        if (failure == nullptr)
            failure = farcall_controller_start(&options, &made);
        return detail::give(failure, controller(made));
    }

    controller(controller &&) noexcept = default;
    controller &operator=(controller &&) noexcept = default;
    // The session ends before what its handlers use.
    ~controller() { close(); }

    farcall_controller *get() const { return handle_.get(); }
    // Ends the session, also while other threads call.
    void close() {
        handle_.reset();
        if (kept_) {
            std::lock_guard<std::mutex> lock(kept_->mutex);
            kept_->all.clear();
        }
    }
    outcome<void> kill() { return detail::give(farcall_controller_kill(get())); }
    outcome<int> exit(int status) {
        int exit_status = 0;
        farcall_error *failure = farcall_controller_exit(get(), status, &exit_status);
        return detail::give(failure, exit_status);
    }
    // How the executor died, if it did.
    std::optional<error> death() const {
        farcall_error *found = farcall_controller_death(get());
        return found == nullptr ? std::nullopt : std::optional<error>(error(found));
    }

    outcome<int> pid() const {
        std::int32_t number = 0;
        farcall_error *failure = farcall_controller_pid(get(), &number);
        return detail::give(failure, static_cast<int>(number));
    }
    outcome<std::string> triple() const {
        char *text = nullptr;
        farcall_error *failure = farcall_controller_triple(get(), &text);
        std::string copy = text == nullptr ? "" : text;
        farcall_text_free(text);
        return detail::give(failure, std::move(copy));
    }
    outcome<std::string> confinement() const {
        char *text = nullptr;
        farcall_error *failure = farcall_controller_confinement(get(), &text);
        std::string copy = text == nullptr ? "" : text;
        farcall_text_free(text);
        return detail::give(failure, std::move(copy));
    }
    outcome<std::uint64_t> page_bytes() const {
        std::uint64_t bytes = 0;
        farcall_error *failure = farcall_controller_page_bytes(get(), &bytes);
        return detail::give(failure, bytes);
    }
    outcome<std::uint64_t> symbol(const std::string &name) const {
        std::uint64_t address = 0;
        farcall_error *failure = farcall_controller_symbol(get(), name.c_str(), &address);
        return detail::give(failure, address);
    }
    outcome<std::map<std::string, std::uint64_t>> symbols() const {
        std::map<std::string, std::uint64_t> all;
        auto visit = [](const char *name, std::uint64_t address, void *context) {
            static_cast<std::map<std::string, std::uint64_t> *>(context)->emplace(name, address);
        };
        farcall_error *failure = farcall_controller_each_symbol(get(), visit, &all);
        return detail::give(failure, std::move(all));
    }
    outcome<std::map<std::string, std::int64_t>> values() const {
        std::map<std::string, std::int64_t> all;
        auto visit = [](const char *name, std::int64_t value, void *context) {
            static_cast<std::map<std::string, std::int64_t> *>(context)->emplace(name, value);
        };
        farcall_error *failure = farcall_controller_each_value(get(), visit, &all);
        return detail::give(failure, std::move(all));
    }

    // Calls a wrapper function.
    outcome<buffer> call(std::uint64_t function, std::string_view args) const {
        farcall_buffer made = farcall_buffer_empty();
        farcall_error *failure = farcall_controller_call(get(), function, args.data(), args.size(), &made);
        return detail::give(failure, buffer(made));
    }
    outcome<buffer> call_for(std::chrono::nanoseconds time, std::uint64_t function, std::string_view args) const {
        farcall_buffer made = farcall_buffer_empty();
        auto ms = detail::milliseconds(time);
        farcall_error *failure = farcall_controller_call_timeout(get(), function, args.data(), args.size(), ms, &made);
        return detail::give(failure, buffer(made));
    }
    outcome<void> read(std::uint64_t address, void *data, std::size_t size) const {
        return detail::give(farcall_controller_read(get(), address, data, size));
    }
    outcome<void> write(std::uint64_t address, const void *data, std::size_t size) const {
        return detail::give(farcall_controller_write(get(), address, data, size));
    }
    // Where this program reads and writes memory for linked code, and how many bytes from there on.
    outcome<std::pair<void *, std::uint64_t>> shared_memory(std::uint64_t address) const {
        std::pair<void *, std::uint64_t> found{};
        farcall_error *failure = farcall_controller_shared_memory(get(), address, &found.first, &found.second);
        return detail::give(failure, found);
    }

    outcome<dylib> create_dylib(const std::string &name) {
        farcall_dylib *made = nullptr;
        farcall_error *failure = farcall_dylib_create(get(), name.c_str(), &made);
        return detail::give(failure, dylib(get(), made, kept_));
    }
    outcome<void> open_library(const std::string &path) {
        return detail::give(farcall_controller_open_library(get(), path.c_str()));
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
            farcall_controller_register_handler(get(), detail::on_tag, keep(std::move(handler)), &tag);
        return detail::give(failure, tag);
    }
    outcome<void> remove_handler(std::uint64_t tag) {
        return detail::give(farcall_controller_remove_handler(get(), tag));
    }
    outcome<void> handle_other_tags(tag_handler handler) {
        return detail::give(farcall_controller_handle_other_tags(get(), detail::on_tag, keep(std::move(handler))));
    }

    // The last zero_fill bytes of the data are zero.
    outcome<memory> reserve(farcall_sizes sizes, std::uint64_t zero_fill = 0) {
        farcall_memory *made = nullptr;
        farcall_error *failure = farcall_memory_reserve(get(), sizes, zero_fill, &made);
        return detail::give(failure, memory(made));
    }
    outcome<void> deallocate(const std::vector<std::uint64_t> &bases) {
        return detail::give(farcall_controller_deallocate(get(), bases.data(), bases.size()));
    }

  private:
    explicit controller(farcall_controller *taken) : handle_(taken), kept_(std::make_shared<dylib::keeper>()) {}

    // Keeps a handler until the session is closed.
    void *keep(tag_handler handler) {
        void *context = detail::registry<tag_handler>::add(std::move(handler));
        std::lock_guard<std::mutex> lock(kept_->mutex);
        kept_->all.emplace_back(context, detail::registry<tag_handler>::remove);
        return context;
    }

    detail::owned<farcall_controller, farcall_controller_close> handle_;
    std::shared_ptr<dylib::keeper> kept_;
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

    unsigned char *data() const { return data_; }
    std::uint64_t bytes() const { return bytes_; }
    // The executor's address of the first byte: data(), unless is_anywhere is true and other memory is there.
    outcome<std::uint64_t> attach(const controller &to, bool is_anywhere = false) {
        std::uint64_t address = 0;
        farcall_error *failure = farcall_region_attach(handle_.get(), to.get(), is_anywhere, &address);
        return detail::give(failure, address);
    }
    outcome<void> detach(const controller &from) {
        return detail::give(farcall_region_detach(handle_.get(), from.get()));
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
