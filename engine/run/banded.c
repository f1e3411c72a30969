/* banded.c - runs a network in bands (row tiles): sessions, line cache and reuse of bands of one
 * colour (banded.h). */
#include "engine/run/banded.h"

#include "engine/backend/backend.h"
#include "engine/plan/line_cache.h"

#include <stdio.h>
#include <string.h>

/* Bands whose graphs are alike. */
struct kind {
    struct hrf_peers peers; /* without a comm: it only cuts rows out of own tensors */
    struct hrf_session *session;
    float pixel[4];         /* the colour of the band whose results are kept */
    unsigned char *results; /* The values that the bands pass on to the tail; NULL: none yet. */
    int32_t result_band;    /* the band that gave these results */
};

enum { MAX_CHANNELS = 4 };

struct hrf_banded {
    struct hrf_halves halves;
    struct hrf_partition *partition;
    struct hrf_session *tail;
    struct kind *kinds; /* [n_kinds] */
    int32_t n_kinds;
    int32_t *kind_of;        /* [bands] */
    int32_t *first_of;       /* [n_kinds] the band whose graph each kind uses */
    void *arena, *workspace; /* of the band that runs */
    void *line_cache;        /* rows that bands keep for later ones */
    struct hrf_session_memory memory;
    struct hrf_bands_plan plan;
    /* For a line cache, both [bands]: the first row of the image that a band depends on, and the
     * first of the bands before it that all have inputs of the same form. */
    int64_t *reach;
    int32_t *first_alike;
    int32_t cache_of;    /* the band that filled the line cache last; -1: none */
    int64_t one_from;    /* all rows from this one to the last row read have one colour ... */
    float one_colour[4]; /* ... this one */
    int64_t n_constant;
    double operations;
    struct hrf_strbuf notes;
};

void hrf_banded_destroy(struct hrf_banded *b)
{
    if (b == NULL)
        return;
    if (b->n_kinds > 0) { /* the arena belongs to them */
        hrf_session_free(b->kinds[0].session, b->arena);
        hrf_session_free(b->kinds[0].session, b->workspace);
        hrf_session_free(b->kinds[0].session, b->line_cache);
    }
    for (int32_t i = 0; i < b->n_kinds; i++) {
        hrf_session_destroy(b->kinds[i].session);
        hrf_peers_release(&b->kinds[i].peers);
        hrf_free(b->kinds[i].results);
    }
    hrf_free(b->kinds);
    hrf_free(b->kind_of);
    hrf_free(b->reach);
    hrf_free(b->first_alike);
    hrf_session_destroy(b->tail);
    hrf_partition_destroy(b->partition);
    hrf_halves_release(&b->halves);
    hrf_strbuf_release(&b->notes);
    hrf_free(b);
}

/* ---- making one ---- */

static void find_kinds(struct hrf_banded *b)
{
    const size_t n = (size_t)b->plan.n_bands;
    b->kinds = hrf_calloc(n, sizeof *b->kinds);
    b->kind_of = hrf_calloc(2 * n, sizeof *b->kind_of);
    b->first_of = b->kind_of + n;
    hrf_bands_find_kinds(b->partition, b->kind_of, b->first_of, &b->n_kinds);
}

/* With a line cache a band depends on more rows of the image than it is fed. */
static void find_reaches(struct hrf_banded *b)
{
    const struct hrf_partition *p = b->partition;
    const size_t n_values = (size_t)p->graph->n_values;
    HRF_AUTO_FREE struct hrf_box *boxes = hrf_calloc(2 * n_values + 1, sizeof *boxes);
    b->reach = hrf_calloc((size_t)p->n_ranks, sizeof *b->reach);
    b->first_alike = hrf_calloc((size_t)p->n_ranks, sizeof *b->first_alike);
    for (int32_t band = 0; band < p->n_ranks; band++) {
        struct hrf_box *mine = boxes + (band % 2 == 0 ? 0 : n_values);
        const struct hrf_box *before = boxes + (band % 2 == 0 ? n_values : 0);
        hrf_line_cache_reach(p, band, mine);
        b->reach[band] = mine[p->graph->inputs[0]].lo[0];
        const bool is_alike = band > 0 && b->kind_of[band] == b->kind_of[band - 1] &&
                              hrf_line_cache_reach_alike(p, before, mine);
        b->first_alike[band] = is_alike ? b->first_alike[band - 1] : band;
    }
}

