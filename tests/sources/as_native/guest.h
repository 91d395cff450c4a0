/* What a program and its library have in common. */
inline int registered = 0;

struct Registry {
    int entries[8];
    int count;
};

inline Registry &registry() {
    static Registry one = {{}, 0};
    return one;
}

extern "C" void host_log(const char *text, int number);
extern "C" int host_level;
