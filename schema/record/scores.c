/* scores.c - the record of an infer task: probabilities or the name of the file of embeddings,
 * timing, traffic, hardware (scores.h). */
#include "schema/record/scores.h"

#include <stdio.h>
#include <string.h>

bool hrf_scores_next_note(const char **at, char line[HRF_SCORES_NOTES])
{
    *at += strspn(*at, "\n");
    const int n = (int)strcspn(*at, "\n");
    snprintf(line, HRF_SCORES_NOTES, "%.*s", n, *at);
    *at += n;
    return n > 0;
}

uint64_t hrf_embedding_sum(const float *row, int64_t width)
{
    const uint64_t sum = hrf_hash_fnv(row, (size_t)width * sizeof *row);
    return sum != 0 ? sum : 1;
}

void hrf_timing_add(struct hrf_timing *sum, const struct hrf_timing *part)
{
    sum->build += part->build;
    sum->decode += part->decode;
    sum->prepare += part->prepare;
    sum->compute += part->compute;
    sum->copy += part->copy;
    sum->kernels += part->kernels;
    sum->wait += part->wait;
    sum->write += part->write;
    sum->total += part->total;
    sum->reads += part->reads;
    sum->fed += part->fed;
}

void hrf_traffics_add(struct hrf_traffics *sum, const struct hrf_traffics *part)
{
    if (sum->transport[0] == '\0')
        memcpy(sum->transport, part->transport, sizeof sum->transport);
    else if (part->transport[0] != '\0' && strcmp(sum->transport, part->transport) != 0)
        snprintf(sum->transport, sizeof sum->transport, "several");
    for (int32_t i = 0; i < part->n_items; i++) {
        const struct hrf_traffic *from = &part->items[i];
        int32_t at = 0;
        while (at < sum->n_items && strcmp(sum->items[at].operation, from->operation) != 0)
            at++;
        if (at == HRF_MAX_TRAFFIC)
            return;
        struct hrf_traffic *to = &sum->items[at];
        if (at == sum->n_items) {
            sum->n_items++;
            *to = *from;
            continue;
        }
        to->messages += from->messages;
        to->bytes += from->bytes;
        to->sending += from->sending;
        to->receiving += from->receiving;
    }
}

/* ---- its header ---- */

static const struct hrf_field traffic_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_traffic, #name, name, HRF_FIELD_##type)
    FIELD(operation, NOTE), FIELD(messages, INT),   FIELD(bytes, INT),
    FIELD(sending, REAL),   FIELD(receiving, REAL),
#undef FIELD
};

static const struct hrf_field traffics_fields[] = {
    HRF_FIELD(struct hrf_traffics, "transport", transport, HRF_FIELD_NOTE),
    HRF_FIELD_STRUCTS(struct hrf_traffics, "operations", items, n_items, HRF_FIELD_FEW,
                      traffic_fields),
};

static const struct hrf_field timing_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_timing, #name, name, HRF_FIELD_##type)
    FIELD(build, REAL),  FIELD(decode, REAL),    FIELD(prepare, REAL), FIELD(compute, REAL),
    FIELD(copy, NUMBER), FIELD(kernels, NUMBER), FIELD(wait, REAL),    FIELD(write, REAL),
    FIELD(total, REAL),  FIELD(reads, REAL),     FIELD(fed, NUMBER),
#undef FIELD
};

static const struct hrf_field hardware_fields[] = {
#define FIELD(name) HRF_FIELD(struct hrf_hardware, #name, name, HRF_FIELD_NOTE)
    FIELD(model), FIELD(path), FIELD(driver), FIELD(libraries)
#undef FIELD
};

static const struct hrf_field class_map_fields[] = {
#define FIELD(name) HRF_FIELD(struct hrf_class_map, #name, name, HRF_FIELD_INT32)
    FIELD(class_index), FIELD(rows), FIELD(columns)
#undef FIELD
};

static const struct hrf_field embeddings_fields[] = {
    HRF_FIELD(struct hrf_embeddings_mark, "is_set", is_set, HRF_FIELD_BOOL),
    HRF_FIELD(struct hrf_embeddings_mark, "sha256", sha256, HRF_FIELD_HASH),
};

