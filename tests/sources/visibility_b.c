/* The other half of visibility_a.c. */
__attribute__((visibility("hidden"))) int hidden_data = 12;
__attribute__((visibility("internal"))) int internal_data[4] = {1, 2, 3, 4};
__attribute__((visibility("hidden"))) int hidden_function(void) { return hidden_data + 1; }
__attribute__((visibility("protected"))) int protected_function(void) { return 21; }
__attribute__((visibility("internal"))) int internal_function(void) { return internal_data[3]; }

static int same_name = 2;
static int same_function(void) { return same_name * 10; }
int statics_of_b(void) { return same_function(); }
