// The operators of a program with its own allocator (allocator.c), in all forms that a library may call.
#include <cstdlib>
#include <new>

extern "C" void *memalign(size_t, size_t);

void *operator new(size_t bytes) { return malloc(bytes); }
void *operator new[](size_t bytes) { return malloc(bytes); }
void *operator new(size_t bytes, std::align_val_t to) { return memalign((size_t)to, bytes); }
void *operator new[](size_t bytes, std::align_val_t to) { return memalign((size_t)to, bytes); }
void operator delete(void *block) noexcept { free(block); }
void operator delete[](void *block) noexcept { free(block); }
void operator delete(void *block, size_t) noexcept { free(block); }
void operator delete[](void *block, size_t) noexcept { free(block); }
void operator delete(void *block, std::align_val_t) noexcept { free(block); }
void operator delete[](void *block, std::align_val_t) noexcept { free(block); }
void operator delete(void *block, size_t, std::align_val_t) noexcept { free(block); }
void operator delete[](void *block, size_t, std::align_val_t) noexcept { free(block); }
