/* The other half of tls_variables_a.c. */
__thread int shared = 5;
__thread short shared_zero;
__thread char shared_array[3000];
extern __thread long from_a;
static __thread int own = 7;
static __thread long own_zero;

int *address_of_shared(void) { return &shared; }

void change_b(int by) {
    own += by;
    own_zero -= by;
    shared_array[1] = 1;
}

long sum_of_b(void) { return own * 10000 + own_zero * 100 + shared_array[1] + from_a; }
