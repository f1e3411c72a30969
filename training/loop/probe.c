/* probe.c - see probe.h. */
#include "training/loop/probe.h"

#include "base/clock.h"
#include "base/path.h"
#include "training/cohort/checkpoint_file.h"
#include "training/loop/scorer.h"
#include "training/loop/tuned_network.h"
#include "training/probe/knn.h"
#include "training/probe/linear_fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- embeddings ---- */

static const char magic[8] = "HRFEMBD1";

static enum hrf_status make_key(const struct hrf_fine_tuning *t, char key[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, t->version);
    hrf_hash_text(hash, t->model_sha256);
    hrf_hash_text(hash, t->device);
    hrf_hash_int(hash, t->form.preparation.size);
    hrf_hash_int(hash, t->form.preparation.resize);
    hrf_hash_int(hash, (int64_t)t->form.preparation.interpolation);
    for (int c = 0; c < 3; c++) {
        hrf_hash_double(hash, t->form.mean[c]);
        hrf_hash_double(hash, t->form.std[c]);
    }
    for (size_t i = 0; i < t->list->set.n_items; i++)
        hrf_hash_text(hash, t->list->items[i].sha256);
    hrf_hash_hex(hash, key);
    return HRF_OK;
}

static enum hrf_status compute(const struct hrf_fine_tuning *t, float *embeddings,
                               struct hrf_error *err)
{
    const size_t n = t->list->set.n_items;
    const double begin = hrf_clock_seconds();
    HRF_AUTO(hrf_graph) shaped = NULL;
    HRF_AUTO_FREE int64_t *order = hrf_alloc_array(n + 1, sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (int64_t)i;
    HRF_TRY(hrf_tuned_network_shape(t, t->graph, &shaped, err));
    struct hrf_scorer_vectors vectors = { embeddings, t->width };
    HRF_TRY(hrf_scorer_outputs(t, shaped, order, (int64_t)n, t->width, "none", 0,
                               hrf_scorer_take_vector, &vectors, err));
    for (size_t i = 0; i < n * t->width; i++)
        if (!isfinite(embeddings[i]))
            return hrf_error_set(err, HRF_E_USER, "the embedding of '%s' is not finite",
                                 t->list->items[i / t->width].name);
    fprintf(stderr, "embeddings of %zu pictures, %zu numbers each: %.3g pictures/s\n", n, t->width,
            (double)n / (hrf_clock_seconds() - begin));
    return HRF_OK;
}

enum hrf_status hrf_probe_embed(struct hrf_fine_tuning *t, const char *out, struct hrf_error *err)
{
    char key[HRF_HASH_HEX];
    char *bytes = NULL;
    size_t n_read = 0;
    const size_t n_bytes = t->list->set.n_items * t->width * sizeof *t->embeddings;
    HRF_AUTO_FREE char *path = hrf_path_join(out, "embeddings.bin");
    HRF_TRY(make_key(t, key, err));
    if (hrf_checkpoint_file_read(path, magic, key, n_bytes, &bytes, &n_read) && n_read == n_bytes) {
        t->embeddings = (float *)(void *)bytes;
        return HRF_OK;
    }
    hrf_free(bytes);
    t->embeddings = hrf_try_alloc(n_bytes + 1);
    HRF_CHECK_MEMORY(t->embeddings != NULL, err, "no memory for %zu embeddings of %zu numbers",
                     t->list->set.n_items, t->width);
    HRF_TRY(compute(t, t->embeddings, err));
    const struct hrf_checkpoint_part part = { t->embeddings, n_bytes };
    return hrf_checkpoint_file_write(path, NULL, magic, key, &part, 1, err);
}

/* ---- which train, and which are scored ---- */

struct rows {
    const float **trained, **truths, **asked; /* embeddings and truths; heap */
    float **scores;                           /* of `asked` */
    float *numbers;                           /* of truths */
    size_t n, n_asked;
};

static void rows_release(struct rows *rows)
{
    hrf_free(rows->trained);
    hrf_free(rows->truths);
    hrf_free(rows->asked);
    hrf_free(rows->scores);
    hrf_free(rows->numbers);
}

static void gather(const struct hrf_fine_tuning *t, const enum hrf_training_part *parts,
                   float *scores, struct rows *out)
{
    const size_t n = t->list->set.n_items, n_classes = t->recipe->classes.n_items;
    out->trained = hrf_alloc_array(n + 1, sizeof *out->trained);
    out->truths = hrf_alloc_array(n + 1, sizeof *out->truths);
    out->asked = hrf_alloc_array(n + 1, sizeof *out->asked);
    out->scores = hrf_alloc_array(n + 1, sizeof *out->scores);
    out->numbers = hrf_alloc_array(n * n_classes + 1, sizeof *out->numbers);
    for (size_t i = 0; i < n; i++) {
        const float *row = t->embeddings + i * t->width;
        if (parts[i] != HRF_PART_TRAINING) {
            out->scores[out->n_asked] = scores + i * n_classes;
            out->asked[out->n_asked++] = row;
            continue;
        }
        float *truth = out->numbers + out->n * n_classes;
        hrf_training_set_truth(&t->list->set, i, n_classes, truth);
        out->truths[out->n] = truth;
        out->trained[out->n++] = row;
    }
}

/* ---- linear ---- */

/* As scikit-learn's class_weight "balanced": a class counts as much as every other; of several
 * labels having one as much as not having it. NULL if rows are to count alike; heap. */
static double *find_weights(const struct hrf_fine_tuning *t, const struct rows *rows)
{
    const size_t n_classes = t->recipe->classes.n_items;
    const bool is_class = t->recipe->output == HRF_LABEL_CLASS;
    size_t n_there = 0; /* classes that have pictures */
    if (t->recipe->sampling != HRF_SAMPLING_BALANCED || t->recipe->output == HRF_LABEL_NUMBERS)
        return NULL;
    double *weights = hrf_calloc(2 * n_classes, sizeof *weights);
    for (size_t i = 0; i < rows->n; i++)
        for (size_t k = 0; k < n_classes; k++)
            weights[2 * k + (rows->truths[i][k] > 0.5F)]++;
    for (size_t k = 0; k < n_classes; k++)
        n_there += weights[2 * k + 1] > 0;
    const double groups = is_class ? (double)n_there : 2;
    for (size_t i = 0; i < 2 * n_classes; i++)
        weights[i] = weights[i] > 0 ? (double)rows->n / (groups * weights[i]) : 0;
    return weights;
}

enum hrf_status hrf_probe_linear(const struct hrf_fine_tuning *t,
                                 const enum hrf_training_part *parts, double **weights,
                                 int64_t *n_steps, float *scores, struct hrf_error *err)
{
    const size_t n_classes = t->recipe->classes.n_items;
    HRF_AUTO_RELEASE(rows) rows = { .n = 0 };
    gather(t, parts, scores, &rows);
    HRF_AUTO_FREE double *class_weights = find_weights(t, &rows);
    HRF_AUTO_FREE double *found = hrf_calloc(n_classes * (t->width + 1), sizeof *found);
    const struct hrf_linear_problem problem = {
        .kind = t->recipe->output,
        .rows = rows.trained,
        .truths = rows.truths,
        .class_weights = class_weights,
        .n = rows.n,
        .width = t->width,
        .n_classes = n_classes,
        .cost = t->recipe->cost > 0 ? t->recipe->cost : (double)t->width * (double)n_classes / 100
    };
    HRF_TRY(hrf_linear_fit(&problem, found, n_steps, err));
    if (*n_steps == HRF_LINEAR_MOST_STEPS)
        fprintf(stderr,
                "the linear model is not at its minimum after %d steps; a smaller "
                "train.cost helps\n",
                (int)HRF_LINEAR_MOST_STEPS);
    for (size_t i = 0; i < rows.n_asked; i++)
        hrf_linear_score(problem.kind, found, rows.asked[i], t->width, n_classes, rows.scores[i]);
    HRF_MOVE(*weights, found);
    return HRF_OK;
}

enum hrf_status hrf_probe_neighbours(const struct hrf_fine_tuning *t,
                                     const enum hrf_training_part *parts, float *scores,
                                     struct hrf_error *err)
{
    HRF_AUTO_RELEASE(rows) rows = { .n = 0 };
    gather(t, parts, scores, &rows);
    if (rows.n < (size_t)t->recipe->neighbours)
        return hrf_error_set(err, HRF_E_USER,
                             "train.neighbours is %lld, and %zu pictures are for training",
                             (long long)t->recipe->neighbours, rows.n);
    hrf_knn_score(rows.trained, rows.truths, rows.n, t->width, t->recipe->classes.n_items,
                  (size_t)t->recipe->neighbours, rows.asked, rows.n_asked, rows.scores);
    return HRF_OK;
}
