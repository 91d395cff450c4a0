// C++ frames between a call and the handler that fails in it.
#include <cstdint>

extern "C" void fails(int64_t value);

static int64_t destroyed;

struct Counted {
  int64_t value;
  explicit Counted(int64_t value) : value(value) {}
  ~Counted() { destroyed += value; }
};

static void __attribute__((noinline)) inner(int64_t value) {
  Counted counted(1);
  fails(value);
  destroyed += 1000;
}

extern "C" int64_t outer(int64_t value) {
  Counted counted(10);
  try {
    inner(value);
  } catch (int) {
    destroyed += 10000;
  }
  return 7;
}

extern "C" int64_t take_destroyed() {
  int64_t value = destroyed;
  destroyed = 0;
  return value;
}
