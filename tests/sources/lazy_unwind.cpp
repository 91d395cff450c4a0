// Frames with destructors between a call and a function that cannot be had.
#include <cstdint>

static std::int64_t destroyed;

struct Guard {
  ~Guard() { destroyed++; }
};

using function = std::uint64_t();

extern "C" {
std::int64_t how_many_destroyed() { return destroyed; }

__attribute__((noinline)) std::uint64_t inner(function *later) {
  Guard guard;
  return later() + 1;
}

std::uint64_t outer(function *later) {
  Guard first, second;
  return inner(later) + 1;
}

#ifdef __cpp_exceptions
// Goes on when it is unwound.
std::uint64_t catches(function *later) {
  try {
    return inner(later);
  } catch (...) {
    return 99;
  }
}
#endif
}
