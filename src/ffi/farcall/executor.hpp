// farcall/executor.hpp: executors, libraries, snapshots and redirected functions.
#ifndef FARCALL_EXECUTOR_HPP
#define FARCALL_EXECUTOR_HPP

#include <farcall/process.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {
inline namespace FARCALL_KIND {

class executor;
class redirection;

namespace detail {
using compile = std::function<farcall_error *(farcall_process *, std::uint64_t *)>;
using establish = std::function<farcall_error *(farcall_process *)>;
using told = std::function<void(const error &)>;

inline farcall_error *on_compile(farcall_process *process, std::uint64_t *address, void *context) {
    auto found = registry<compile>::find(context);
    return found ? (*found)(process, address) : farcall_error_create("the session is over");
}

inline farcall_error *on_establish(farcall_process *process, void *context) {
    auto found = registry<establish>::find(context);
    return found ? (*found)(process) : nullptr;
}

inline void on_told(farcall_executor *, farcall_error *death, void *context) {
    const error held(death);
    if (auto found = registry<told>::find(context))
        (*found)(held);
}
} // namespace detail

// When the next process starts after a death. By default at once, and each time.
class restart_policy {
  public:
    restart_policy() { made_.restarts = true; }
    // The next process starts first after a death. The pause doubles with each death, up to most.
    restart_policy &back_off(std::chrono::nanoseconds first, std::chrono::nanoseconds most) {
        made_.pause_ms = detail::milliseconds(first);
        made_.pause_max_ms = detail::milliseconds(most);
        return *this;
    }
    // Starts at most this many within a time. When one more is needed, all calls fail from then on.
    restart_policy &at_most(std::uint32_t restarts, std::chrono::nanoseconds time) {
        made_.restarts_max = restarts;
        made_.within_ms = detail::milliseconds(time);
        return *this;
    }
    // Kills the process when a call with a timeout has timed out.
    restart_policy &kill_on_timeout() {
        made_.kill_on_timeout = true;
        return *this;
    }
    // Keeps one more process started, which becomes the next one.
    restart_policy &standby() {
        made_.standby = true;
        return *this;
    }
    farcall_restart_policy get() const { return made_; }

  private:
    farcall_restart_policy made_{};
};

// A set of objects in an executor: linked together, looked up, run and removed as a whole. What is added is there in each process, and
// in each next one. Destroying it keeps the code.
class library {
  public:
    farcall_library *get() const { return handle_.get(); }

    outcome<void> add_object(const std::string &name, std::string_view bytes) {
        return detail::give(farcall_library_add_object(get(), name.c_str(), bytes.data(), bytes.size()));
    }
    outcome<void> add_object_file(const std::string &path) {
        return detail::give(farcall_library_add_object_file(get(), path.c_str()));
    }
    outcome<void> add_archive(const std::string &name, std::string_view bytes) {
        return detail::give(farcall_library_add_archive(get(), name.c_str(), bytes.data(), bytes.size()));
    }
    outcome<void> add_archive_file(const std::string &path) {
        return detail::give(farcall_library_add_archive_file(get(), path.c_str()));
    }
    // Machine code of the program's own.
    outcome<void> add_parts(const std::string &name, const std::vector<farcall_object_part> &parts) {
        return detail::give(farcall_library_add_parts(get(), name.c_str(), parts.data(), parts.size()));
    }
    // Makes the next link open a shared library in the executor.
    outcome<void> add_library(const std::string &name) {
        return detail::give(farcall_library_add_library(get(), name.c_str()));
    }
    outcome<void> want(const std::string &name) { return detail::give(farcall_library_want(get(), name.c_str())); }
    // For the present process.
    outcome<void> define(const std::string &name, std::uint64_t address) {
        return detail::give(farcall_library_define(get(), name.c_str(), address));
    }
    // Defines a C function, such as define_handler<double(int, double)>("scale", ...), that calls one of this program. What it
    // throws becomes the error of this program's call.
    template <class S, class F> outcome<void> define_handler(const std::string &name, F handler) {
        return define_handler_as(static_cast<S *>(nullptr), name, std::move(handler));
    }
    // Makes the code of a function at its first call, in each process: compile(process &) returns its address.
    template <class F> outcome<void> create_lazy(const std::string &name, F compile) {
        detail::compile made = [compile = std::move(compile)](farcall_process *lent, std::uint64_t *address) mutable {
            process within(lent);
            farcall_error *failure = detail::guarded([&] { *address = compile(within); });
            within.release();
            return failure;
        };
        void *context = kept_->keep(std::move(made));
        return detail::give(farcall_library_create_lazy(get(), name.c_str(), detail::on_compile, context));
    }
    outcome<void> precede_libraries() { return detail::give(farcall_library_precede_libraries(get())); }
    outcome<void> keep_variables() { return detail::give(farcall_library_keep_variables(get(), nullptr)); }
    outcome<void> keep_variables(const library &earlier) {
        return detail::give(farcall_library_keep_variables(get(), earlier.get()));
    }
    outcome<void> keep_initial_data() { return detail::give(farcall_library_keep_initial_data(get())); }
    outcome<void> check_types() { return detail::give(farcall_library_check_types(get())); }

    // The function of this name and type: function<double(long, double)>("scale"). It is looked up at its first call.
    template <class S> outcome<farcall::function<S>> function(const std::string &name) const {
        farcall_function *made = nullptr;
        const std::string text = detail::signature<S>::prototype("function");
        farcall_error *failure = farcall_library_function(get(), name.c_str(), nullptr, text.c_str(), &made);
        return detail::give(failure, farcall::function<S>(made));
    }
    outcome<std::uint64_t> lookup(const std::string &name) const {
        std::uint64_t address = 0;
        farcall_error *failure = farcall_library_lookup(get(), name.c_str(), &address);
        return detail::give(failure, address);
    }
    outcome<farcall_link_report> link() {
        farcall_link_report report{};
        farcall_error *failure = farcall_library_link(get(), &report);
        return detail::give(failure, report);
    }
    outcome<void> open_libraries() { return detail::give(farcall_library_open_libraries(get())); }
    outcome<void> initialize() { return detail::give(farcall_library_initialize(get())); }
    // Runs main with these arguments, the program's name first.
    outcome<int> run_main(const std::vector<std::string> &arguments) {
        return run(arguments, [this](const char *const *words, int *returned) {
            return farcall_library_run_main(get(), words, returned);
        });
    }
    // The same with fresh data, as a process of its own would have.
    outcome<int> run_fresh(const std::vector<std::string> &arguments) {
        return run(arguments, [this](const char *const *words, int *returned) {
            return farcall_library_run_fresh(get(), words, returned);
        });
    }
    // Starts a program at code of its own; the process has ended then.
    outcome<int> run_start(const std::string &entry, const std::vector<std::string> &arguments) {
        return run(arguments, [&](const char *const *words, int *returned) {
            return farcall_library_run_start(get(), entry.c_str(), words, returned);
        });
    }
    // Removes all code, and forgets what was added.
    outcome<void> clear() { return detail::give(farcall_library_clear(get())); }

    // Defines name as a function that can be redirected. At first it leads to symbol of the library of.
    outcome<redirection> create_redirection(const std::string &name, const library &of, const std::string &symbol);
    // The same library in a copy of its executor.
    outcome<library> in_copy(const executor &copy) const;

  private:
    friend class executor;

    library(farcall_library *taken, std::shared_ptr<detail::keeper> kept) : handle_(taken), kept_(std::move(kept)) {}

    template <class F> static outcome<int> run(const std::vector<std::string> &arguments, F start) {
        std::vector<const char *> texts;
        for (const auto &argument : arguments)
            texts.push_back(argument.c_str());
        texts.push_back(nullptr);
        int returned = 0;
        farcall_error *failure = start(texts.data(), &returned);
        return detail::give(failure, returned);
    }

    template <class R, class... A, class F>
    outcome<void> define_handler_as(R (*)(A...), const std::string &name, F handler) {
        detail::named named = [handler = std::move(handler)](const farcall_value *values, farcall_value *result) mutable {
            return detail::run<R, A...>(handler, values, result, std::index_sequence_for<A...>());
        };
        void *context = kept_->keep(std::move(named));
        auto text = detail::prototype<R, A...>(name);
        return detail::give(farcall_library_define_handler(get(), nullptr, text.c_str(), detail::on_name, context));
    }

    detail::owned<farcall_library, farcall_library_dispose> handle_;
    std::shared_ptr<detail::keeper> kept_;
};

// A function of a library that is redirected from one implementation to the next, while the program runs. Destroying it keeps the
// function.
class redirection {
  public:
    explicit redirection(farcall_redirection *taken) : handle_(taken) {}

    // Redirects the function for each call that begins later.
    outcome<void> redirect(const library &of, const std::string &symbol) {
        return detail::give(farcall_redirection_redirect(handle_.get(), of.get(), symbol.c_str()));
    }
    // The same; then removes the code of the library old, when no call is in it.
    outcome<void> redirect_and_remove(const library &of, const std::string &symbol, const library &old) {
        return detail::give(
            farcall_redirection_redirect_and_remove(handle_.get(), of.get(), symbol.c_str(), old.get()));
    }
    // Removes the function; linked code should call it no more.
    outcome<void> remove() { return detail::give(farcall_redirection_remove(handle_.release())); }

  private:
    detail::owned<farcall_redirection, farcall_redirection_dispose> handle_;
};

// An executor at one moment, from which copies start. Destroying it ends no copy.
class snapshot {
  public:
    // The executor runs no more calls then; it is kept, or closed to end all copies.
    static outcome<snapshot> take(const executor &of);
    outcome<executor> spawn() const;

  private:
    snapshot(farcall_snapshot *taken, std::shared_ptr<detail::keeper> kept) : handle_(taken), kept_(std::move(kept)) {}

    detail::owned<farcall_snapshot, farcall_snapshot_dispose> handle_;
    std::shared_ptr<detail::keeper> kept_;
};

// One or more processes that run linked code, with the same contents. They end when this object is destroyed.
class executor {
  public:
    executor(executor &&) noexcept = default;
    executor &operator=(executor &&other) noexcept {
        if (this != &other) {
            close();
            handle_ = std::move(other.handle_);
            kept_ = std::move(other.kept_);
        }
        return *this;
    }
    // The session ends before what its handlers use.
    ~executor() { close(); }

    farcall_executor *get() const { return handle_.get(); }
    // Ends the executor, also while other threads call.
    void close() { handle_.reset(); }
    // Ends the present processes at once. With a restart policy the next call starts the next ones.
    outcome<void> kill() { return detail::give(farcall_executor_kill(get())); }
    // Ends all calls of linked code that run now, and keeps the processes: see farcall_executor_interrupt_all.
    outcome<void> interrupt_all(std::chrono::nanoseconds grace = std::chrono::milliseconds(10)) {
        const auto grace_ns = std::max<std::int64_t>(grace.count(), 1);
        return detail::give(farcall_executor_interrupt_all(get(), static_cast<std::uint64_t>(grace_ns)));
    }
    outcome<void> restart() { return detail::give(farcall_executor_restart(get())); }

    outcome<library> create_library(const std::string &name) {
        farcall_library *made = nullptr;
        farcall_error *failure = farcall_library_create(get(), name.c_str(), &made);
        return detail::give(failure, library(made, kept_));
    }
    // The present process with this number, for all that has addresses.
    outcome<farcall::process> process(std::size_t number = 0) const {
        farcall_process *made = nullptr;
        farcall_error *failure = farcall_executor_process(get(), number, &made);
        return detail::give(failure, farcall::process(made, kept_));
    }
    // The number of processes, the dead ones included.
    outcome<std::size_t> processes() const {
        std::size_t count = 0;
        farcall_error *failure = farcall_executor_processes(get(), &count);
        return detail::give(failure, count);
    }
    // The processes that run.
    outcome<std::vector<std::int32_t>> pids() const {
        std::size_t count = 0, running = 0;
        farcall_error *failure = farcall_executor_processes(get(), &count);
        std::vector<std::int32_t> found(count);
        if (failure == nullptr)
            failure = farcall_executor_pids(get(), found.data(), count, &running);
        found.resize(running < count ? running : count);
        return detail::give(failure, std::move(found));
    }
    // The executor with one of its processes alone, counted from 0.
    outcome<executor> on(std::size_t number) const {
        farcall_executor *made = nullptr;
        farcall_error *failure = farcall_executor_on(get(), number, &made);
        return detail::give(failure, executor(made, kept_));
    }
    // Attaches a region at its own address, in each process and in each next one.
    outcome<void> attach(const region &of) { return detail::give(farcall_executor_attach(get(), of.get())); }
    // Calls establish(process &) for each process, and for each next one. What it throws fails the start.
    template <class F> outcome<void> establish(F establish) {
        detail::establish made = [establish = std::move(establish)](farcall_process *lent) mutable {
            farcall::process within(lent);
            farcall_error *failure = detail::guarded([&] { establish(within); });
            within.release();
            return failure;
        };
        return detail::give(farcall_executor_establish(get(), detail::on_establish, kept_->keep(std::move(made))));
    }
    // Calls told with each death from now on.
    outcome<void> on_death(std::function<void(const error &)> told) {
        detail::told made = [told = std::move(told)](const error &death) { told(death); };
        return detail::give(farcall_executor_on_death(get(), detail::on_told, kept_->keep(std::move(made))));
    }

  private:
    friend class executor_builder;
    friend class snapshot;

    explicit executor(farcall_executor *taken, std::shared_ptr<detail::keeper> kept = std::make_shared<detail::keeper>())
        : handle_(taken), kept_(std::move(kept)) {}

    detail::owned<farcall_executor, farcall_executor_close> handle_;
    std::shared_ptr<detail::keeper> kept_;
};

// How an executor starts, survives and is confined.
class executor_builder {
  public:
    executor_builder() { made_.size = sizeof made_; }

    executor_builder &program(std::string path) {
        program_ = std::move(path);
        return *this;
    }
    // This program is the executor's as well; main must first call farcall_run_if_spawned.
    executor_builder &this_program() {
        made_.this_program = true;
        return *this;
    }
    executor_builder &env(const std::string &name, const std::string &value) {
        environment_.push_back(name + "=" + value);
        return *this;
    }
    executor_builder &restart(const restart_policy &policy) {
        made_.restart = policy.get();
        return *this;
    }
    executor_builder &processes(std::size_t count) {
        made_.processes = count;
        return *this;
    }
    executor_builder &confine(const farcall_confinement &confinement) {
        made_.confinement = confinement;
        return *this;
    }
    executor_builder &publish(std::string name) {
        publish_ = std::move(name);
        return *this;
    }
    executor_builder &debuggable() {
        made_.debuggable = true;
        return *this;
    }
    // Runs linked code in this process, which it can crash: see in_process of farcall_executor_options. start names what needs a
    // process of its own. A request to stop a submitted call has no effect.
    executor_builder &in_process() {
        made_.in_process = true;
        return *this;
    }
    // Forks the later executors of this kind: see shared_layout of farcall_executor_options.
    executor_builder &shared_layout() {
        made_.shared_layout = true;
        return *this;
    }
    executor_builder &inherit_descriptors() {
        made_.inherit_descriptors = true;
        return *this;
    }
    executor_builder &spin(std::chrono::nanoseconds time) {
        made_.spin_ns = static_cast<std::uint64_t>(time.count());
        return *this;
    }
    executor_builder &start_timeout(std::chrono::nanoseconds time) {
        made_.start_timeout_ms = detail::milliseconds(time);
        return *this;
    }
    executor_builder &link_timeout(std::chrono::nanoseconds time) {
        made_.link_timeout_ms = detail::milliseconds(time);
        return *this;
    }
    executor_builder &slab_bytes(const farcall_sizes &bytes) {
        made_.slab_bytes = bytes;
        return *this;
    }
    executor_builder &low_slab_bytes(const farcall_sizes &bytes) {
        made_.low_slab_bytes = bytes;
        return *this;
    }
    // Runs completions of calls, in place of threads of the library.
    executor_builder &dispatch(farcall_dispatch run, void *context) {
        made_.dispatch = run;
        made_.dispatch_context = context;
        return *this;
    }

    // Starts the executor, and waits until it is ready.
    outcome<executor> start() const {
        farcall_executor_options options = made_;
        std::vector<const char *> variables;
        for (const auto &variable : environment_)
            variables.push_back(variable.c_str());
        variables.push_back(nullptr);
        options.environment = variables.data();
        options.program = program_ ? program_->c_str() : nullptr;
        options.publish = publish_ ? publish_->c_str() : nullptr;
        farcall_executor *made = nullptr;
        farcall_error *failure = farcall_check_version(FARCALL_VERSION);
        if (failure == nullptr)
            failure = farcall_executor_start(&options, &made);
        return detail::give(failure, executor(made));
    }

  private:
    farcall_executor_options made_{};
    std::optional<std::string> program_;
    std::optional<std::string> publish_;
    std::vector<std::string> environment_;
};

inline outcome<redirection> library::create_redirection(const std::string &name, const library &of,
                                                        const std::string &symbol) {
    farcall_redirection *made = nullptr;
    farcall_error *failure = farcall_redirection_create(get(), name.c_str(), of.get(), symbol.c_str(), &made);
    return detail::give(failure, redirection(made));
}

inline outcome<library> library::in_copy(const executor &copy) const {
    farcall_library *made = nullptr;
    farcall_error *failure = farcall_library_in_copy(get(), copy.get(), &made);
    return detail::give(failure, library(made, kept_));
}

inline outcome<snapshot> snapshot::take(const executor &of) {
    farcall_snapshot *made = nullptr;
    farcall_error *failure = farcall_snapshot_take(of.get(), &made);
    return detail::give(failure, snapshot(made, of.kept_));
}

inline outcome<executor> snapshot::spawn() const {
    farcall_executor *made = nullptr;
    farcall_error *failure = farcall_snapshot_spawn(handle_.get(), &made);
    return detail::give(failure, executor(made, kept_));
}

} // inline namespace
} // namespace farcall

#endif
