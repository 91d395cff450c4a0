// Looks for an address in the segments of all files, from a library.
#include <link.h>

struct Wanted {
    uintptr_t address;
    unsigned flags;
    bool found;
};

static int visit(dl_phdr_info *info, size_t, void *data) {
    auto *wanted = static_cast<Wanted *>(data);
    for (int at = 0; at < info->dlpi_phnum; at++) {
        const auto &header = info->dlpi_phdr[at];
        uintptr_t start = info->dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_LOAD && (header.p_flags & wanted->flags) == wanted->flags && wanted->address - start < header.p_memsz)
            wanted->found = true;
    }
    return 0;
}

extern "C" bool guest_finds(const void *address, unsigned flags) {
    Wanted wanted = {reinterpret_cast<uintptr_t>(address), flags, false};
    dl_iterate_phdr(visit, &wanted);
    return wanted.found;
}
