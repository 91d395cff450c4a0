/* Objects that only static variables point to, while a collector frees everything else. */
#include <gc.h>
#include <stdio.h>

struct node {
    struct node *next;
    long number;
};

static struct node *zero;
static struct node *initialised = (struct node *)8;

static struct node *list(long count) {
    struct node *first = NULL;
    for (long number = 0; number < count; number++) {
        struct node *node = GC_MALLOC(sizeof *node);
        node->next = first;
        node->number = number;
        first = node;
    }
    return first;
}

static long sum(const struct node *node) {
    long sum = 0;
    for (; node; node = node->next)
        sum += node->number;
    return sum;
}

int main(void) {
    GC_INIT();
    zero = list(3000);
    initialised = list(2000);
    for (int round = 0; round < 20; round++) {
        for (int number = 0; number < 20000; number++)
            ((struct node *)GC_MALLOC(sizeof(struct node)))->number = -1;
        GC_gcollect();
    }
    printf("%ld %ld\n", sum(zero), sum(initialised));
    return 0;
}
