/* export.c - runs a head once and writes the steps of its tape as ONNX, with its metadata. */
#include "heads/export/export.h"

#include "base/json.h"
#include "base/path.h"
#include "engine/onnx/onnx.h"
#include "heads/bags/bag.h"
#include "heads/export/export_private.h"

#include <stdlib.h>
#include <string.h>

/* The one metadata entry, JSON. */
static const char metadata_key[] = "hires-flow.head";

static enum hrf_status name_output(struct hrf_export *e, const struct hrf_tensor *t,
                                   const char *name, int32_t *out)
{
    const int32_t value = hrf_export_find(e, t);
    HRF_TRY(e->status);
    HRF_AUTO_FREE char *copy = hrf_strdup(name);
    hrf_free(e->graph->values[value].name);
    HRF_MOVE(e->graph->values[value].name, copy);
    *out = value;
    return HRF_OK;
}

static enum hrf_status fill(struct hrf_export *e, struct hrf_head *head, struct hrf_tape *tape)
{
    enum { PATCHES = 30 }; /* any number: the sizes in the file follow the bag */
    const struct hrf_shape open = { .rank = 2, .dims = { -1, head->form.width } };
    struct hrf_head_result r;
    int32_t input = -1, outputs[2], n_outputs = 0;
    HRF_AUTO_FREE float *x = hrf_try_calloc((size_t)head->form.width, PATCHES * sizeof *x);
    HRF_CHECK_MEMORY(x != NULL, e->err, "no memory for a bag");
    hrf_tape_clear(tape, 0, false);
    struct hrf_tensor *bag = hrf_tape_input(tape, x, PATCHES, head->form.width);
    HRF_TRY(hrf_head_run(head, tape, bag, -1, 1, &r, e->err));
    HRF_TRY(hrf_graph_add_value(e->graph, "bag", HRF_F32, &open, NULL, &input, e->err));
    hrf_export_bind(e, bag, input);
    for (const struct hrf_tape_node *n = hrf_tape_first(tape); n != NULL; n = n->next)
        hrf_export_step(e, n);
    HRF_TRY(e->status);
    HRF_TRY(name_output(e, r.scores, "scores", &outputs[n_outputs++]));
    if (r.attention != NULL)
        HRF_TRY(name_output(e, r.attention, "attention", &outputs[n_outputs++]));
    return hrf_graph_set_io(e->graph, &input, 1, outputs, n_outputs, e->err);
}

static char *describe(const struct hrf_head_labels *labels, enum hrf_head_kind kind)
{
    HRF_AUTO_JSON json = json_object();
    json_t *classes = json_array(), *seen = json_array();
    for (int32_t k = 0; k < labels->n_classes; k++)
        hrf_json_add(classes, hrf_json_string(labels->classes[k]));
    for (size_t i = 0; i < labels->n_seen; i++)
        hrf_json_add(seen, hrf_json_string(labels->seen[i]));
    hrf_json_put_int(json, "version", 1);
    hrf_json_put_text(json, "kind", hrf_head_kind_names[kind]);
    hrf_json_put(json, "classes", classes);
    hrf_json_put(json, "trained_on", seen);
    hrf_json_put_text(json, "features", labels->origin);
    return hrf_json_text(json);
}

enum hrf_status hrf_head_export(struct hrf_head *head, const struct hrf_head_labels *labels,
                                const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_tape) tape = NULL;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_FREE char *text = describe(labels, head->form.kind);
    hrf_tape_create(&tape);
    HRF_TRY(hrf_graph_create(hrf_head_kind_names[head->form.kind], &graph, err));
    struct hrf_export e = { .graph = graph, .side = -1, .err = err };
    const enum hrf_status status = fill(&e, head, tape);
    hrf_free((void *)e.tensors);
    hrf_free(e.values);
    HRF_TRY(status);
    const struct hrf_onnx_entry entry = { metadata_key, text };
    return hrf_onnx_write_with(graph, &entry, 1, false, path, err);
}

/* ---- reading the metadata ---- */

void hrf_head_card_destroy(struct hrf_head_card *card)
{
    if (card == NULL)
        return;
    for (size_t i = 0; i < card->n_classes; i++)
        hrf_free(card->classes[i]);
    for (size_t i = 0; i < card->n_seen; i++)
        hrf_free(card->seen[i]);
    hrf_free(card->classes);
    hrf_free(card->seen);
    hrf_free(card->origin);
    hrf_free(card);
}

static enum hrf_status read_list(const json_t *json, const char *key, const char *path, char ***out,
                                 size_t *n, struct hrf_error *err)
{
    json_t *array = NULL;
    HRF_TRY(hrf_json_get_array(json, key, path, &array, err));
    *out = hrf_calloc(json_array_size(array) + 1, sizeof **out);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (text == NULL)
            return hrf_error_set(err, HRF_E_USER, "'%s': an entry of %s is no text", path, key);
        (*out)[i] = hrf_strdup(text);
        *n = i + 1;
    }
    return HRF_OK;
}

enum hrf_status hrf_head_card_read(const char *path, struct hrf_head_card **out,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO_JSON json = NULL;
    const char *origin = NULL;
    HRF_AUTO(hrf_head_card) card = hrf_calloc(1, sizeof *card);
    HRF_TRY(hrf_onnx_read_entry(path, metadata_key, &text, err));
    if (text != NULL) {
        HRF_TRY(hrf_json_parse(text, strlen(text), path, &json, err));
        HRF_TRY(read_list(json, "classes", path, &card->classes, &card->n_classes, err));
        HRF_TRY(read_list(json, "trained_on", path, &card->seen, &card->n_seen, err));
        HRF_TRY(hrf_json_get_text(json, "features", path, &origin, err));
        card->origin = hrf_strdup(origin);
    }
    HRF_MOVE(*out, card);
    return HRF_OK;
}

/* True if the head was trained or validated on `slide`. */
static bool head_card_has_seen(const struct hrf_head_card *card, const char *slide)
{
    for (size_t i = 0; i < card->n_seen; i++)
        if (strcmp(card->seen[i], slide) == 0)
            return true;
    return false;
}

enum hrf_status hrf_head_card_check(const struct hrf_head_card *card, const char *path,
                                    const char *set, const struct hrf_head_use *use,
                                    struct hrf_error *err)
{
    struct hrf_bag_facts facts;
    HRF_AUTO_FREE char *slide = hrf_path_stem(path);
    HRF_TRY(hrf_bag_look(path, set, slide, &facts, err));
    if (!use->may_have_seen && head_card_has_seen(card, slide))
        return hrf_error_set(err, HRF_E_USER,
                             "slide '%s' is one that the head was trained on: its score says "
                             "nothing; %s",
                             slide, use->when_seen);
    if (use->may_mix || card->origin == NULL ||
        hrf_bag_same_origin(card->origin, facts.origin, use->any_precision))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "the features of '%s' were made by something else (%s) than those that "
                         "the head was trained on (%s): %s",
                         slide, hrf_bag_origin_shown(facts.origin),
                         hrf_bag_origin_shown(card->origin), use->when_mixed);
}
