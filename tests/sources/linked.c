// Uses all that farcall/linked.h declares; C11 and C++11.
#include <farcall/linked.h>

#ifdef __cplusplus
extern "C" {
#endif

farcall_wrapper same, fail, ask;

struct farcall_result same(const char *data, size_t size) { return farcall_result_of(data, size); }

struct farcall_result fail(const char *data, size_t size) {
  return size > 0 ? farcall_result_failure(data) : farcall_result_failure("nothing came");
}

// Calls the tag in the first 8 bytes with the others, twice. Returns both answers, one behind the other, or the failure.
struct farcall_result ask(const char *data, size_t size) {
  uint64_t tag;
  struct farcall_result answers[2], both;
  char *joined;
  int at;
  memcpy(&tag, data, sizeof tag);
  for (at = 0; at < 2; at++) {
    answers[at] = farcall_call_controller(tag, data + sizeof tag, size - sizeof tag);
    if (farcall_result_message(&answers[at]) != NULL) return answers[at];
  }
  joined = (char *)malloc(answers[0].size + answers[1].size + 1);
  if (joined == NULL) abort();
  memcpy(joined, farcall_result_data(&answers[0]), answers[0].size);
  memcpy(joined + answers[0].size, farcall_result_data(&answers[1]), answers[1].size);
  both = farcall_result_of(joined, answers[0].size + answers[1].size);
  free(joined);
  farcall_result_free(&answers[0]);
  farcall_result_free(&answers[1]);
  return both;
}

#ifdef __cplusplus
}
#endif