static void take_memory(struct hrf_session_memory *sum, const struct hrf_session *session)
{
    const struct hrf_session_memory m = hrf_session_memory(session);
    sum->weight_bytes += m.weight_bytes;
    if (m.activation_bytes > sum->activation_bytes)
        sum->activation_bytes = m.activation_bytes;
    if (m.workspace_bytes > sum->workspace_bytes)
        sum->workspace_bytes = m.workspace_bytes;
}

static enum hrf_status build_kinds(struct hrf_banded *b, const struct hrf_session_config *config,
                                   struct hrf_error *err)
{
    struct hrf_session_config lent = *config;
    lent.is_lent = true;
    lent.memory_limit_bytes = 0; /* The caller checks the limit, which is for the whole network. */
    for (int32_t k = 0; k < b->n_kinds; k++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        struct hrf_peers *peers = &b->kinds[k].peers;
        HRF_TRY(hrf_peers_init(peers, b->partition, NULL, b->first_of[k], 0, false, err));
        HRF_TRY(hrf_bands_graph(b->partition, &b->halves, peers->rank, &graph, &peers->map, err));
        HRF_TRY(hrf_session_create_prepared(&graph, &lent, peers, &b->kinds[k].session, err));
        take_memory(&b->memory, b->kinds[k].session);
    }
    struct hrf_session *owner = b->kinds[0].session;
    HRF_TRY(hrf_session_allocate(owner, b->memory.activation_bytes, &b->arena, err));
    HRF_TRY(hrf_session_allocate(owner, b->memory.workspace_bytes, &b->workspace, err));
    HRF_TRY(hrf_session_allocate(owner, b->partition->line_cache_bytes, &b->line_cache, err));
    for (int32_t k = 0; k < b->n_kinds; k++) {
        hrf_session_lend(b->kinds[k].session, b->arena, b->workspace);
        b->kinds[k].peers.memory[HRF_MEMORY_LINE_CACHE] = b->line_cache;
    }
    b->memory.activation_bytes += b->partition->line_cache_bytes;
    return HRF_OK;
}

static enum hrf_status build(struct hrf_banded *b, const struct hrf_graph *prepared,
                             const struct hrf_session_config *config, struct hrf_error *err)
{
    struct hrf_session_config whole = *config;
    HRF_AUTO(hrf_graph) tail = NULL;
    HRF_TRY(hrf_halves_create(prepared, b->plan.cut, false, &b->halves, err));
    HRF_TRY(
        hrf_bands_partition(b->halves.head, b->plan.n_bands, b->plan.keeps, &b->partition, err));
    find_kinds(b);
    if (b->plan.keeps)
        find_reaches(b);
    HRF_TRY(build_kinds(b, config, err));
    tail = b->halves.tail;
    b->halves.tail = NULL;
    whole.memory_limit_bytes = 0;
    HRF_TRY(hrf_session_create_prepared(&tail, &whole, NULL, &b->tail, err));
    const struct hrf_session_memory m = hrf_session_memory(b->tail);
    b->memory.activation_bytes += m.activation_bytes;
    b->memory.weight_bytes += m.weight_bytes;
    b->memory.workspace_bytes += m.workspace_bytes;
    return HRF_OK;
}

