// What of the C++ library works with thread-locals of its own that programs name: once, async, promises.
#include <cstdio>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

static std::once_flag flag;
static int calls;

static int work(int number) {
    std::call_once(flag, [] { calls++; });
    return number * calls;
}

int main() {
    std::vector<std::future<int>> futures;
    for (int i = 0; i < 5; i++) futures.push_back(std::async(std::launch::async, work, i));
    for (auto &one : futures) std::printf("%d\n", one.get());

    std::promise<int> promise;
    auto future = promise.get_future();
    std::thread thread([&promise] {
        try {
            std::once_flag failing;
            std::call_once(failing, [] { throw std::runtime_error("thrown once"); });
        } catch (...) {
            promise.set_exception(std::current_exception());
        }
    });
    try {
        future.get();
    } catch (std::exception &error) {
        std::puts(error.what());
    }
    thread.join();
    std::packaged_task<int(int)> task(work);
    task(7);
    return task.get_future().get() + calls;
}
