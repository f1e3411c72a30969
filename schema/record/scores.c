/* scores.c - the record of an infer task: probabilities or the name of the file of embeddings,
 * timing, traffic, hardware (scores.h). */
#include "schema/record/scores.h"

#include "schema/record/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Version 3: embeddings in a file of their own. Other records are still of version 2. */
enum { VERSION = 2, WITH_EMBEDDINGS = 3 };

bool hrf_scores_next_note(const char **at, char line[HRF_SCORES_NOTES])
{
    *at += strspn(*at, "\n");
    const int n = (int)strcspn(*at, "\n");
    snprintf(line, HRF_SCORES_NOTES, "%.*s", n, *at);
    *at += n;
    return n > 0;
}

void hrf_scores_destroy(struct hrf_scores *scores)
{
    if (scores == NULL)
        return;
    hrf_free(scores->precision);
    hrf_free(scores->device);
    hrf_free(scores->host);
    hrf_free(scores->probabilities);
    hrf_free(scores->class_map.values);
    hrf_label_maps_release(&scores->labels);
    hrf_free(scores->embeddings.row_sums);
    hrf_free(scores);
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

static const struct hrf_field traffic_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_traffic, #name, name, HRF_FIELD_##type)
    FIELD(operation, NOTE), FIELD(messages, INT),   FIELD(bytes, INT),
    FIELD(sending, REAL),   FIELD(receiving, REAL),
#undef FIELD
};

static json_t *traffic_json(const struct hrf_traffics *traffic)
{
    json_t *items = json_array();
    for (int32_t i = 0; i < traffic->n_items; i++)
        json_array_append_new(items,
                              hrf_fields_json(HRF_FIELDS(traffic_fields), &traffic->items[i], 0));
    return json_pack("{ssso}", "carrier", traffic->transport, "operations", items);
}

static const struct hrf_field timing_fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_timing, #name, name, HRF_FIELD_##type)
    FIELD(build, REAL),     FIELD(decode, REAL),  FIELD(prepare, REAL),
    FIELD(compute, REAL),   FIELD(copy, NUMBER), /* not in records of earlier versions */
    FIELD(kernels, NUMBER), FIELD(wait, REAL),    FIELD(write, REAL),
    FIELD(total, REAL),     FIELD(reads, NUMBER), /* likewise */
    FIELD(fed, NUMBER),
#undef FIELD
};

static const struct hrf_field fields[] = {
#define FIELD(name, type) HRF_FIELD(struct hrf_scores, #name, name, HRF_FIELD_##type)
    FIELD(precision, TEXT),
    FIELD(device, TEXT),
    FIELD(host, TEXT),
    FIELD(first_patch, INT),
    FIELD(n_patches, INT),
    FIELD(n_classes, INT32),
    FIELD(peak_memory_bytes, INT),
    FIELD(energy_joules, NUMBER),
    FIELD(gpu_energy_joules, NUMBER),
    FIELD(n_threads, INT32),
    FIELD(n_readers, INT32),
#undef FIELD
    HRF_FIELD_NEW(struct hrf_scores, "peak_process_bytes", peak_process_bytes, HRF_FIELD_INT),
    HRF_FIELD_NEW(struct hrf_scores, "device_memory_bytes", device_memory_bytes, HRF_FIELD_INT),
    HRF_FIELD_NEW(struct hrf_scores, "notes", notes, HRF_FIELD_NOTE),
    HRF_FIELD_NEW(struct hrf_scores, "decoder", decoder, HRF_FIELD_NOTE),
};

static json_t *hardware_json(const struct hrf_hardware *hardware)
{
    return json_pack("{sosososo}", "model", hrf_json_bytes(hardware->model), "path",
                     hrf_json_bytes(hardware->path), "driver", hrf_json_bytes(hardware->driver),
                     "libraries", hrf_json_bytes(hardware->libraries));
}