static enum hrf_status create(const struct hrf_graph *prepared,
                              const struct hrf_session_config *config,
                              const struct hrf_bands_plan *plan, struct hrf_banded **out,
                              struct hrf_error *err)
{
    HRF_AUTO(hrf_banded) b = hrf_calloc(1, sizeof *b);
    b->notes = (struct hrf_strbuf)HRF_STRBUF_INIT;
    b->plan = *plan;
    HRF_TRY(build(b, prepared, config, err));
    HRF_MOVE(*out, b);
    return HRF_OK;
}

struct fitting {
    const struct hrf_graph *prepared;
    const struct hrf_session_config *config;
    struct hrf_banded *built;
};

/* Measures a plan by building it, because packed weights and workspace are not known before. */
static enum hrf_status measure(void *context, const struct hrf_bands_plan *plan,
                               struct hrf_bands_memory *out, struct hrf_error *err)
{
    struct fitting *f = context;
    hrf_banded_destroy(
        f->built); /* The earlier attempt is freed first, because memory may not hold two. */
    f->built = NULL;
    HRF_TRY(create(f->prepared, f->config, plan, &f->built, err));
    const struct hrf_session_memory *m = &f->built->memory;
    *out = (struct hrf_bands_memory){ m->activation_bytes, m->weight_bytes, m->workspace_bytes,
                                      f->built->n_kinds };
    return HRF_OK;
}

static enum hrf_status fit(const struct hrf_graph *prepared,
                           const struct hrf_session_config *config,
                           const struct hrf_banded_options *options, struct hrf_banded **out,
                           struct hrf_error *err)
{
    const struct hrf_bands_options all = {
        .limit_bytes = config->memory_limit_bytes,
        .n_bands = options->n_bands,
        .rows = options->rows,
        .costs = config->cutting != NULL ? config->cutting->costs : NULL,
    };
    struct fitting f = { prepared, config, NULL };
    const enum hrf_status status = hrf_bands_fit(prepared, &all, measure, &f, err);
    if (status == HRF_OK)
        *out = f.built;
    else
        hrf_banded_destroy(f.built);
    return status;
}

enum hrf_status hrf_banded_create(const struct hrf_graph *graph,
                                  const struct hrf_session_config *config,
                                  const struct hrf_banded_options *options, struct hrf_banded **out,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    double operations;
    if (graph->values[graph->outputs[0]].is_batch_sum)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "gradients are not computed in bands of rows: give {engine.memory} "
                             "more, divide images by spatial= or the batch by data=, or use a "
                             "smaller batch");
    if (graph->n_inputs != 1)
        return hrf_error_set(
            err, HRF_E_UNSUPPORTED,
            "the model has %d inputs, and only models of one are computed in bands "
            "of rows: give {engine.memory} more, or use a smaller batch",
            graph->n_inputs);
    HRF_TRY(hrf_session_prepare(graph, config, &prepared, &operations, &notes, err));
    HRF_TRY(fit(prepared, config, options, out, err));
    (*out)->operations = operations;
    (*out)->notes = notes;
    notes = (struct hrf_strbuf)HRF_STRBUF_INIT;
    return HRF_OK;
}

/* ---- running ---- */

/* True if all pixels are equal, as in the background. */
static bool is_constant(const float *x, int64_t n_pixels, int64_t channels)
{
    return n_pixels < 2 ||
           memcmp(x, x + channels, (size_t)((n_pixels - 1) * channels) * sizeof *x) == 0;
}

