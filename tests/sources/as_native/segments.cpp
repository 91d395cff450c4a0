// Variables of a program lie in its segments.
#include <cstdio>
#include <link.h>

extern "C" bool guest_finds(const void *address, unsigned flags);

static int visit(dl_phdr_info *info, size_t, void *data) {
    auto *wanted = static_cast<const char **>(data);
    for (int at = 0; at < info->dlpi_phnum; at++) {
        const auto &header = info->dlpi_phdr[at];
        uintptr_t start = info->dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_LOAD && (uintptr_t)*wanted - start < header.p_memsz && !(wanted[1] && !(header.p_flags & PF_W)))
            wanted[2] = "found";
    }
    return 0;
}

static bool finds(const void *address, bool is_written) {
    const char *wanted[3] = {(const char *)address, is_written ? "" : nullptr, nullptr};
    dl_iterate_phdr(visit, wanted);
    return wanted[2] != nullptr;
}

int initialised = 5;
static int zero[10000];
extern const char constant[];
const char constant[] = "a constant of this program";

int main() {
    printf("own: %d %d %d %d %d\n", finds(&initialised, true), finds(zero, true), finds(&zero[9999], true), finds(constant, false),
           finds((const void *)main, false));
    printf("library: %d %d %d %d\n", guest_finds(&initialised, PF_R | PF_W), guest_finds(zero, PF_R | PF_W),
           guest_finds(&zero[9999], PF_R | PF_W), guest_finds(constant, PF_R));
    int local = 0;
    printf("others: %d %d\n", finds(&local, true), guest_finds(&local, PF_R));
    return 0;
}
