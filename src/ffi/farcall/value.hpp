// farcall/value.hpp: bytes, and values of C types.
#ifndef FARCALL_VALUE_HPP
#define FARCALL_VALUE_HPP

#include <farcall/error.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace farcall {
inline namespace FARCALL_KIND {

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

// The prototype of a function type.
template <class S> struct signature;
template <class R, class... A> struct signature<R(A...)> {
    static std::string prototype(const std::string &name) { return detail::prototype<R, A...>(name); }
};

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

} // inline namespace
} // namespace farcall

#endif
