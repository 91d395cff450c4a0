/* A member that archive_main.c needs; it needs archive_behind.c. */
int behind(int x);
int needed(int x) { return behind(x) + 1; }
