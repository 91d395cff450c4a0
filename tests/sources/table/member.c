/* The members of the table's archives, chosen by MEMBER. */
#ifdef __cplusplus
extern "C" {
#endif
int member_needed(int x), member_unused(int x), thin_needed(int x), thin_behind(int x), thin_unused(int x);
int absent_everywhere(int x);
#if MEMBER == 0
int member_needed(int x) { return thin_needed(x) + 1000; }
#elif MEMBER == 1
int member_unused(int x) { return absent_everywhere(x); }
#elif MEMBER == 2
int thin_needed(int x) { return thin_behind(x) + 100; }
#elif MEMBER == 3
int thin_behind(int x) { return x + 10; }
#elif MEMBER == 4
int thin_unused(int x) { return absent_everywhere(x); }
#endif
#ifdef __cplusplus
}
#endif
