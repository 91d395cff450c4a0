// As model.c, by farcall.hpp. With exceptions, or without them (-fno-exceptions).
//
//     model FIRST SECOND FIXED CALLER ARCHIVE
#include "checked.hpp"

#if defined __GNUC__ && !defined __clang__
// Of its own <stop_token>.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static std::string first_object, second_object, fixed_object, caller_object, archive;

static farcall::library linked(farcall::executor &executor, const std::string &name, const std::string &object) {
    auto library = MUST(executor.create_library(name));
    MUST_DO(library.add_object_file(object));
    return library;
}

template <class S> static auto called(const farcall::library &library, const std::string &name) {
    auto function = MUST(library.function<S>(name));
    return MUST(function());
}

static farcall::error crash(const farcall::library &library) {
    auto at = MUST(library.function<int(farcall::pointer)>("at"));
    return FAILED(at(farcall::pointer{8}));
}

static void survives() {
    std::atomic<int> deaths{0}, established{0};
    auto executor = MUST(farcall::executor_builder()
                             .this_program()
                             .restart(farcall::restart_policy().back_off(1ms, 50ms).at_most(100, 1h).standby())
                             .start());
    MUST_DO(executor.on_death([&](const farcall::error &death) { deaths += death.code() == FARCALL_DIED; }));
    MUST_DO(executor.establish([&](farcall::process &process) { established += MUST(process.pid()) > 0; }));
    auto library = linked(executor, "main", first_object);
    MUST_DO(library.define_handler<int(int)>("twice", [](int number) { return 2 * number; }));
    auto region = MUST(farcall::region::create(4096));
    MUST_DO(executor.attach(region));
    *reinterpret_cast<int *>(region.data()) = 42;
    auto next = MUST(library.function<int()>("next"));
    auto at = MUST(library.function<int(farcall::pointer)>("at"));
    CHECK(MUST(next()) == 1 && MUST(next()) == 2);
    for (int round = 1; round <= 3; round++) {
        auto died = crash(library);
        CHECK(died.code() == FARCALL_DIED && died.death()->number("signal") == 11u);
        CHECK(died.death()->number("fault_address") == 8u && !died.death()->is("stack_overflow"));
        CHECK(died.death()->list("backtrace")[0].rfind("at+", 0) == 0 && died.death()->facts().count("location") == 1);
        CHECK(MUST(next()) == 1 && deaths == round && established == round + 1);
        CHECK(MUST(at(farcall::pointer{reinterpret_cast<std::uintptr_t>(region.data())})) == 42);
        CHECK(MUST(MUST(library.function<int(int)>("twice"))(6)) == 12);
    }
    MUST_DO(executor.restart());
    CHECK(MUST(next()) == 1);
    MUST_DO(executor.kill());
    executor.close();
    CHECK(FAILED(next()).code() == FARCALL_INVALID);

    auto once = MUST(farcall::executor_builder().this_program().start());
    auto dying = linked(once, "main", first_object);
    CHECK(crash(dying).code() == FARCALL_DIED && FAILED(once.restart()).code() == FARCALL_INVALID);
#if FARCALL_EXCEPTIONS
    auto thrown = FAILED(once.establish([](farcall::process &) { throw std::runtime_error("not this one"); }));
    CHECK(std::string(thrown.what()).find("not this one") != std::string::npos);
#endif
}

