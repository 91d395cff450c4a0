/* Thread-locals by each model, in C and C++: as the compiler has it for a variable with this attribute, and in
   assembly. */
#include "table.h"

#include <pthread.h>
#include <stdio.h>

C_NAMES

int *by_gd(void), *by_ld(void), *by_ie(void), *by_le(void), *by_desc(void);

#define MODEL(name, model)                                                                                             \
    __thread int exported_##name __attribute__((tls_model(model))) = 5;                                                \
    static __thread int own_##name __attribute__((tls_model(model)));                                                  \
    static __thread char far_##name[300] __attribute__((tls_model(model), aligned(64)));                               \
    static void *touch_##name(void *by) {                                                                              \
        long step = (long)by;                                                                                          \
        exported_##name += step;                                                                                       \
        own_##name -= step;                                                                                            \
        far_##name[299] += step;                                                                                       \
        *by_##name() += step;                                                                                          \
        printf("%d %d %d %d %d %d\n", exported_##name, own_##name, far_##name[299], (int)((long)far_##name % 64),      \
               *by_##name(), by_##name() == by_le());                                                                  \
        return NULL;                                                                                                   \
    }                                                                                                                  \
    void feature_##name(void) {                                                                                        \
        pthread_t thread;                                                                                              \
        touch_##name((void *)1);                                                                                       \
        pthread_create(&thread, NULL, touch_##name, (void *)10);                                                       \
        pthread_join(thread, NULL);                                                                                    \
        touch_##name((void *)2);                                                                                       \
    }

MODEL(gd, "global-dynamic")
MODEL(ld, "local-dynamic")
MODEL(ie, "initial-exec")
MODEL(le, "local-exec")
MODEL(desc, "global-dynamic")

C_NAMES_END
