// Attacks on the words that are shared with the controller, each of which ends in a death. The controller sleeps by then.
#include "attack.h"

static void zero_starts(const char *name) {
  struct mapping found[MAPPINGS];
  int count = find_mappings(name, found, MAPPINGS);
  for (int at = 0; at < count; at++) memset((void *)found[at].words, 0, 512);
}

// As a program does by mistake.
struct farcall_result zero_and_crash(const char *data, size_t size) {
  sleep_ms(30);
  zero_starts("farcall-lane");
  zero_starts("farcall-pipeline");
  *(volatile int *)8 = 1;
  return answer(0);
}

static void store(const char *name, int word, uint64_t value) {
  struct mapping found[MAPPINGS];
  int count = find_mappings(name, found, MAPPINGS);
  for (int at = 0; at < count; at++) found[at].words[word] = value;
}

// One store for each side: nobody is asleep, it says.
struct farcall_result zero_parkers_and_die(const char *data, size_t size) {
  sleep_ms(30);
  store("farcall-lane", LANE_PARKER_CONTROLLER, 0);
  store("farcall-pipeline", PIPELINE_PARKER_CONTROLLER, 0);
  kill(getpid(), SIGKILL);
  return answer(0);
}

// A child goes on for some time after the death: no lane is closed, it says, and both sides are asleep; nobody is in a pipeline.
struct farcall_result leave_scribbler_and_die(const char *data, size_t size) {
  struct mapping lanes[MAPPINGS], pipelines[MAPPINGS];
  int lane_count = find_mappings("farcall-lane", lanes, MAPPINGS);
  int pipeline_count = find_mappings("farcall-pipeline", pipelines, MAPPINGS);
  uint64_t asleep = now_ms() + 30, end = asleep + 300;
  if (fork() == 0) {
    for (uint64_t now = now_ms(); now < end; now = now_ms()) {
      for (int at = 0; at < lane_count; at++) {
        lanes[at].words[LANE_PARKER_CONTROLLER] = 1;
        lanes[at].words[LANE_PARKER_EXECUTOR] = 1;
        for (int turn = 0; turn < 1000; turn++) lanes[at].words[LANE_CLOSED] = 0;
      }
      for (int at = 0; now > asleep && at < pipeline_count; at++) {
        pipelines[at].words[PIPELINE_PARKER_CONTROLLER] = 0;
        pipelines[at].words[PIPELINE_PARKER_EXECUTOR] = 0;
      }
    }
    _exit(0);
  }
  sleep_ms(80);
  kill(getpid(), SIGKILL);
  return answer(0);
}

struct farcall_result add(const char *data, size_t size) { return answer(number(data, 0) + number(data, 1)); }
