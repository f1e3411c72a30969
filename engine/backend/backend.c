#include "engine/backend/backend.h"
#include "engine/backend/cpu/cpu.h"
#include "engine/backend/ref/ref.h"

#include <string.h>

/* A new back end is one line here. */
static const struct hrf_backend_ops *const table[] = { &hrf_backend_ref, &hrf_backend_cpu };

const struct hrf_backend_ops *hrf_backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

const char *hrf_backend_names(void)
{
    return "ref, cpu";
}
