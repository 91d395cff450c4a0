/* Members of an archive, and an object that is removed again. */
double scale(long count, double unit);

long late(long value) { return (long)scale(value, 2.0); }