static void watches() {
    auto policy = farcall::restart_policy().kill_on_timeout();
    auto executor = MUST(farcall::executor_builder().this_program().restart(policy).start());
    auto library = linked(executor, "main", first_object);
    auto hang = MUST(library.function<int(int)>("hang"));
    auto late = farcall::call_options().timeout(20ms).grace(10s);
    auto stay = MUST(library.function<void()>("stay"));
    const int pid = called<int()>(library, "process_id");
    auto interrupted = FAILED(stay.call_with(late));
    CHECK(interrupted.code() == FARCALL_INTERRUPTED && !interrupted.death() && !interrupted.is_disconnected());
    CHECK(interrupted.interruption()->text("location")->rfind("stay+", 0) == 0);
    CHECK(interrupted.interruption()->number("cleanups_skipped").has_value());
    CHECK(interrupted.interruption()->number("threads_started") == 0);
    std::atomic<bool> ends{false};
    std::thread caller([&] {
        CHECK(FAILED(stay()).code() == FARCALL_INTERRUPTED);
        ends = true;
    });
    while (!ends) {
        MUST_DO(executor.interrupt_all(10s));
        std::this_thread::sleep_for(1ms);
    }
    caller.join();
    CHECK(called<int()>(library, "next") == 3 && called<int()>(library, "process_id") == pid);
    CHECK(FAILED(hang.call_with(late.on_deadline(FARCALL_ABANDON), 1)).code() == FARCALL_TIMEOUT);
    CHECK(called<int()>(library, "next") == 1); // the policy has killed the process
    int looks = 0;
    auto look = [&]() -> std::optional<std::string> {
        return ++looks < 4 ? std::nullopt : std::optional<std::string>("enough");
    };
    auto ended = FAILED(hang.call_with(farcall::call_options().watch(2ms, look).grace(10s), 1));
    CHECK(std::string(ended.what()).rfind("enough: interrupted in hang+0x", 0) == 0 && looks == 4);
    CHECK(ended.code() == FARCALL_INTERRUPTED && ended.interruption()->text("location"));
    CHECK(MUST(hang.call_with(farcall::call_options().timeout(1min), 0)) == 7);
}

static void pools() {
    auto many = FAILED(farcall::executor_builder().this_program().processes(257).start());
    CHECK(many.code() == FARCALL_INVALID);
    CHECK(std::string(many.what()).find("257 processes: it has 1 to 256") != std::string::npos);
    auto executor = MUST(farcall::executor_builder()
                             .this_program()
                             .processes(3)
                             .restart({})
                             .debuggable()
                             .link_timeout(1min)
                             .publish("a model in C++")
                             .start());
    auto library = linked(executor, "main", first_object);
    auto pids = MUST(executor.pids());
    CHECK(MUST(executor.processes()) == 3 && std::set<int>(pids.begin(), pids.end()).size() == 3);
    auto process_id = MUST(library.function<int()>("process_id"));
    for (std::size_t at = 0; at < 3; at++) {
        CHECK(MUST(MUST(process_id.on(at))()) == pids[at]);
        CHECK(MUST(MUST(executor.process(at)).pid()) == pids[at]);
    }
    std::vector<std::thread> threads;
    for (int at = 0; at < 4; at++)
        threads.emplace_back([&] {
            for (int turn = 0; turn < 100; turn++) {
                int pid = MUST(process_id());
                CHECK(pid == pids[0] || pid == pids[1] || pid == pids[2]);
            }
        });
    for (auto &thread : threads)
        thread.join();
    auto second = MUST(executor.on(1));
    auto more = linked(second, "more", second_object);
    CHECK(called<int()>(more, "process_id") == pids[1] && called<int()>(more, "version") == 2);
}

static void snapshots() {
    auto executor = MUST(farcall::executor_builder().this_program().start());
    auto library = linked(executor, "main", first_object);
    CHECK(called<int()>(library, "next") == 1);
    auto snapshot = MUST(farcall::snapshot::take(executor));
    std::vector<farcall::executor> copies;
    for (int at = 0; at < 3; at++) {
        copies.push_back(MUST(snapshot.spawn()));
        CHECK(called<int()>(MUST(library.in_copy(copies.back())), "next") == 2);
    }
    CHECK(crash(MUST(library.in_copy(copies[0]))).code() == FARCALL_DIED);
    CHECK(called<int()>(MUST(library.in_copy(copies[1])), "next") == 3);
    CHECK(called<int()>(linked(copies[2], "more", second_object), "version") == 2);
}

