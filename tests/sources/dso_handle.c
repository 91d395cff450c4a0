/* Names __dso_handle, and needs nothing else of a program's start. */
extern void *__dso_handle __attribute__((visibility("hidden")));

int main(void)
{
    return &__dso_handle == (void **)4;
}
