// A library that is preloaded: it has blocks from before the program came, small and large, and of threads, and gives them back at
// the end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <pthread.h>

namespace {

const int threads_max = 100;
const size_t alignments[] = {16, 64, 256, 4096, 1 << 16};
const size_t sizes[] = {100, 140000, 1 << 20};

void *blocks[2][5][3];
char *grown;
void *of_threads[threads_max];
char *made;
pthread_barrier_t barrier;

// All threads are there at the same time, so that each has an arena as far as there are enough.
void *take(void *number) {
  of_threads[(intptr_t)number] = strdup("a text of a thread");
  pthread_barrier_wait(&barrier);
  return nullptr;
}

__attribute__((constructor)) void before() {
  pthread_barrier_init(&barrier, nullptr, threads_max);
  pthread_t threads[threads_max];
  for (intptr_t number = 0; number < threads_max; number++)
    pthread_create(threads + number, nullptr, take, (void *)number);
  for (pthread_t thread : threads)
    pthread_join(thread, nullptr);
  for (auto &all : blocks)
    for (int one = 0; one < 5; one++)
      for (int other = 0; other < 3; other++)
        all[one][other] = memalign(alignments[one], sizes[other]);
  grown = (char *)malloc(1 << 20);
  memset(grown, 'x', 1 << 20);
  made = new char[300000];
}

__attribute__((destructor)) void after() {
  bool has_room = malloc_usable_size(blocks[0][0][2]) >= 1 << 20;
  grown = (char *)realloc(grown, 2 << 20);
  bool is_same = grown[0] == 'x' && grown[(1 << 20) - 1] == 'x';
  grown = (char *)reallocarray(grown, 10, 10);
  is_same = is_same && grown[99] == 'x';
  free(grown);
  for (auto &all : blocks)
    for (auto &one : all)
      for (void *block : one)
        free(block);
  for (void *text : of_threads)
    free(text);
  delete[] made;
  char *later = new char[300000];
  // The program's allocator gives as much as it is asked for.
  if (malloc_usable_size(later) != 300000)
    return;
  delete[] later;
  printf("room %d, the same %d\nall is given back\n", has_room, is_same);
  fflush(stdout);
}

} // namespace
