/* provenance.c - the lines of a run's provenance, from its workflow and its slides' rows. */
#include "orchestrator/run/provenance.h"

#include "base/hash.h"
#include "base/host.h"
#include "base/strbuf.h"
#include "tiler/slide/slide.h"

#include <assert.h>
#include <string.h>

enum { MAX_NAMES = 30 };

void hrf_provenance_release(struct hrf_provenance *provenance)
{
    for (size_t i = 0; i < provenance->n_items; i++)
        hrf_free(provenance->texts[i]);
    provenance->n_items = 0;
}

/* Takes `text`. */
static void add_line(struct hrf_provenance *p, const char *name, char *text)
{
    assert(p->n_items < HRF_PROVENANCE_MAX);
    p->texts[p->n_items] = text;
    p->items[p->n_items++] = (struct hrf_named_text){ name, text };
}

/* ---- slides ---- */

static char *dataset_text(const struct hrf_workflow_dataset *d)
{
    static const char *const splits[] = { "testing", "training", "all" };
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (d->layout == HRF_LAYOUT_CAMELYON16) {
        hrf_strbuf_addf(&text, "CAMELYON16 layout, %s, split %s", d->root, splits[d->split]);
    } else if (d->layout == HRF_LAYOUT_CSV) {
        hrf_strbuf_addf(&text, "%s", d->csv);
    } else {
        for (size_t i = 0; i < d->files.n_items && i < MAX_NAMES; i++)
            hrf_strbuf_addf(&text, "%s%s", i > 0 ? ", " : "", d->files.items[i]);
        if (d->files.n_items > MAX_NAMES)
            hrf_strbuf_addf(&text, " and %zu more", d->files.n_items - MAX_NAMES);
    }
    return hrf_strdup(text.text != NULL ? text.text : "");
}

static char *excluded_text(const struct hrf_slide_rows *slides)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    size_t n = 0;
    for (size_t i = 0; i < slides->n_items; i++) {
        const struct hrf_slide_row *slide = &slides->items[i];
        if (slide->state != HRF_SLIDE_EXCLUDED)
            continue;
        if (n++ < MAX_NAMES)
            hrf_strbuf_addf(&text, "%s%s (%s)", n > 1 ? ", " : "", slide->name,
                            slide->reason != NULL ? slide->reason : "dataset.exclude");
    }
    if (n > MAX_NAMES)
        hrf_strbuf_addf(&text, " and %zu more", n - MAX_NAMES);
    return hrf_strdup(n > 0 && text.text != NULL ? text.text : "none");
}

/* Computes one hash of all slides' tilings, which is equal if the same patches of the same slides
 * were scored. */
static enum hrf_status tiling_text(const struct hrf_slide_rows *slides, char **out,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    char hex[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_create(&hash, err));
    for (size_t i = 0; i < slides->n_items; i++)
        if (slides->items[i].tile_plan_hash != NULL) {
            hrf_hash_text(hash, slides->items[i].name);
            hrf_hash_text(hash, slides->items[i].tile_plan_hash);
        }
    hrf_hash_hex(hash, hex);
    *out = hrf_strdup(hex);
    return HRF_OK;
}

/* ---- patches ---- */

static char *patches_text(const struct hrf_workflow_tiler *t)
{
    if (t->coords != NULL)
        return hrf_format("chosen by another program: %s", t->coords);
    if (t->mode == HRF_TILER_SLIDE)
        return hrf_format("each slide as one image of %lld x %lld px at %g um/px",
                          (long long)t->slide.size, (long long)t->slide.size, t->slide.mpp);
    return hrf_format("%lld x %lld px at %g um/px, stride %lld px", (long long)t->patch.size,
                      (long long)t->patch.size, t->patch.mpp, (long long)t->patch.stride);
}

