// farcall/error.hpp: deaths and errors, by exceptions or as results.
#ifndef FARCALL_ERROR_HPP
#define FARCALL_ERROR_HPP

#include <farcall.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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

// What is compiled with exceptions and what is compiled without them has different names for the linker.
#if FARCALL_EXCEPTIONS
#define FARCALL_KIND throwing
#else
#define FARCALL_KIND returning
#endif

namespace farcall {
inline namespace FARCALL_KIND {

// A fact about a death or an interruption: nothing where it is so, a number or an address, a text, or several texts.
using fact = std::variant<std::monostate, std::uint64_t, std::string, std::vector<std::string>>;

// The facts that are known about a death or an interruption, by the names of farcall_error_facts.
class fact_list {
  public:
    explicit fact_list(const farcall_error *of) {
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

// How an executor's process ended.
class death : public fact_list {
  public:
    using fact_list::fact_list;
};

// Where a call was when it was interrupted: program_counter, location, cleanups_skipped, threads_started.
class interruption : public fact_list {
  public:
    using fact_list::fact_list;
};

// The reason of a failure: a code, a message, and how the executor died or where the call was interrupted, if that is the reason.
class error : public std::runtime_error {
  public:
    // Takes the error.
    explicit error(farcall_error *taken)
        : std::runtime_error(farcall_error_message(taken)), code_(farcall_error_code_of(taken)),
          is_disconnected_(farcall_error_is_disconnected(taken)) {
        if (code_ == FARCALL_DIED)
            death_.emplace(taken);
        if (code_ == FARCALL_INTERRUPTED)
            interruption_.emplace(taken);
        farcall_error_consume(taken);
    }

    farcall_error_code code() const { return code_; }
    // True when no further call can complete.
    bool is_disconnected() const { return is_disconnected_; }
    const std::optional<class death> &death() const { return death_; }
    const std::optional<class interruption> &interruption() const { return interruption_; }

  private:
    farcall_error_code code_;
    bool is_disconnected_;
    std::optional<class death> death_;
    std::optional<class interruption> interruption_;
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

// Does the work of a function that C calls: what it throws is an error.
template <class F> farcall_error *guarded(F work) {
#if FARCALL_EXCEPTIONS
    try {
        work();
    } catch (const std::exception &failure) {
        return farcall_error_create(failure.what());
    } catch (...) {
        return farcall_error_create("a function of the host has thrown");
    }
#else
    work();
#endif
    return nullptr;
}

// A copy of a text that farcall.h has given.
inline std::string taken(char *text) {
    std::string copy = text == nullptr ? "" : text;
    farcall_text_free(text);
    return copy;
}

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

} // inline namespace
} // namespace farcall

#endif
