/* A program whose libraries call it in their constructors (constructed_guest.c). It asks its host. */
long allowed(int number);

static long seen;

void construct(int number) {
    seen = seen * 10 + number;
    allowed(number);
}

long constructed(void) { return seen; }