/* Copies a band's part of a crossing value to the tail's input. */
static void copy_band(const struct hrf_banded *b, int32_t crossing, int32_t band, const void *part)
{
    const struct hrf_crossing *x = &b->halves.crossings[crossing];
    const struct hrf_value *v = &b->halves.head->values[x->in_head];
    const struct hrf_box *box = hrf_partition_box(b->partition, x->in_head, band);
    void *to = hrf_session_input(b->tail, crossing);
    if (x->is_summed) {
        const int64_t n = v->shape.dims[0] * v->shape.dims[1];
        const bool is_integer = hrf_region_sum_type(v->dtype) == HRF_S32;
        for (int64_t i = 0; i < n && is_integer; i++)
            ((int32_t *)to)[i] += ((const int32_t *)part)[i];
        for (int64_t i = 0; i < n && !is_integer; i++)
            ((double *)to)[i] += ((const double *)part)[i];
        return;
    }
    const size_t row = (size_t)(v->shape.dims[3] * v->shape.dims[1]) * hrf_dtype_size(v->dtype);
    const size_t n_rows = (size_t)(box->hi[0] - box->lo[0]);
    for (int64_t image = 0; image < v->shape.dims[0]; image++)
        memcpy((char *)to + ((size_t)(image * v->shape.dims[2] + box->lo[0])) * row,
               (const char *)part + (size_t)image * n_rows * row, n_rows * row);
}

static size_t part_bytes(const struct hrf_banded *b, int32_t crossing, int32_t band)
{
    const struct hrf_crossing *x = &b->halves.crossings[crossing];
    const struct hrf_value *v = &b->halves.head->values[x->in_head];
    const struct hrf_box *box = hrf_partition_box(b->partition, x->in_head, band);
    const struct hrf_shape part = hrf_box_shape(&v->shape, box);
    if (x->is_summed)
        return (size_t)(v->shape.dims[0] * v->shape.dims[1]) *
               hrf_dtype_size(hrf_region_sum_type(v->dtype));
    return (size_t)hrf_shape_count(&part) * hrf_dtype_size(v->dtype);
}

/* Copies the values that this band passes on, either from the session or from the stored results of
 * an equal band. */
static void place_all(const struct hrf_banded *b, int32_t band, const unsigned char *kept)
{
    const struct kind *kind = &b->kinds[b->kind_of[band]];
    for (int32_t i = 0, at = 0; i < b->halves.n_crossings; i++) {
        const struct hrf_box *box = hrf_partition_box(b->partition, b->halves.crossings[i].in_head,
                                                      band);
        if (hrf_box_is_empty(box))
            continue;
        copy_band(b, i, band,
                  kept != NULL ? (const void *)kept : hrf_session_output(kind->session, at));
        kept = kept != NULL ? kept + part_bytes(b, i, band) : NULL;
        at++;
    }
}

/* Stores the results of a band of one colour. If memory is short nothing is stored, and later bands
 * of that colour are computed. */
static void keep_results(struct hrf_banded *b, int32_t band, const float *pixel, int64_t channels)
{
    struct kind *kind = &b->kinds[b->kind_of[band]];
    size_t n_bytes = 0;
    for (int32_t i = 0; i < b->halves.n_crossings; i++)
        n_bytes += part_bytes(b, i, band);
    hrf_free(kind->results);
    kind->results = hrf_try_alloc(n_bytes + 1);
    if (kind->results == NULL)
        return;
    memcpy(kind->pixel, pixel, (size_t)channels * sizeof *pixel);
    kind->result_band = band;
    unsigned char *to = kind->results;
    for (int32_t i = 0, at = 0; i < b->halves.n_crossings; i++) {
        const struct hrf_box *box = hrf_partition_box(b->partition, b->halves.crossings[i].in_head,
                                                      band);
        if (hrf_box_is_empty(box))
            continue;
        memcpy(to, hrf_session_output(kind->session, at++), part_bytes(b, i, band));
        to += part_bytes(b, i, band);
    }
}

/* Finds the first row of the image from which down to the band's last row all pixels are equal. */
static void look(struct hrf_banded *b, const struct hrf_box *box, const float *x, int64_t n_pixels,
                 int64_t channels)
{
    if (channels > MAX_CHANNELS || !is_constant(x, n_pixels, channels)) {
        b->one_from = box->hi[0];
        return;
    }
    if (memcmp(b->one_colour, x, (size_t)channels * sizeof *x) != 0 || b->one_from > box->lo[0])
        b->one_from = box->lo[0];
    memcpy(b->one_colour, x, (size_t)channels * sizeof *x);
}

