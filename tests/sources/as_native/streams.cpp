// Much of the C++ library that allocates.
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

extern "C" void streams() {
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; number++)
        threads.emplace_back([] {
            for (int round = 0; round < 100; round++) {
                std::ostringstream text;
                text << round << " text";
                std::map<int, std::string> map;
                for (int key = 0; key < 50; key++)
                    map[key] = text.str();
            }
        });
    for (auto &thread : threads)
        thread.join();
    std::cout << std::regex_replace("hello world", std::regex("o"), "0") << std::endl;
    try {
        throw std::runtime_error("an error");
    } catch (const std::exception &error) {
        std::cout << error.what() << std::endl;
    }
}
