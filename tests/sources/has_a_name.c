/* A program with the function that the library of needs_a_name.c needs. WANTED names another one, which may be missing. With ASKS it
   makes the executor export its names. */
int only_in_the_program(void) { return VALUE; }

#ifdef WANTED
int WANTED(void);
int call(void) { return WANTED(); }
#endif

#ifdef ASKS
void *dlsym(void *, const char *);

int ask(void) { return dlsym(0, "only_in_the_program") == (void *)only_in_the_program; }
#endif
