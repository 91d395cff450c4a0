// As places.c, by farcall.hpp. With exceptions, or without them (-fno-exceptions).
//
//     places PLACE FIRST SECOND
#include "checked.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unistd.h>

using namespace std::chrono_literals;

static std::string place_object, first_object, second_object;

static farcall::library placed(farcall::executor &executor) {
    auto library = MUST(executor.create_library("place"));
    MUST_DO(library.add_object_file(place_object));
    MUST_DO(library.define_handler<std::int64_t(std::int64_t)>("thread_of_handler", [](std::int64_t n) { return n + 1000; }));
#if FARCALL_EXCEPTIONS
    MUST_DO(library.define_handler<std::int64_t(std::int64_t)>("refuses", [](std::int64_t n) -> std::int64_t {
        throw std::runtime_error("no " + std::to_string(n));
    }));
#else
    MUST_DO(library.define_handler<std::int64_t(std::int64_t)>("refuses", [](std::int64_t n) { return -n; }));
#endif
    MUST_DO(library.initialize());
    return library;
}

// The program, and what it has found out.
static std::string program(const farcall::executor_builder &builder, bool is_here) {
    auto executor = MUST(builder.start());
    CHECK((MUST(MUST(executor.process()).pid()) == getpid()) == is_here);
    auto library = placed(executor);
    std::string said;
    auto say = [&](std::int64_t number) { said += std::to_string(number) + "\n"; };
    auto next = MUST(library.function<std::int64_t()>("next"));
    auto ask = MUST(MUST(library.function<std::int64_t(std::int64_t)>("ask")).bind());
    auto fail = MUST(library.function<std::int64_t(std::int64_t)>("fail"));
    say(MUST(next()));
    say(MUST(next()));
    say(MUST(MUST(library.function<std::int64_t()>("own_next"))()));
    say(MUST(ask(41)));
#if FARCALL_EXCEPTIONS
    const std::string failure = FAILED(fail(3)).what();
    said += failure.substr(failure.find("no 3")) + "\n";
#endif
    for (auto number : MUST(ask.batch({{1}, {2}, {3}})))
        say(number);
    say(FAILED(MUST(library.function<int()>("nowhere"))()).code());
    auto stable = MUST(executor.create_library("stable"));
    auto old = MUST(executor.create_library("old")), replaced = MUST(executor.create_library("new"));
    MUST_DO(old.add_object_file(first_object));
    MUST_DO(replaced.add_object_file(second_object));
    auto redirection = MUST(stable.create_redirection("step", old, "version"));
    auto step = MUST(stable.function<int()>("step"));
    say(MUST(step()));
    MUST_DO(redirection.redirect_and_remove(replaced, "version", old));
    say(MUST(step()));
    say(FAILED(old.lookup("version")).code());
    MUST_DO(library.clear());
    say(FAILED(MUST(library.function<std::int64_t()>("next"))()).code());
    executor.close();
    say(FAILED(step()).code());
    return said;
}

static void refused(const farcall::error &error, const std::string &what) {
    const std::string said = error.what();
    CHECK(error.code() == FARCALL_INVALID && said.find(what) != std::string::npos);
    CHECK(said.find("in_process") != std::string::npos);
}

static void refuses() {
    auto builder = [] { return farcall::executor_builder().in_process(); };
    farcall_confinement isolated{};
    isolated.level = 1;
    refused(FAILED(builder().confine(isolated).start()), "ExecutorBuilder::confine");
    refused(FAILED(builder().restart({}).start()), "ExecutorBuilder::restart");
    refused(FAILED(builder().processes(2).start()), "ExecutorBuilder::processes");
    refused(FAILED(builder().env("A", "1").start()), "ExecutorBuilder::env");
    refused(FAILED(builder().link_timeout(1s).start()), "ExecutorBuilder::link_timeout");
    auto executor = MUST(builder().start());
    auto library = placed(executor);
    auto next = MUST(library.function<std::int64_t()>("next"));
    refused(FAILED(next.call_with(farcall::call_options().timeout(1s))), "a call with a timeout or a watch");
    refused(FAILED(executor.interrupt_all()), "ending calls");
    refused(FAILED(farcall::snapshot::take(executor)), "a snapshot");
    CHECK(MUST(next()) == 6);
}

static void pointers() {
    auto elsewhere = MUST(farcall::executor_builder().this_program().start());
    auto there = placed(elsewhere);
    refused(FAILED(MUST(there.function<std::int64_t()>("next")).pointer()), "the function is in another process");

    auto executor = MUST(farcall::executor_builder().in_process().start());
    auto library = placed(executor);
    auto first = MUST(executor.create_library("first"));
    MUST_DO(first.add_object_file(first_object));
    std::int64_t (*ask)(std::int64_t) = MUST(MUST(library.function<std::int64_t(std::int64_t)>("ask")).pointer());
    long (*add)(long, long) = MUST(MUST(first.function<long(long, long)>("add")).pointer());
    // As the function type of the header has it.
    int (*at)(farcall::pointer) = MUST(MUST(first.function<int(farcall::pointer)>("at")).pointer());
    const int number = 77;
    CHECK(ask(1) == 1001 && add(40, 2) == 42);
    CHECK(at(farcall::pointer{reinterpret_cast<std::uintptr_t>(&number)}) == 77);
}

int main(int, char **arguments) {
    farcall_run_if_spawned();
    place_object = arguments[1], first_object = arguments[2], second_object = arguments[3];
    const auto builder = farcall::executor_builder().this_program();
    const auto there = program(builder, false);
    const auto here = program(farcall::executor_builder(builder).in_process(), true);
    if (there != here) {
        std::fprintf(stderr, "in a process of its own:\n%s\nin this one:\n%s\n", there.c_str(), here.c_str());
        return 1;
    }
    CHECK(here.rfind("6\n7\n8\n1041\n", 0) == 0);
    refuses();
    pointers();
    std::printf("done\n");
}
