/* left_out.c - see left_out.h. */
#include "training/samples/left_out.h"

#include "base/alloc.h"
#include "base/array.h"
#include "base/text.h"

#include <stdio.h>

void hrf_left_outs_release(struct hrf_left_outs *left_out)
{
    for (size_t i = 0; i < left_out->n_items; i++) {
        hrf_free(left_out->items[i].name);
        hrf_free(left_out->items[i].reason);
    }
    hrf_free(left_out->items);
    *left_out = (struct hrf_left_outs){ .n_items = 0 };
}

void hrf_left_outs_add(struct hrf_left_outs *left_out, const char *name, const char *reason)
{
    HRF_AUTO_FREE char *shown = hrf_text_escaped(name);
    HRF_RESERVE(left_out->items, left_out->capacity, left_out->n_items + 1);
    left_out->items[left_out->n_items++] = (struct hrf_left_out_slide){ hrf_strdup(name),
                                                                        hrf_strdup(reason) };
    fprintf(stderr, "%s is left out: %s\n", shown, reason);
}

json_t *hrf_left_outs_json(const struct hrf_left_outs *left_out)
{
    json_t *array = json_array();
    for (size_t i = 0; i < left_out->n_items; i++) {
        json_t *one = json_object();
        hrf_json_put_text(one, "slide", left_out->items[i].name);
        hrf_json_put_text(one, "reason", left_out->items[i].reason);
        hrf_json_add(array, one);
    }
    return array;
}
