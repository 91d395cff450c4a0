// Calls of functions that are compiled when they are called first.
#include <pthread.h>
#include <stdint.h>

typedef uint64_t function(void);

// Calls each of the functions, from the one at `first` on and round, and returns the sum of what they return.
uint64_t call_all(function **functions, uint64_t count, uint64_t first) {
  uint64_t sum = 0;
  for (uint64_t at = 0; at < count; at++) sum += functions[(first + at) % count]();
  return sum;
}

// The same on a thread of its own; -1 when that did not come back.
struct job {
  function **functions;
  uint64_t count, sum;
};

static void *on_thread(void *data) {
  struct job *job = data;
  job->sum = call_all(job->functions, job->count, 0);
  return job;
}

uint64_t call_all_on_thread(function **functions, uint64_t count) {
  struct job job = {functions, count, 0};
  pthread_t thread;
  void *back;
  pthread_create(&thread, 0, on_thread, &job);
  pthread_join(thread, &back);
  return back ? job.sum : (uint64_t)-1;
}

__attribute__((weak)) function later;

int main(int argc, char **argv) { return (int)later(); }