/* Of a segmentation network. */
static enum hrf_status encode_with_labels(const struct hrf_scores *scores, json_t *header,
                                          const struct hrf_section *probabilities,
                                          struct hrf_bytes *out, struct hrf_error *err)
{
    struct hrf_bytes sizes = { NULL, 0 }, bytes = { NULL, 0 };
    if (json_object_set_new(header, "label_side", json_integer(scores->labels.side)) != 0)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for scores");
    HRF_TRY(hrf_label_maps_encode(&scores->labels, &sizes, &bytes, err));
    const struct hrf_section sections[] = { *probabilities,
                                            { "label_sizes", sizes.data, sizes.n_bytes },
                                            { "labels", bytes.data, bytes.n_bytes } };
    const enum hrf_status status = hrf_container_encode(HRF_SCORES_KIND, VERSION, &scores->identity,
                                                        header, sections, 3, out, err);
    hrf_bytes_release(&sizes);
    hrf_bytes_release(&bytes);
    return status;
}

static enum hrf_status encode_numbers(const struct hrf_scores *scores, json_t *header,
                                      struct hrf_bytes *out, struct hrf_error *err)
{
    const struct hrf_class_map *map = &scores->class_map;
    const struct hrf_section sections[] = {
        { "probabilities", scores->probabilities,
          (size_t)(scores->n_patches * scores->n_classes) * sizeof scores->probabilities[0] },
        { "class_map", map->values,
          (size_t)map->rows * (size_t)map->columns * sizeof map->values[0] }
    };
    if (scores->labels.side > 0)
        return encode_with_labels(scores, header, &sections[0], out, err);
    if (map->values == NULL)
        return hrf_container_encode(HRF_SCORES_KIND, VERSION, &scores->identity, header, sections,
                                    1, out, err);
    json_t *shape = json_pack("{sisisi}", "class", map->class_index, "rows", map->rows, "columns",
                              map->columns);
    if (json_object_set_new(header, "class_map", shape) != 0)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for scores");
    return hrf_container_encode(HRF_SCORES_KIND, VERSION, &scores->identity, header, sections, 2,
                                out, err);
}

static enum hrf_status encode_embeddings(const struct hrf_scores *scores, json_t *header,
                                         struct hrf_bytes *out, struct hrf_error *err)
{
    const struct hrf_embeddings_mark *mark = &scores->embeddings;
    const struct hrf_section rows = { "rows", mark->row_sums,
                                      (size_t)scores->n_patches * sizeof mark->row_sums[0] };
    json_t *object = json_pack("{ss}", "sha256", mark->sha256);
    if (json_object_set_new(header, "embeddings", object) != 0)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for scores");
    return hrf_container_encode(HRF_SCORES_KIND, WITH_EMBEDDINGS, &scores->identity, header, &rows,
                                mark->row_sums != NULL, out, err);
}

enum hrf_status hrf_scores_encode(const struct hrf_scores *scores, struct hrf_bytes *out,
                                  struct hrf_error *err)
{
    HRF_AUTO_JSON header = json_pack("{sososo}", "hardware", hardware_json(&scores->hardware),
                                     "timing",
                                     hrf_fields_json(HRF_FIELDS(timing_fields), &scores->timing, 0),
                                     "traffic", traffic_json(&scores->traffic));
    if (!hrf_fields_write(HRF_FIELDS(fields), scores, header))
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for scores");
    if (header == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for scores");
    return scores->embeddings.is_set ? encode_embeddings(scores, header, out, err)
                                     : encode_numbers(scores, header, out, err);
}

static enum hrf_status read_timing(const json_t *header, const char *where,
                                   struct hrf_timing *timing, struct hrf_error *err)
{
    json_t *object;
    HRF_TRY(hrf_json_get_object(header, "timing", where, &object, err));
    return hrf_fields_read(HRF_FIELDS(timing_fields), object, where, timing, err);
}

enum { MAX_MAP_SIDE = 1 << 15 };

/* Scores of patches have none. */
static enum hrf_status read_class_map(const struct hrf_container *container, const char *where,
                                      int64_t n_classes, struct hrf_class_map *map,
                                      struct hrf_error *err)
{
    json_t *shape = json_object_get(container->header, "class_map");
    int64_t class_index, rows, columns;
    struct hrf_section section;
    if (shape == NULL)
        return HRF_OK;
    HRF_TRY(hrf_json_get_int(shape, "class", where, &class_index, err));
    HRF_TRY(hrf_json_get_int(shape, "rows", where, &rows, err));
    HRF_TRY(hrf_json_get_int(shape, "columns", where, &columns, err));
    if (class_index < 0 || class_index >= n_classes || rows < 1 || rows > MAX_MAP_SIDE ||
        columns < 1 || columns > MAX_MAP_SIDE)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it claims a class map of %lld x %lld for class %lld", where,
                             (long long)rows, (long long)columns, (long long)class_index);
    size_t n_bytes = (size_t)(rows * columns) * sizeof map->values[0];
    HRF_TRY(hrf_container_section(container, "class_map", n_bytes, where, &section, err));
    map->values = hrf_alloc(n_bytes);
    HRF_CHECK_MEMORY(map->values != NULL, err, "%s: no memory for its class map", where);
    memcpy(map->values, section.data, n_bytes);
    map->class_index = (int32_t)class_index;
    map->rows = (int32_t)rows;
    map->columns = (int32_t)columns;
    return HRF_OK;
}

