// Thread-locals of a library by name, here and there, on two threads.
#include <pthread.h>
#include <stdio.h>

extern __thread int local;
extern __thread char big[];
int *library_local(void);

static void *thread(void *from_main) {
  local += 100;
  printf("thread: %d %d %d %d\n", local, *library_local(), big[3], &local == from_main);
  return 0;
}

int main(void) {
  printf("main: %d %d %d\n", local, *library_local(), big[3]);
  pthread_t other;
  pthread_create(&other, 0, thread, &local);
  pthread_join(other, 0);
  printf("main: %d %d %d\n", local, *library_local(), &local == library_local());
  return 0;
}