static void swaps() {
    auto executor = MUST(farcall::executor_builder().this_program().restart({}).start());
    auto main_library = MUST(executor.create_library("main"));
    auto old = linked(executor, "version 1", first_object);
    auto redirection = MUST(main_library.create_redirection("step", old, "version"));
    MUST_DO(main_library.add_object_file(caller_object));
    auto step = MUST(main_library.function<int()>("step")), through = MUST(main_library.function<int()>("through"));
    std::atomic<bool> ends{false};
    std::atomic<long> calls{0};
    std::thread caller([&] {
        for (; !ends; calls++) {
            int version = MUST(step());
            CHECK(version == 1 || version == 2);
        }
    });
    for (int round = 0; round < 10; round++) {
        int version = round % 2 == 0 ? 2 : 1;
        auto next = linked(executor, "another version", version == 2 ? second_object : first_object);
        MUST_DO(redirection.redirect_and_remove(next, "version", old));
        CHECK(MUST(through()) == version && FAILED(old.lookup("version")).code() == FARCALL_SYMBOLS);
        old = std::move(next);
        long before = calls;
        for (int turn = 0; calls == before; turn++) {
            CHECK(turn < 200000);
            std::this_thread::sleep_for(100us);
        }
    }
    ends = true;
    caller.join();
    auto second = linked(executor, "version 2", second_object);
    MUST_DO(redirection.redirect(second, "version"));
    CHECK(crash(second).code() == FARCALL_DIED && MUST(step()) == 2);
    MUST_DO(redirection.remove());
    MUST_DO(redirection.remove()); // as of NULL
}

static void libraries() {
    auto executor = MUST(farcall::executor_builder().this_program().start());
    auto fixed = linked(executor, "fixed", fixed_object);
    CHECK(MUST(MUST(fixed.function<int(unsigned)>("square"))(7)) == 49 && MUST(fixed.lookup("square")) < 1ull << 31);
    auto library = linked(executor, "main", first_object);
    CHECK(FAILED(library.add_object_file(second_object)).code() == FARCALL_LINK);
    CHECK(MUST(library.link()).objects == 1 && called<int()>(library, "version") == 1);
    MUST_DO(library.want("late"));
    MUST_DO(library.add_archive_file(archive));
    MUST_DO(library.add_library("libz.so.1"));
    MUST_DO(library.open_libraries());
    CHECK(MUST(library.lookup("late")) != 0 && MUST(library.lookup("zlibVersion")) != 0);
    MUST_DO(library.create_lazy("doubled", [](farcall::process &process) {
        const unsigned char code[] = {0x8d, 0x04, 0x3f, 0xc3}; // lea eax, [rdi + rdi]; ret
        auto memory = MUST(process.reserve({sizeof code, 0, 0}));
        auto part = MUST(memory.part(FARCALL_CODE));
        std::memcpy(part.working, code, sizeof code);
        (void)MUST(memory.finalize());
        return part.address;
    }));
    CHECK(MUST(MUST(library.function<int(int)>("doubled"))(3)) == 6);
    MUST_DO(library.check_types());
    const unsigned char next[] = {0x48, 0x8d, 0x47, 0x01, 0xc3}; // lea rax, [rdi + 1]; ret
    farcall_object_part part{};
    part.name = "successor", part.data = next, part.size = sizeof next;
    MUST_DO(library.add_parts("made by hand", {part}));
    CHECK(MUST(MUST(library.function<long(long)>("successor"))(41)) == 42);

    auto program = MUST(executor.create_library("program"));
    MUST_DO(program.precede_libraries());
    MUST_DO(program.keep_initial_data());
    MUST_DO(program.add_object_file(first_object));
    MUST_DO(program.initialize());
    CHECK(MUST(program.run_main({"program", "word"})) == 21 && MUST(program.run_main({"program"})) == 12);
    CHECK(MUST(program.run_fresh({"program"})) == 11 && MUST(program.run_fresh({"program"})) == 11);
    auto later = MUST(executor.create_library("later"));
    MUST_DO(later.keep_variables());
    MUST_DO(later.add_object_file(second_object));
    CHECK(called<int()>(later, "next") == 1 && called<int()>(later, "next") == 2);
    auto latest = MUST(executor.create_library("latest"));
    MUST_DO(latest.keep_variables(later));
    MUST_DO(latest.add_object_file(first_object));
    CHECK(called<int()>(latest, "next") == 3 && called<int()>(latest, "version") == 1);
    MUST_DO(latest.clear());
    CHECK(MUST(program.run_start("begin", {"program"})) == 5);
}

