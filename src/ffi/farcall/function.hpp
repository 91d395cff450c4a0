// farcall/function.hpp: functions of executors, and pipelines.
#ifndef FARCALL_FUNCTION_HPP
#define FARCALL_FUNCTION_HPP

#include <farcall/value.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<stop_token>)
#include <stop_token>
#endif

namespace farcall {
inline namespace FARCALL_KIND {

// How long a call may take, and what watches it.
class call_options {
  public:
    // Looks whether the call goes on: nothing, or the reason why it ends.
    using look = std::function<std::optional<std::string>()>;

    // The call is late after this time: it fails with FARCALL_INTERRUPTED, unless on_deadline says otherwise.
    call_options &timeout(std::chrono::nanoseconds time) {
        // A time of 0 is no limit for farcall.h.
        timeout_ms_ = std::max<std::uint64_t>(detail::milliseconds(time), 1);
        return *this;
    }
    // Looks on the calling thread, each time that this time has passed.
    call_options &watch(std::chrono::nanoseconds every, look goes_on) {
        every_ms_ = std::max<std::uint64_t>(detail::milliseconds(every), 1);
        look_ = std::move(goes_on);
        return *this;
    }

#ifdef __cpp_lib_jthread
    // The call is interrupted when a stop is requested: a watch that looks each 10 ms.
    call_options &stop(std::stop_token token) {
        auto goes_on = [token]() -> std::optional<std::string> {
            if (token.stop_requested())
                return "the call was stopped";
            return std::nullopt;
        };
        return watch(std::chrono::milliseconds(10), goes_on);
    }
#endif

    // What happens to a call that is late, or that the watch ends.
    call_options &on_deadline(farcall_on_deadline choice) {
        on_deadline_ = choice;
        return *this;
    }
    // How long an interruption may take: 10 ms unless told.
    call_options &grace(std::chrono::nanoseconds time) {
        // A time of 0 is the default for farcall.h.
        grace_ns_ = std::max<std::int64_t>(time.count(), 1);
        return *this;
    }

    // Valid while this lives, unchanged.
    farcall_call_options get() const {
        farcall_call_options made{};
        made.size = sizeof made;
        made.timeout_ms = timeout_ms_;
        made.watch_every_ms = every_ms_;
        made.on_deadline = on_deadline_;
        made.grace_ns = grace_ns_;
        if (look_) {
            made.watch = watched;
            made.watch_context = const_cast<look *>(&look_);
        }
        return made;
    }

  private:
    static farcall_error *watched(void *context) {
        std::optional<std::string> reason;
        auto work = [&] { reason = (*static_cast<const look *>(context))(); };
        if (farcall_error *failure = detail::guarded(work))
            return failure;
        return reason ? farcall_error_create(reason->c_str()) : nullptr;
    }

    std::uint64_t timeout_ms_ = 0;
    std::uint64_t every_ms_ = 0;
    farcall_on_deadline on_deadline_ = FARCALL_INTERRUPT;
    std::uint64_t grace_ns_ = 0;
    look look_;
};

#ifdef __cpp_lib_jthread
namespace detail {

// A completion, and what cancels its call when a stop is requested.
template <class Completion, class Handle, farcall_error *(*cancel)(Handle *, void *)>
struct stoppable {
    struct stops {
        stoppable *call;
        void operator()() const { call->end(); }
    };

    Completion on_complete;
    Handle *handle;
    // Until the call completes.
    std::shared_ptr<stoppable> self;
    std::optional<std::stop_callback<stops>> callback;

    void end() { farcall_error_consume(cancel(handle, this)); }

    // Submits the call. The context of the submission is this.
    template <class Submit>
    static outcome<void> submit(std::stop_token token, Completion on_complete, Handle *handle, Submit submit) {
        auto call = std::make_shared<stoppable>();
        call->on_complete = std::move(on_complete);
        call->handle = handle;
        call->self = call;
        call->callback.emplace(token, stops{call.get()});
        farcall_error *failure = submit(call.get());
        if (failure != nullptr)
            taken(call.get());
        else if (token.stop_requested()) // perhaps before the submission
            call->end();
        return give(failure);
    }
    static std::shared_ptr<stoppable> taken(void *context) {
        auto call = std::move(static_cast<stoppable *>(context)->self);
        call->callback.reset();
        return call;
    }
};

} // namespace detail
#endif

// Sends calls without waiting for their results.
class pipeline {
  public:
    // Receives a result, or the reason for having none.
    using completion = std::function<void(result<buffer>)>;

    explicit pipeline(farcall_pipeline *taken) : handle_(taken) {}
    farcall_pipeline *get() const { return handle_.get(); }

    // on_complete runs once: see farcall_on_complete.
    outcome<void> submit(std::uint64_t function, std::string_view args, completion on_complete) {
        auto *context = new completion(std::move(on_complete));
        farcall_error *failure =
            farcall_pipeline_submit(handle_.get(), function, args.data(), args.size(), completed, context);
        if (failure != nullptr)
            delete context;
        return detail::give(failure);
    }
#ifdef __cpp_lib_jthread
    // The same; a request to stop cancels the call: it fails with FARCALL_INTERRUPTED.
    outcome<void> submit(std::stop_token token, std::uint64_t function, std::string_view args, completion on_complete) {
        auto send = [&](stoppable *call) {
            return farcall_pipeline_submit(handle_.get(), function, args.data(), args.size(), stopped, call);
        };
        return stoppable::submit(std::move(token), std::move(on_complete), handle_.get(), send);
    }
#endif
    // How many calls have completed, on this thread.
    outcome<std::size_t> poll() {
        std::size_t count = 0;
        farcall_error *failure = farcall_pipeline_poll(handle_.get(), &count);
        return detail::give(failure, count);
    }
    void close() { handle_.reset(); }

  private:
    static void deliver(const completion &on_complete, farcall_error *failure, farcall_buffer bytes) {
        buffer held(bytes);
        if (failure != nullptr)
            on_complete(error(failure));
        else
            on_complete(std::move(held));
    }
    static void completed(farcall_error *failure, farcall_buffer bytes, void *context) {
        std::unique_ptr<completion> on_complete(static_cast<completion *>(context));
        deliver(*on_complete, failure, bytes);
    }
#ifdef __cpp_lib_jthread
    using stoppable = detail::stoppable<completion, farcall_pipeline, farcall_pipeline_cancel>;
    static void stopped(farcall_error *failure, farcall_buffer bytes, void *context) {
        deliver(stoppable::taken(context)->on_complete, failure, bytes);
    }
#endif

    detail::owned<farcall_pipeline, farcall_pipeline_close> handle_;
};

// A C function of an executor, such as function<double(long, double)>. Calling it waits for its result. A function of a library is found
// by its name in the present process; a bound function belongs to one process, and is dead with it.
template <class S> class function;

template <class R, class... A> class function<R(A...)> {
  public:
    // Receives a result, or the reason for having none.
    using completion = std::function<void(result<R>)>;

    explicit function(farcall_function *taken) : handle_(taken) {}
    farcall_function *get() const { return handle_.get(); }

    outcome<R> operator()(A... arguments) const {
        const farcall_value values[sizeof...(A) + 1] = {detail::type<A>::value_of(arguments)..., {}};
        farcall_value returned{};
        return taken(farcall_function_call(get(), values, sizeof...(A), &returned), returned);
    }
    outcome<R> call_with(const call_options &options, A... arguments) const {
        const farcall_value values[sizeof...(A) + 1] = {detail::type<A>::value_of(arguments)..., {}};
        farcall_value returned{};
        const farcall_call_options made = options.get();
        return taken(farcall_function_call_with(get(), &made, values, sizeof...(A), &returned), returned);
    }
    // Calls with the arguments of each tuple; many calls travel in one message. The results come in this order.
    template <class T = R> outcome<std::vector<T>> batch(const std::vector<std::tuple<A...>> &calls) const {
        static_assert(std::is_same_v<T, R> && !std::is_void_v<R>);
        std::vector<farcall_value> values, returned(calls.size());
        for (const auto &call : calls)
            std::apply([&](auto... each) { (values.push_back(detail::type<A>::value_of(each)), ...); }, call);
        farcall_error *failure =
            farcall_function_batch(get(), values.data(), sizeof...(A), calls.size(), returned.data());
        std::vector<R> results;
        for (const auto &value : returned)
            if (failure == nullptr)
                results.push_back(detail::type<R>::of(value));
        return detail::give(failure, std::move(results));
    }
    // Calls for each row of a table in a region, by one message. Each further row adds the steps to the arguments of the first one.
    outcome<void> rows(const std::vector<std::int64_t> &steps, std::uint64_t count, A... first) const {
        const farcall_value values[sizeof...(A) + 1] = {detail::type<A>::value_of(first)..., {}};
        if (steps.size() != sizeof...(A))
            return detail::give(farcall_error_create("a step for each parameter"));
        return detail::give(farcall_function_rows(get(), nullptr, values, steps.data(), sizeof...(A), count));
    }

    // The function bound to the present process: a call costs 20 to 30 ns less.
    outcome<function> bind() const {
        farcall_function *made = nullptr;
        farcall_error *failure = farcall_function_bind(get(), &made);
        return detail::give(failure, function(made));
    }
    // The function in one process of its executor, counted from 0.
    outcome<function> on(std::size_t process) const {
        farcall_function *made = nullptr;
        farcall_error *failure = farcall_function_on(get(), process, &made);
        return detail::give(failure, function(made));
    }
    // The function bound to the process of a pipeline, which submit uses.
    outcome<function> over(const pipeline &to) const {
        farcall_function *made = nullptr;
        farcall_error *failure = farcall_function_over(get(), to.get(), &made);
        return detail::give(failure, function(made));
    }
    // Does not wait: on_complete runs once, as for a pipeline.
    outcome<void> submit(completion on_complete, A... arguments) const {
        const farcall_value values[sizeof...(A) + 1] = {detail::type<A>::value_of(arguments)..., {}};
        auto *context = new completion(std::move(on_complete));
        farcall_error *failure = farcall_function_submit(get(), values, sizeof...(A), completed, context);
        if (failure != nullptr)
            delete context;
        return detail::give(failure);
    }
#ifdef __cpp_lib_jthread
    // The same; a request to stop cancels the call: it fails with FARCALL_INTERRUPTED.
    outcome<void> submit(std::stop_token token, completion on_complete, A... arguments) const {
        const farcall_value values[sizeof...(A) + 1] = {detail::type<A>::value_of(arguments)..., {}};
        auto send = [&](stoppable *call) {
            return farcall_function_submit(get(), values, sizeof...(A), stopped, call);
        };
        return stoppable::submit(std::move(token), std::move(on_complete), get(), send);
    }
#endif
    outcome<std::uint64_t> address() const {
        std::uint64_t found = 0;
        farcall_error *failure = farcall_function_address(get(), &found);
        return detail::give(failure, found);
    }
    // A plain pointer to a function in this process (executor_builder::in_process): see farcall_function_pointer. It outlives this
    // object, and is valid while the executor is open and the code is there.
    outcome<R (*)(A...)> pointer() const {
        farcall_any_function found = nullptr;
        farcall_error *failure = farcall_function_pointer(get(), &found);
        return detail::give(failure, reinterpret_cast<R (*)(A...)>(found));
    }
    outcome<std::string> prototype() const {
        char *text = nullptr;
        farcall_error *failure = farcall_function_prototype(get(), &text);
        return detail::give(failure, detail::taken(text));
    }

  private:
    static outcome<R> taken(farcall_error *failure, const farcall_value &returned) {
        if constexpr (std::is_void_v<R>)
            return detail::give(failure);
        else
            return detail::give(failure, detail::type<R>::of(returned));
    }
    static void deliver(const completion &on_complete, farcall_error *failure, farcall_value returned) {
        if (failure != nullptr)
            on_complete(error(failure));
        else if constexpr (std::is_void_v<R>)
            on_complete(result<void>());
        else
            on_complete(detail::type<R>::of(returned));
    }
    static void completed(farcall_error *failure, farcall_value returned, void *context) {
        std::unique_ptr<completion> on_complete(static_cast<completion *>(context));
        deliver(*on_complete, failure, returned);
    }
#ifdef __cpp_lib_jthread
    using stoppable = detail::stoppable<completion, farcall_function, farcall_function_cancel>;
    static void stopped(farcall_error *failure, farcall_value returned, void *context) {
        deliver(stoppable::taken(context)->on_complete, failure, returned);
    }
#endif

    detail::owned<farcall_function, farcall_function_dispose> handle_;
};

} // inline namespace
} // namespace farcall

#endif
