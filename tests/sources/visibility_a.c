/* Every visibility resolves across objects, and static names of two objects stay apart; see visibility_b.c. */
#include <stdio.h>

extern __attribute__((visibility("hidden"))) int hidden_function(void);
extern __attribute__((visibility("protected"))) int protected_function(void);
extern __attribute__((visibility("internal"))) int internal_function(void);
extern __attribute__((visibility("hidden"))) int hidden_data;
extern __attribute__((visibility("internal"))) int internal_data[4];
int statics_of_b(void);

static int same_name = 1;
static int same_function(void) { return same_name * 10; }


int main(void) {
    printf("hidden %d %d\n", hidden_function(), hidden_data);
    printf("protected %d\n", protected_function());
    printf("internal %d %d\n", internal_function(), internal_data[2]);
    printf("static %d %d\n", same_function(), statics_of_b());
    return 0;
}