static void functions() {
    auto executor = MUST(farcall::executor_builder().this_program().start());
    auto library = linked(executor, "main", first_object);
    auto add = MUST(library.function<long(long, long)>("add"));
    auto bound = MUST(add.bind());
    CHECK(MUST(bound(3, 4)) == 7 && MUST(add.address()) == MUST(library.lookup("add")));
    CHECK(MUST(add.prototype()).find("int64_t") != std::string::npos);
    std::vector<std::tuple<long, long>> calls;
    for (long at = 0; at < 100; at++)
        calls.emplace_back(at, 1);
    auto sums = MUST(add.batch(calls));
    CHECK(sums.size() == 100 && sums[99] == 100);
    auto process = MUST(executor.process());
    CHECK(MUST(MUST(process.function<long(long, long)>(MUST(add.address())))(1, 2)) == 3);
    auto pipeline = MUST(process.open_pipeline(true));
    auto over = MUST(add.over(pipeline));
    long sum = 0;
    for (int at = 0; at < 100; at++)
        MUST_DO(over.submit([&](farcall::result<long> outcome) { sum += outcome ? *outcome : 0; }, 3, 4));
    std::size_t all = 0;
    for (int turn = 0; all < 100; turn++) {
        CHECK(turn < 200000);
        all += MUST(pipeline.poll());
        std::this_thread::sleep_for(100us);
    }
#ifdef __cpp_lib_jthread
    auto stay = MUST(library.function<void()>("stay"));
    auto stays = MUST(stay.over(pipeline));
    std::stop_source source, other;
    int interrupted = 0, ended = 0;
    auto count = [&](auto outcome) {
        interrupted += !outcome && outcome.failure().code() == FARCALL_INTERRUPTED;
        ended++;
    };
    source.request_stop();
    MUST_DO(stays.submit(source.get_token(), count)); // stopped before
    source = std::stop_source();
    MUST_DO(stays.submit(source.get_token(), count));
    MUST_DO(over.submit(source.get_token(), count, 3, 4));
    MUST_DO(over.submit(other.get_token(), count, 3, 4));
    std::thread stops([&] { source.request_stop(); });
    int turn = 0;
    while (ended < 4) {
        CHECK(turn++ < 200000);
        MUST(pipeline.poll());
        std::this_thread::sleep_for(100us);
    }
    stops.join();
    CHECK(interrupted >= 2 && other.request_stop());
    source = std::stop_source();
    std::thread later([&] { source.request_stop(); });
    auto stoppable = farcall::call_options().stop(source.get_token()).grace(10s);
    auto stopped = FAILED(stay.call_with(stoppable));
    CHECK(stopped.code() == FARCALL_INTERRUPTED && std::string(stopped.what()).rfind("the call was stopped: ", 0) == 0);
    later.join();
    CHECK(MUST(process.pid()) == MUST(MUST(executor.process()).pid()));
#endif
    CHECK(sum == 700 && FAILED(add.submit([](farcall::result<long>) {}, 1, 2)).code() == FARCALL_INVALID);
    auto region = MUST(farcall::region::create(4096));
    MUST_DO(executor.attach(region));
    auto increment = MUST(library.function<void(farcall::pointer, long)>("increment"));
    MUST_DO(increment.rows({8, 1}, 512, farcall::pointer{reinterpret_cast<std::uintptr_t>(region.data())}, 1));
    CHECK(reinterpret_cast<long *>(region.data())[511] == 512);
}

static void shares() {
    auto builder = farcall::executor_builder().this_program().shared_layout();
    auto layout_of = [](const farcall::executor &executor) {
        return MUST(MUST(executor.process()).symbol("farcall_process_info"));
    };
    auto first = MUST(builder.start());
    bool is_forked = false;
    // The process that forks the others may still load the program.
    for (int attempt = 0; !is_forked && attempt < 1000; attempt++) {
        auto second = MUST(builder.start());
        is_forked = layout_of(second) == layout_of(first);
        CHECK(called<int()>(linked(second, "main", first_object), "version") == 1);
    }
    CHECK(is_forked);
    CHECK(layout_of(MUST(farcall::executor_builder().this_program().start())) != layout_of(first));
}

int main(int argc, char **argv) {
    farcall_run_if_spawned();
    if (argc != 6)
        return 2;
    first_object = argv[1], second_object = argv[2], fixed_object = argv[3], caller_object = argv[4], archive = argv[5];
    survives();
    watches();
    pools();
    snapshots();
    swaps();
    libraries();
    functions();
    shares();
    std::printf("done\n");
    return 0;
}
