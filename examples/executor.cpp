// executor.cpp
#include <farcall.hpp>

#include <cstdio>

int main() {
    farcall_run_if_spawned(); // the executor is this program, started again
    auto executor = farcall::executor_builder().this_program().restart(farcall::restart_policy()).start();
    auto library = executor.create_library("main");
    library.add_object_file("scale.o");
    auto scale = library.function<double(long, double)>("scale");
    auto crash = library.function<double()>("crash");
    try {
        crash();
    } catch (const farcall::error &error) {
        std::printf("%s\n", error.what());
    }
    std::printf("3 * 0.5 = %g in the next executor\n", scale(3, 0.5));
}
