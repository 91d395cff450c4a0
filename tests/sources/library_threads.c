// A library whose constructor uses its thread-locals, so that their place is decided when it is opened.
__thread char big[THREAD_BYTES];
__thread int local = 5;
int *library_local(void) { return &local; }
__attribute__((constructor)) static void start(void) {
  local += 1;
  big[3] = 1;
}
