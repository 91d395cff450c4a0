/* More than the executor's arena has: whatever is linked with it has its thread-locals elsewhere. */
_Thread_local char filler[70000];