/* Only those of segmentation networks have any. */
static enum hrf_status read_labels(const struct hrf_container *container, const char *where,
                                   struct hrf_scores *scores, struct hrf_error *err)
{
    int64_t side;
    struct hrf_section sizes, bytes;
    if (json_object_get(container->header, "label_side") == NULL)
        return HRF_OK;
    HRF_TRY(hrf_json_get_int(container->header, "label_side", where, &side, err));
    if (side < 1 || side > HRF_MOST_LABEL_SIDE || scores->n_classes > HRF_MOST_LABEL_CLASSES)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it claims label maps of %lld x %lld px and %d classes", where,
                             (long long)side, (long long)side, scores->n_classes);
    HRF_TRY(hrf_container_section(container, "label_sizes", SIZE_MAX, where, &sizes, err));
    HRF_TRY(hrf_container_section(container, "labels", SIZE_MAX, where, &bytes, err));
    return hrf_label_maps_decode(&sizes, &bytes, (int32_t)side, scores->n_patches, where,
                                 &scores->labels, err);
}

/* Records of earlier versions have none. */
static enum hrf_status read_traffic(const json_t *header, const char *where,
                                    struct hrf_traffics *traffic, struct hrf_error *err)
{
    const json_t *object = json_object_get(header, "traffic"), *item;
    const char *text;
    size_t i;
    if (object == NULL)
        return HRF_OK;
    HRF_TRY(hrf_json_get_text(object, "carrier", where, &text, err));
    snprintf(traffic->transport, sizeof traffic->transport, "%s", text);
    json_array_foreach(json_object_get(object, "operations"), i, item)
    {
        if (i == HRF_MAX_TRAFFIC)
            return hrf_error_set(err, HRF_E_USER, "%s: more than %d kinds of messages", where,
                                 HRF_MAX_TRAFFIC);
        HRF_TRY(hrf_fields_read(HRF_FIELDS(traffic_fields), item, where, &traffic->items[i], err));
        traffic->n_items = (int32_t)i + 1;
    }
    return HRF_OK;
}

static void read_hardware_text(const json_t *object, const char *key, char *out, size_t size)
{
    HRF_AUTO_FREE char *text = NULL;
    if (hrf_json_get_bytes(object, key, "hardware", &text, NULL) == HRF_OK && text != NULL)
        snprintf(out, size, "%s", text);
}

/* Defaults of what records of earlier versions do not have. */
static void read_hardware(const json_t *header, struct hrf_hardware *h)
{
    const json_t *hardware = json_object_get(header, "hardware");
    read_hardware_text(hardware, "model", h->model, sizeof h->model);
    read_hardware_text(hardware, "path", h->path, sizeof h->path);
    read_hardware_text(hardware, "driver", h->driver, sizeof h->driver);
    read_hardware_text(hardware, "libraries", h->libraries, sizeof h->libraries);
}

static enum hrf_status read_numbers(const struct hrf_container *container, const char *where,
                                    struct hrf_scores *scores, struct hrf_error *err)
{
    struct hrf_section section;
    const size_t n_bytes = (size_t)(scores->n_patches * scores->n_classes) *
                           sizeof scores->probabilities[0];
    HRF_TRY(hrf_container_section(container, "probabilities", n_bytes, where, &section, err));
    scores->probabilities = hrf_alloc(n_bytes);
    HRF_CHECK_MEMORY(scores->probabilities != NULL, err, "%s: no memory for %lld patches", where,
                     (long long)scores->n_patches);
    memcpy(scores->probabilities, section.data, n_bytes);
    HRF_TRY(read_labels(container, where, scores, err));
    return read_class_map(container, where, scores->n_classes, &scores->class_map, err);
}