/* True if the stored results of a band of the same colour are valid for this one. If rows are kept,
 * the kept rows must also be those that this band would leave. */
static bool is_known(const struct hrf_banded *b, int32_t band, int64_t channels)
{
    const struct kind *kind = &b->kinds[b->kind_of[band]];
    if (kind->results == NULL ||
        memcmp(kind->pixel, b->one_colour, (size_t)channels * sizeof *kind->pixel) != 0)
        return false;
    return !b->plan.keeps ||
           (b->cache_of == kind->result_band && kind->result_band >= b->first_alike[band]);
}

static enum hrf_status run_band(struct hrf_banded *b, int32_t band, hrf_source *source,
                                void *context, struct hrf_error *err)
{
    struct kind *kind = &b->kinds[b->kind_of[band]];
    const int32_t input = b->halves.head->inputs[0];
    const struct hrf_box *box = hrf_partition_box(b->partition, input, band);
    if (hrf_box_is_empty(box))
        return HRF_OK; /* there are more bands than rows, so this one is empty */
    const struct hrf_shape *shape = hrf_session_input_shape(kind->session, 0);
    const int64_t channels = shape->dims[1], n_pixels = hrf_shape_count(shape) / channels;
    float *x = hrf_session_input(kind->session, 0);
    HRF_TRY(source(context, 0, 0, shape->dims[0], box, x, err));
    look(b, box, x, n_pixels, channels);
    const bool one_colour = b->one_from <= (b->plan.keeps ? b->reach[band] : box->lo[0]);
    if (one_colour && is_known(b, band, channels)) {
        b->n_constant++;
        place_all(b, band, kind->results);
        return HRF_OK;
    }
    HRF_TRY(hrf_session_run(kind->session, err));
    b->cache_of = band;
    place_all(b, band, NULL);
    if (one_colour)
        keep_results(b, band, b->one_colour, channels);
    return HRF_OK;
}

enum hrf_status hrf_banded_run(struct hrf_banded *b, hrf_source *source, void *context,
                               struct hrf_error *err)
{
    for (int32_t i = 0; i < b->halves.n_crossings; i++)
        if (b->halves.crossings[i].is_summed)
            memset(hrf_session_input(b->tail, i), 0, part_bytes(b, i, 0));
    b->one_from = INT64_MAX;
    b->cache_of = -1;
    for (int32_t band = 0; band < b->plan.n_bands; band++)
        HRF_TRY(run_band(b, band, source, context, err));
    return hrf_session_run(b->tail, err);
}

const float *hrf_banded_output(const struct hrf_banded *b, int32_t i)
{
    return hrf_session_output(b->tail, i);
}

const struct hrf_shape *hrf_banded_output_shape(const struct hrf_banded *b, int32_t i)
{
    return hrf_session_output_shape(b->tail, i);
}

static struct hrf_device_use device_use(const struct hrf_banded *b)
{
    struct hrf_device_use use = hrf_session_device_use(b->tail);
    for (int32_t i = 0; i < b->n_kinds; i++)
        hrf_device_use_add(&use, b->kinds[i].session);
    return use;
}

struct hrf_banded_facts hrf_banded_facts(const struct hrf_banded *b)
{
    return (struct hrf_banded_facts){ .plan = b->plan,
                                      .memory = b->memory,
                                      .n_constant = b->n_constant,
                                      .operations = b->operations,
                                      .device = device_use(b),
                                      .notes = b->notes.text };
}

void hrf_banded_text(const struct hrf_banded *b, int64_t n_before, char out[HRF_BANDED_TEXT])
{
    const long long n = (long long)(b->n_constant - n_before);
    hrf_bands_text(&b->plan, out);
    const size_t at = strlen(out);
    if (n > 0)
        snprintf(out + at, HRF_BANDED_TEXT - at, ", %lld not computed again (one colour)", n);
}
