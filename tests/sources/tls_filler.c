/* More than the executor's static TLS reserve has: whatever is linked with it has its thread-locals elsewhere. */
_Thread_local char filler[70000];
