// A program with a library that uses its names.
#include "guest.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <sstream>

extern "C" int guest_registered();
extern "C" int *guest_registered_at();
extern "C" Registry *guest_registry();
extern "C" int *guest_block();
extern "C" size_t guest_text(int count);
extern "C" int guest_both();

static int news, deletes;
int host_level = 3;

void *operator new(size_t bytes) {
    news++;
    return malloc(bytes + 16);
}
void operator delete(void *block) noexcept {
    deletes += block != nullptr;
    free(block);
}
void operator delete(void *block, size_t) noexcept { operator delete(block); }

void host_log(const char *text, int number) { printf("log: %s, %d\n", text, number); }

int both() { return 2; }

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    printf("registered %d %d %d\n", registered, guest_registered(), guest_registered_at() == &registered);
    registered = 8;
    printf("registered %d, registry %d %d %d %d\n", guest_registered(), guest_registry() == &registry(), registry().count,
           registry().entries[0], registry().entries[1]);
    int before = news;
    int *block = guest_block();
    printf("block %d, %d new\n", *block, news - before);
    delete block;
    before = news;
    size_t bytes = guest_text(1000);
    printf("text of %zu bytes, %d\n", bytes, news - before > 3);
    before = news;
    std::ostringstream stream;
    for (int number = 0; number < 1000; number++)
        stream << number << ' ';
    printf("stream of %zu bytes, %d\n", stream.str().size(), news - before > 3);
    printf("both %d\n", guest_both());
    auto next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "_Z4bothv"));
    printf("next %d\n", next ? next() : 0);
    return 0;
}