/* A part has the sums of its rows, a complete record the hash of the file. */
static enum hrf_status read_embeddings(const struct hrf_container *container, const char *where,
                                       struct hrf_scores *scores, struct hrf_error *err)
{
    struct hrf_embeddings_mark *mark = &scores->embeddings;
    const json_t *object = json_object_get(container->header, "embeddings");
    struct hrf_section section;
    const size_t n_bytes = (size_t)scores->n_patches * sizeof mark->row_sums[0];
    HRF_TRY(hrf_json_get_hash(object, "sha256", where, mark->sha256, err));
    mark->is_set = true;
    if (mark->sha256[0] != '\0')
        return HRF_OK;
    HRF_TRY(hrf_container_section(container, "rows", n_bytes, where, &section, err));
    mark->row_sums = hrf_alloc(n_bytes + 1);
    HRF_CHECK_MEMORY(mark->row_sums != NULL, err, "%s: no memory for %lld patches", where,
                     (long long)scores->n_patches);
    memcpy(mark->row_sums, section.data, n_bytes);
    return HRF_OK;
}

static enum hrf_status decode_scores(const struct hrf_container *container, const char *where,
                                     struct hrf_scores *scores, struct hrf_error *err)
{
    const json_t *header = container->header;
    HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), header, where, scores, err));
    read_hardware(header, &scores->hardware);
    HRF_TRY(read_timing(header, where, &scores->timing, err));
    HRF_TRY(read_traffic(header, where, &scores->traffic, err));
    if (scores->first_patch < 0 || scores->n_patches < 0 || scores->n_patches > INT32_MAX ||
        scores->n_classes < 1 || scores->n_classes > 1 << 16)
        return hrf_error_set(err, HRF_E_USER, "%s: it claims %lld patches of %d classes", where,
                             (long long)scores->n_patches, scores->n_classes);
    return json_object_get(header, "embeddings") != NULL
               ? read_embeddings(container, where, scores, err)
               : read_numbers(container, where, scores, err);
}

enum hrf_status hrf_scores_decode(const void *bytes, size_t n_bytes,
                                  const struct hrf_record_identity *expected, const char *where,
                                  struct hrf_scores **out, struct hrf_error *err)
{
    struct hrf_container container;
    HRF_AUTO(hrf_scores) scores = hrf_calloc(1, sizeof *scores);
    HRF_CHECK_MEMORY(scores != NULL, err, "%s: no memory for scores", where);
    HRF_TRY(hrf_container_decode(bytes, n_bytes, HRF_SCORES_KIND, WITH_EMBEDDINGS, expected, where,
                                 &container, err));
    scores->identity = container.identity;
    enum hrf_status status = decode_scores(&container, where, scores, err);
    hrf_container_release(&container);
    HRF_TRY(status);
    HRF_MOVE(*out, scores);
    return HRF_OK;
}

enum hrf_status hrf_scores_read_timing(const void *bytes, size_t n_bytes, const char *where,
                                       struct hrf_timing *out, struct hrf_error *err)
{
    struct hrf_container container;
    HRF_TRY(hrf_container_decode(bytes, n_bytes, HRF_SCORES_KIND, WITH_EMBEDDINGS, NULL, where,
                                 &container, err));
    const enum hrf_status status = read_timing(container.header, where, out, err);
    hrf_container_release(&container);
    return status;
}

bool hrf_scores_name_embeddings(const void *bytes, size_t n_bytes)
{
    struct hrf_container container;
    if (hrf_container_decode(bytes, n_bytes, HRF_SCORES_KIND, WITH_EMBEDDINGS, NULL, "scores",
                             &container, NULL) != HRF_OK)
        return false;
    const bool is_named = json_object_get(container.header, "embeddings") != NULL;
    hrf_container_release(&container);
    return is_named;
}
