// As control.c, by farcall.hpp. With exceptions, or without them (-fno-exceptions).
//
//     control OBJECT ARCHIVE LATE
#include "checked.hpp"

#include <atomic>
#include <thread>

static std::string bytes_of(std::uint64_t number) { return {reinterpret_cast<const char *>(&number), sizeof number}; }

int main(int argc, char **argv) {
    farcall_run_if_spawned();
    if (argc != 4)
        return 2;
    auto executor = MUST(farcall::executor_builder().this_program().start());
    auto process = MUST(executor.process());
    CHECK(MUST(process.pid()) > 0 && MUST(process.page_bytes()) == 4096);
    CHECK(MUST(process.triple()).find("linux") != std::string::npos);
    CHECK(MUST(process.confinement()) == "default");
    CHECK(MUST(process.symbols()).count("farcall_process_info") == 1 && !MUST(process.values()).empty());
    CHECK(MUST(process.symbol("farcall_process_info")) != 0);
    CHECK(!process.death());

    auto library = MUST(executor.create_library("main"));
    MUST_DO(library.add_object_file(argv[1]));
    auto host_scale = [calls = 0](int count, double unit) mutable {
        calls++;
#if FARCALL_EXCEPTIONS
        if (count < 0)
            throw std::runtime_error("below zero");
#endif
        return count * unit + (calls - 1);
    };
    MUST_DO(library.define_handler<double(int, double)>("host_scale", host_scale));
    auto scale = MUST(library.function<double(long, double)>("scale"));
    CHECK(MUST(scale(3, 0.5)) == 1.5);
    CHECK(MUST(scale.call_with(farcall::call_options().timeout(std::chrono::seconds(60)), 3, 0.5)) == 1.5);
    auto mixed = MUST((library.function<std::int64_t(bool, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, int,
                                                      unsigned, long, unsigned long, float, double, farcall::pointer)>(
        "mixed")));
    CHECK(MUST(mixed(true, -1, 200, -300, 60000, -70000, 4000000000u, -5, 6, 1.5f, 2.5, farcall::pointer{4096})) ==
          4000000000 - 10090);
    auto through_host = MUST(library.function<double(int)>("through_host"));
    CHECK(MUST(through_host(6)) == 1.5 && MUST(through_host(6)) == 2.5);
#if FARCALL_EXCEPTIONS
    auto thrown = FAILED(through_host(-1));
    CHECK(thrown.code() == FARCALL_REMOTE && std::string(thrown.what()) == "host_scale: below zero");
#endif
    // P2: a parameter of the type pointer is read without a warning.
    MUST_DO(library.define_handler<double(farcall::pointer)>("host_reads", [](farcall::pointer at) { return at.address * 0.5; }));
    CHECK(MUST(MUST(library.function<double(farcall::pointer)>("host_reads"))(farcall::pointer{84})) == 42);
    auto missing = FAILED(library.lookup("nowhere"));
    CHECK(missing.code() == FARCALL_SYMBOLS && !missing.is_disconnected() && !missing.death());
    MUST_DO(library.initialize());
    CHECK(MUST(library.run_main({"controlled", "three", "words", "here"})) == 3);
    MUST_DO(library.add_archive_file(argv[2]));
    CHECK(MUST(MUST(library.function<long(long)>("late"))(4)) == 8);

    auto dylib = MUST(process.create_dylib("main"));
    MUST_DO(dylib.add_object_file(argv[1]));
    MUST_DO(dylib.define("host_scale", 16));
    CHECK(MUST(dylib.lookup(std::vector<std::string>{"scale", "reverse"})).size() == 2);
    MUST_DO(dylib.initialize());
    MUST_DO(dylib.add_archive_file(argv[2]));
    CHECK(MUST(MUST(process.function<long(long)>(MUST(dylib.lookup("late"))))(4)) == 8);
    auto other = MUST(process.create_dylib("other"));
    MUST_DO(other.add_to_link_order(dylib));
    MUST_DO(other.define("answer", 42));
    auto tracker = MUST(other.create_tracker());
    MUST_DO(other.add_object_file(argv[3], tracker));
    CHECK(MUST(other.lookup("late")) != MUST(dylib.lookup("late")) && MUST(other.lookup("answer")) == 42);
    MUST_DO(tracker.remove());
    CHECK(FAILED(tracker.remove()).code() == FARCALL_INVALID);
    tracker = MUST(other.create_tracker());
    MUST_DO(tracker.transfer({}));
    MUST_DO(other.clear());
    MUST_DO(other.remove());

    auto reverse = MUST(dylib.lookup("reverse")), ask = MUST(dylib.lookup("ask")), doze = MUST(dylib.lookup("doze"));
    CHECK(MUST(process.call(reverse, "hello world")).view() == "dlrow olleh");
    CHECK(MUST(process.call_with(farcall::call_options().timeout(std::chrono::seconds(60)), reverse, "abc")).view() == "cba");
    auto refused = FAILED(process.call(MUST(dylib.lookup("refuse")), ""));
    CHECK(refused.code() == FARCALL_REMOTE && std::string(refused.what()) == "not today");

    // Answers that come at once, later, and never.
    auto at_once = MUST(process.register_handler([](farcall::incoming_call call) { call.answer(call.args()); }));
    auto later = MUST(process.register_handler([](farcall::incoming_call call) {
        std::thread([call = std::move(call)]() mutable { call.answer("later"); }).detach();
    }));
    auto never = MUST(process.register_handler([](farcall::incoming_call) {}));
    MUST_DO(process.handle_other_tags([](farcall::incoming_call call) { call.fail(std::to_string(call.tag())); }));
    CHECK(MUST(process.call(ask, bytes_of(at_once) + "echo")).view() == "echo");
    CHECK(MUST(process.call(ask, bytes_of(later))).view() == "later");
    CHECK(std::string(FAILED(process.call(ask, bytes_of(never))).what()) == "the handler has not answered");
    CHECK(std::string(FAILED(process.call(ask, bytes_of(~0ull))).what()) == "18446744073709551615");
    MUST_DO(process.remove_handler(at_once));

    // Pipelines.
    std::atomic<int> done{0}, failures{0};
    auto count = [&](farcall::result<farcall::buffer> outcome) {
        if (!outcome)
            failures++;
        else
            CHECK(outcome->view() == "cba");
        done++;
    };
    auto pipeline = MUST(process.open_pipeline());
    auto polled = MUST(process.open_pipeline(true));
    for (int turn = 0; turn < 100; turn++) {
        MUST_DO(pipeline.submit(reverse, "abc", count));
        MUST_DO(polled.submit(reverse, "abc", count));
    }
    for (std::size_t all = 0; all < 100;)
        all += MUST(polled.poll());
    while (done < 200)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::uint32_t long_time = 60000;
    std::string_view minute(reinterpret_cast<const char *>(&long_time), sizeof long_time);
    MUST_DO(pipeline.submit(doze, minute, count));
    pipeline.close();
    CHECK(done == 201 && failures == 1);

    // Regions and memory.
    auto region = MUST(farcall::region::create(1 << 16));
    auto base = MUST(region.attach(process, true));
    auto offset = MUST(region.allocate(4 * sizeof(long)));
    for (int at = 0; at < 4; at++)
        reinterpret_cast<long *>(region.data() + offset)[at] = at + 1;
    auto sum = MUST((library.function<long(farcall::pointer, long)>("sum_of")));
    CHECK(MUST(sum({base + offset}, 4)) == 10 && region.bytes() == 1 << 16);
    MUST_DO(region.free(offset));
    MUST_DO(region.detach(process));
    auto memory = MUST(process.reserve({0, 0, 100}));
    auto part = MUST(memory.part(FARCALL_DATA));
    std::memcpy(part.working, "in place", 9);
    auto shared = MUST(process.shared_memory(part.address));
    CHECK(shared.first == part.working && shared.second >= part.bytes);
    MUST_DO(memory.name_functions("data", {{part.address, 8, "no function"}}));
    auto finalized = MUST(memory.finalize());
    char text[9];
    MUST_DO(process.read(part.address, text, sizeof text));
    CHECK(std::string(text) == "in place");
    MUST_DO(process.write(part.address, "IN", 2));
    CHECK(std::memcmp(part.working, "IN", 2) == 0);
    MUST_DO(process.deallocate({finalized}));
    auto abandoned = MUST(process.reserve({1, 1, 1}));

    // Deaths, an exit, and a close.
    auto crash = MUST(library.function<void()>("crash"));
    auto died = FAILED(crash());
    CHECK(died.code() == FARCALL_DIED && died.is_disconnected() && died.death()->number("fault_address") == 0x10);
    CHECK(died.death()->text("location")->rfind("crash+", 0) == 0 && died.death()->list("backtrace").size() == 1);
    CHECK(!died.death()->is("limit") && died.death()->facts().count("program_counter") == 1);
    CHECK(process.death()->death()->number("signal") == 11);
    auto moved = std::move(executor);
    executor = MUST(farcall::executor_builder().this_program().start());
    CHECK(MUST(MUST(executor.process()).exit(3)) == 3);
    executor.close();
    CHECK(FAILED(executor.kill()).code() == FARCALL_INVALID);
    moved.close();
    CHECK(FAILED(dylib.lookup("scale")).code() == FARCALL_INVALID);
    CHECK(FAILED(library.lookup("scale")).code() == FARCALL_INVALID);
#ifdef MEMCHECK
    // valgrind's vfork is a fork, whose child cannot tell why it ends.
    CHECK(FAILED(farcall::executor_builder().program("/no/such/program").start()).code() == FARCALL_DIED);
#else
    CHECK(FAILED(farcall::executor_builder().program("/no/such/program").start()).code() == FARCALL_SYSTEM);
#endif
    std::printf("done\n");
    return 0;
}