static const struct hrf_field fields[] = {
#define FIELD(name, type)   HRF_FIELD(struct hrf_scores, #name, name, HRF_FIELD_##type)
#define STRUCT(name, table) HRF_FIELD_STRUCT(struct hrf_scores, #name, name, table)
    FIELD(precision, TEXT),
    FIELD(device, TEXT),
    FIELD(host, TEXT),
    FIELD(decoder, NOTE),
    FIELD(notes, NOTE),
    FIELD(first_patch, INT),
    FIELD(n_patches, INT),
    FIELD(n_classes, INT32),
    FIELD(peak_memory_bytes, INT),
    FIELD(peak_process_bytes, INT),
    FIELD(device_memory_bytes, INT),
    FIELD(energy_joules, NUMBER),
    FIELD(gpu_energy_joules, NUMBER),
    FIELD(n_threads, INT32),
    FIELD(n_readers, INT32),
    STRUCT(hardware, hardware_fields),
    STRUCT(timing, timing_fields),
    STRUCT(traffic, traffics_fields),
    STRUCT(class_map, class_map_fields),
    STRUCT(embeddings, embeddings_fields),
    HRF_FIELD(struct hrf_scores, "label_side", labels.side, HRF_FIELD_INT32),
#undef STRUCT
#undef FIELD
};

void hrf_scores_destroy(struct hrf_scores *scores)
{
    if (scores == NULL)
        return;
    hrf_fields_release(HRF_FIELDS(fields), scores);
    hrf_free(scores->probabilities);
    hrf_free(scores->class_map.values);
    hrf_label_maps_release(&scores->labels);
    hrf_free(scores->embeddings.row_sums);
    hrf_free(scores);
}

/* ---- writing ---- */

enum hrf_status hrf_scores_encode(const struct hrf_scores *scores, struct hrf_bytes *out,
                                  struct hrf_error *err)
{
    const struct hrf_class_map *map = &scores->class_map;
    const struct hrf_embeddings_mark *mark = &scores->embeddings;
    HRF_AUTO_JSON header = hrf_fields_json(HRF_FIELDS(fields), scores);
    HRF_AUTO_RELEASE(hrf_bytes) sizes = { NULL, 0 };
    HRF_AUTO_RELEASE(hrf_bytes) labels = { NULL, 0 };
    struct hrf_section sections[HRF_RECORD_MAX_SECTIONS];
    size_t n = 0;
    if (!mark->is_set)
        sections[n++] = (struct hrf_section){ "probabilities", scores->probabilities,
                                              (size_t)(scores->n_patches * scores->n_classes) *
                                                  sizeof scores->probabilities[0] };
    else if (mark->row_sums != NULL)
        sections[n++] = (struct hrf_section){
            "rows", mark->row_sums, (size_t)scores->n_patches * sizeof mark->row_sums[0]
        };
    if (scores->labels.side > 0) {
        HRF_TRY(hrf_label_maps_encode(&scores->labels, &sizes, &labels, err));
        sections[n++] = (struct hrf_section){ "label_sizes", sizes.data, sizes.n_bytes };
        sections[n++] = (struct hrf_section){ "labels", labels.data, labels.n_bytes };
    }
    if (map->values != NULL)
        sections[n++] = (struct hrf_section){ "class_map", map->values,
                                              (size_t)map->rows * (size_t)map->columns *
                                                  sizeof map->values[0] };
    return hrf_container_encode(HRF_SCORES_KIND, &scores->identity, header, sections, n, out, err);
}

/* ---- reading ---- */

enum { MAX_MAP_SIDE = 1 << 15 };