static void add_tiler(struct hrf_provenance *p, const struct hrf_workflow_tiler *t,
                      const char *tissue_sha256)
{
    static const char *const edges[] = { "drop: not scored",
                                         "pad: scored with white beyond the slide",
                                         "shift: scored by patches that overlap" };
    add_line(p, "patches", patches_text(t));
    add_line(p, "tissue method", hrf_strdup(hrf_tissue_method_name(t->tissue.method)));
    if (t->tissue.method == HRF_TISSUE_ONNX) {
        add_line(p, "tissue model",
                 hrf_format("%s, images of %g um/px, probability of at least %g", t->tissue.model,
                            t->tissue.mpp, t->tissue.threshold));
        add_line(p, "tissue model SHA-256", hrf_strdup(tissue_sha256 != NULL ? tissue_sha256 : ""));
    }
    add_line(p, "tissue rule",
             hrf_format("at least %g of a patch; below %lld patches of a slide a relaxed "
                        "threshold, with a warning",
                        t->tissue.min_tissue, (long long)t->tissue.min_patches));
    add_line(p, "strip at the edge", hrf_strdup(edges[t->patch.edge]));
}

/* ---- model ---- */

static char *classes_text(const struct hrf_workflow_model *model)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (model->output == HRF_OUTPUT_EMBEDDING)
        return hrf_strdup("none: the model gives embeddings");
    for (size_t i = 0; i < model->classes.n_items; i++) {
        const bool is_positive = model->positive != NULL &&
                                 strcmp(model->classes.items[i], model->positive) == 0;
        hrf_strbuf_addf(&text, "%s%s%s", i > 0 ? ", " : "", model->classes.items[i],
                        is_positive ? " (positive)" : "");
    }
    return hrf_strdup(text.text != NULL ? text.text : "");
}

static char *describe_forest(const struct hrf_workflow_slide_head *h)
{
    if (h->split == HRF_HEADS_BY_FOLDS)
        return hrf_format("%lld trees, %lld folds, seed %lld", (long long)h->trees,
                          (long long)h->folds, (long long)h->seed);
    return hrf_format(
        "%lld trees, training and testing slides of %s, seed %lld", (long long)h->trees,
        h->split == HRF_HEADS_BY_DATASET ? "the dataset" : "a table", (long long)h->seed);
}

static void add_model(struct hrf_provenance *p, const struct hrf_workflow *w, const char *sha256)
{
    const double *mean = w->model.input.mean, *std = w->model.input.std;
    add_line(p, "model", hrf_strdup(w->model.file));
    add_line(p, "model SHA-256", hrf_strdup(sha256));
    add_line(p, "classes", classes_text(&w->model));
    add_line(p, "mean", hrf_format("%g, %g, %g", mean[0], mean[1], mean[2]));
    add_line(p, "standard deviation", hrf_format("%g, %g, %g", std[0], std[1], std[2]));
    if (w->model.input.size != 0)
        add_line(p, "preparation", hrf_workflow_preparation_text(w));
    if (w->slide_head.file != NULL)
        add_line(p, "slide head", hrf_strdup(w->slide_head.file));
    if (w->slide_head.forest != HRF_FOREST_NONE)
        add_line(p, "slide forest", describe_forest(&w->slide_head));
}

enum hrf_status hrf_provenance_fill(const struct hrf_workflow *w, struct hrf_store *store,
                                    const char *model_sha256, struct hrf_provenance *out,
                                    struct hrf_error *err)
{
    struct hrf_provenance p = { .n_items = 0 };
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    struct hrf_slide_library reader;
    char host[128];
    HRF_AUTO_FREE char *tiling = NULL, *tissue_sha256 = NULL;
    hrf_slide_library(&reader);
    HRF_TRY(hrf_store_get_fact(store, "tissue_sha256", &tissue_sha256, err));
    hrf_process_host_name(host, sizeof host);
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    HRF_TRY(tiling_text(&slides, &tiling, err));
    add_line(&p, "hires-flow", hrf_strdup(HRF_VERSION));
    add_line(&p, "slide reader", hrf_format("OpenSlide %s", reader.version));
    add_line(&p, "workflow", hrf_strdup(w->path));
    add_model(&p, w, model_sha256);
    add_line(&p, "dataset", dataset_text(&w->dataset));
    add_line(&p, "excluded slides", excluded_text(&slides));
    add_tiler(&p, &w->tiler, tissue_sha256);
    add_line(&p, "host", hrf_strdup(host));
    add_line(&p, "tiling SHA-256", hrf_strdup(tiling));
    *out = p;
    return HRF_OK;
}
