/* Linked after a snapshot, into a copy. */
long count(void);

static long initial = 1;

long twice(void) { return count() + count() + initial + 1; }

long add_one(long *number) { return *number += 1; }