/* Scores of patches have none. */
static enum hrf_status read_class_map(const struct hrf_container *container, int64_t n_classes,
                                      struct hrf_class_map *map, struct hrf_error *err)
{
    if (map->rows == 0 && map->columns == 0)
        return HRF_OK;
    if (map->class_index < 0 || map->class_index >= n_classes || map->rows < 1 ||
        map->rows > MAX_MAP_SIDE || map->columns < 1 || map->columns > MAX_MAP_SIDE)
        return hrf_error_set(err, HRF_E_USER, "%s: it claims a class map of %d x %d for class %d",
                             container->where, map->rows, map->columns, map->class_index);
    return hrf_container_copy(container, "class_map",
                              (size_t)map->rows * (size_t)map->columns * sizeof map->values[0],
                              &map->values, err);
}

/* Only those of segmentation networks have any. */
static enum hrf_status read_labels(const struct hrf_container *container, struct hrf_scores *scores,
                                   struct hrf_error *err)
{
    const int32_t side = scores->labels.side;
    struct hrf_section sizes, bytes;
    if (side == 0)
        return HRF_OK;
    if (side < 1 || side > HRF_MAX_LABEL_SIDE || scores->n_classes > HRF_MAX_LABEL_CLASSES)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it claims label maps of %d x %d px and %d classes",
                             container->where, side, side, scores->n_classes);
    HRF_TRY(hrf_container_section(container, "label_sizes", SIZE_MAX, &sizes, err));
    HRF_TRY(hrf_container_section(container, "labels", SIZE_MAX, &bytes, err));
    return hrf_label_maps_decode(&sizes, &bytes, side, scores->n_patches, container->where,
                                 &scores->labels, err);
}

static enum hrf_status read_sections(const struct hrf_container *container,
                                     struct hrf_scores *scores, struct hrf_error *err)
{
    struct hrf_embeddings_mark *mark = &scores->embeddings;
    if (scores->first_patch < 0 || scores->n_patches < 0 || scores->n_patches > INT32_MAX ||
        scores->n_classes < 1 || scores->n_classes > 1 << 16)
        return hrf_error_set(err, HRF_E_USER, "%s: it claims %lld patches of %d classes",
                             container->where, (long long)scores->n_patches, scores->n_classes);
    if (!mark->is_set)
        HRF_TRY(hrf_container_copy(container, "probabilities",
                                   (size_t)(scores->n_patches * scores->n_classes) *
                                       sizeof scores->probabilities[0],
                                   &scores->probabilities, err));
    else if (mark->sha256[0] == '\0') /* a part: it has the sums of its rows instead */
        HRF_TRY(hrf_container_copy(container, "rows",
                                   (size_t)scores->n_patches * sizeof mark->row_sums[0],
                                   &mark->row_sums, err));
    HRF_TRY(read_labels(container, scores, err));
    return read_class_map(container, scores->n_classes, &scores->class_map, err);
}

enum hrf_status hrf_scores_decode(const void *bytes, size_t n_bytes,
                                  const struct hrf_record_identity *expected, const char *where,
                                  struct hrf_scores **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    HRF_AUTO(hrf_scores) scores = hrf_calloc(1, sizeof *scores);
    HRF_TRY(
        hrf_container_decode(bytes, n_bytes, HRF_SCORES_KIND, expected, where, &container, err));
    scores->identity = container.identity;
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), container.header, where, scores, err));
    HRF_TRY(read_sections(&container, scores, err));
    HRF_MOVE(*out, scores);
    return HRF_OK;
}

enum hrf_status hrf_scores_read_timing(const void *bytes, size_t n_bytes, const char *where,
                                       struct hrf_timing *out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    json_t *timing;
    HRF_TRY(hrf_container_decode(bytes, n_bytes, HRF_SCORES_KIND, NULL, where, &container, err));
    HRF_TRY(hrf_json_get_object(container.header, "timing", where, &timing, err));
    return hrf_fields_read(HRF_FIELDS(timing_fields), timing, where, out, err);
}

bool hrf_scores_name_embeddings(const void *bytes, size_t n_bytes)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    if (hrf_container_decode(bytes, n_bytes, HRF_SCORES_KIND, NULL, "scores", &container, NULL) !=
        HRF_OK)
        return false;
    return json_is_true(json_object_get(json_object_get(container.header, "embeddings"), "is_set"));
}
