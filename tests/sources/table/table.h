/* What the parts of the table's programs in C and C++ share: the features that both have in the same words. */
#ifdef __cplusplus
#define C_NAMES extern "C" {
#define C_NAMES_END }
#else
#define C_NAMES
#define C_NAMES_END
#endif
#define APART __attribute__((noinline))

#define FEATURES_OF_BOTH(X)                                                                                            \
    X(relocations) X(table) X(moved) X(library) X(archive) X(thin) X(common) X(group) X(merge) X(bounds) X(sections)   \
    X(property) X(frames) X(names) X(gd) X(ld) X(ie) X(le) X(desc)
#define DECLARE_FEATURE(name) void feature_##name(void);

C_NAMES
FEATURES_OF_BOTH(DECLARE_FEATURE)

/* Of assembly. */
void note_letter(int letter);
void end_letter(int letter);
extern int watch_end;
extern char letters[64];
int marked(int x);
int reach_data(void), reach_all(void), reach_table(void);
int call_weak_both(void), call_kept(void), call_kept_of_other(void), call_choice(int x), call_many(void);
void change_commons(void);
void call_with_cfi(void (*function)(void)), call_without_cfi(void (*function)(void));
C_NAMES_END
