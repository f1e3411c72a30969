#include "engine/onnx/onnx_names.h"

#include "base/hash.h"

#include <string.h>

static size_t hash_name(const char *name)
{
    const uint64_t hash = hrf_hash_fnv(name, strlen(name));
    return (size_t)(hash ^ (hash >> 32));
}

static struct hrf_name_slot *find_slot(struct hrf_name_slot *slots, size_t n, const char *name)
{
    size_t i = hash_name(name) & (n - 1);
    while (slots[i].name != NULL && strcmp(slots[i].name, name) != 0)
        i = (i + 1) & (n - 1);
    return &slots[i];
}

static void grow(struct hrf_names *names)
{
    size_t n = names->n_slots > 0 ? 2 * names->n_slots : 64;
    struct hrf_name_slot *slots = hrf_calloc(n, sizeof *slots);
    for (size_t i = 0; i < names->n_slots; i++)
        if (names->slots[i].name != NULL)
            *find_slot(slots, n, names->slots[i].name) = names->slots[i];
    hrf_free(names->slots);
    names->slots = slots;
    names->n_slots = n;
}

void hrf_names_set(struct hrf_names *names, const char *name, int32_t value)
{
    if (2 * (names->n_used + 1) > names->n_slots)
        grow(names);
    struct hrf_name_slot *slot = find_slot(names->slots, names->n_slots, name);
    names->n_used += slot->name == NULL;
    *slot = (struct hrf_name_slot){ .name = name, .value = value };
}

int32_t hrf_names_get(const struct hrf_names *names, const char *name, int32_t missing)
{
    if (names->n_slots == 0)
        return missing;
    const struct hrf_name_slot *slot = find_slot(names->slots, names->n_slots, name);
    return slot->name != NULL ? slot->value : missing;
}

void hrf_names_release(struct hrf_names *names)
{
    hrf_free(names->slots);
    *names = (struct hrf_names){ 0 };
}
