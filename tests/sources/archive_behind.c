/* A member that only another member needs. */
int behind(int x) { return x * 100; }
