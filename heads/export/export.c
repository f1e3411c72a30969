/* export.c - see export.h. */
#include "heads/export/export.h"

#include "base/json.h"
#include "base/path.h"
#include "engine/onnx/onnx.h"
#include "heads/bags/bag.h"

#include <stdlib.h>
#include <string.h>

/* The one metadata entry, JSON. */
static const char metadata_key[] = "hires-flow.head";

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
    if (labels->encoder != NULL)
        hrf_json_put_text(json, "encoder", labels->encoder);
    else
        hrf_json_put_text(json, "features", labels->origin);
    return hrf_json_text(json);
}

enum hrf_status hrf_head_export(const struct hrf_head *head, const struct hrf_head_labels *labels,
                                const char *path, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_FREE char *text = describe(labels, head->form.kind);
    const struct hrf_onnx_entry entry = { metadata_key, text };
    HRF_TRY(hrf_head_network(head, &graph, err));
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
        card->is_of_encoder = json_object_get(json, "encoder") != NULL;
        HRF_TRY(hrf_json_get_text(json, card->is_of_encoder ? "encoder" : "features", path, &origin,
                                  err));
        card->origin = card->is_of_encoder ? hrf_format("model_sha256=%.12s", origin)
                                           : hrf_strdup(origin);
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
    const bool is_same = card->origin == NULL ||
                         (card->is_of_encoder ? strstr(facts.origin, card->origin) != NULL
                                              : hrf_bag_same_origin(card->origin, facts.origin,
                                                                    use->any_precision));
    if (use->may_mix || is_same)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "the features of '%s' were made by something else (%s) than those that "
                         "the head was trained on (%s): %s",
                         slide, hrf_bag_origin_shown(facts.origin),
                         hrf_bag_origin_shown(card->origin), use->when_mixed);
}
