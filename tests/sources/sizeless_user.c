/* Holds the address of somebody else's variable, in 32 bits when compiled with -fno-pic. */
extern long sizeless;
long *volatile holder;

int main(void) {
    holder = &sizeless;
    return (int)*holder;
}
