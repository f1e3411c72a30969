/* head.c - `head score`: slides by a slide head in ONNX; `head train` is in head_train.c. */
#include "engine/cli/head.h"
#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/min_max.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "engine/cli/cli.h"
#include "engine/run/slide_head.h"
#include "heads/bags/bag.h"
#include "heads/export/export.h"
#include "statistics/most_likely.h"
#include "training/cohort/folds_and_seeds.h"

#include <stdio.h>
#include <string.h>

static void put_score_row(const struct hrf_slide_head_result *r, const struct hrf_head_card *card,
                          const char *slide, int64_t n, bool with_titles, struct hrf_strbuf *out)
{
    const int64_t best = hrf_most_likely(r->scores, r->n_classes);
    char number[24];
    const bool is_named = card->n_classes == (size_t)r->n_classes;
    if (with_titles) {
        hrf_strbuf_adds(out, "slide,label");
        for (int64_t k = 0; k < r->n_classes; k++) {
            snprintf(number, sizeof number, "%lld", (long long)k);
            HRF_AUTO_FREE char *title = hrf_format("score_%s",
                                                   is_named ? card->classes[k] : number);
            hrf_strbuf_addc(out, ',');
            hrf_csv_add_cell(out, title);
        }
        hrf_strbuf_adds(out, ",patches\n");
    }
    snprintf(number, sizeof number, "%lld", (long long)best);
    hrf_csv_add_cell(out, slide);
    hrf_strbuf_addc(out, ',');
    hrf_csv_add_cell(out, is_named ? card->classes[best] : number);
    for (int64_t k = 0; k < r->n_classes; k++)
        hrf_strbuf_addf(out, ",%.9g", (double)r->scores[k]);
    hrf_strbuf_addf(out, ",%lld\n", (long long)n);
}

/* DIR/SLIDE.csv: patch, x, y and its attention, one column a branch. */
static enum hrf_status write_attention(const struct hrf_slide_head_result *r,
                                       struct hrf_bag_file *bag, const char *folder,
                                       const char *slide, struct hrf_error *err)
{
    enum { PART = 1 << 14 };
    const bool has_positions = bag->n_position_columns > 0;
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    HRF_AUTO_FREE double *positions = hrf_alloc_array(PART, 2 * sizeof *positions);
    HRF_AUTO_FREE char *name = hrf_text_file_name(slide);
    HRF_AUTO_FREE char *file = hrf_format("%s.csv", name);
    HRF_AUTO_FREE char *path = hrf_path_join(folder, file);
    hrf_strbuf_adds(&out, has_positions ? "patch,x,y" : "patch");
    for (int64_t k = 0; k < r->n_branches; k++)
        if (r->n_branches == 1)
            hrf_strbuf_adds(&out, ",attention");
        else
            hrf_strbuf_addf(&out, ",attention_%lld", (long long)k);
    hrf_strbuf_addc(&out, '\n');
    for (int64_t i = 0; i < bag->n; i++) {
        const double *at = positions + i % PART * 2;
        if (has_positions && i % PART == 0)
            HRF_TRY(hrf_bag_file_read_positions(bag, i, hrf_min(PART, bag->n - i), positions, err));
        hrf_strbuf_addf(&out, "%lld", (long long)i);
        if (has_positions)
            hrf_strbuf_addf(&out, ",%.9g,%.9g", at[0], at[1]);
        for (int64_t k = 0; k < r->n_branches; k++)
            hrf_strbuf_addf(&out, ",%.9g", (double)r->attention[k * bag->n + i]);
        hrf_strbuf_addc(&out, '\n');
    }
    return hrf_file_write_atomic(path, out.text, out.length, err);
}

/* ---- the mean of several heads ---- */

struct ensemble {
    struct hrf_slide_head **heads;
    struct hrf_head_card **cards;
    const char *const *paths;
    int n;
    float *scores, *attention; /* of the present bag, if there are several */
};

static void ensemble_release(struct ensemble *e)
{
    for (int i = 0; i < e->n; i++) {
        if (e->heads != NULL)
            hrf_slide_head_close(e->heads[i]);
        if (e->cards != NULL)
            hrf_head_card_destroy(e->cards[i]);
    }
    hrf_free(e->heads);
    hrf_free(e->cards);
    hrf_free(e->scores);
    hrf_free(e->attention);
}

static enum hrf_status check_classes(const struct ensemble *e, int i, struct hrf_error *err)
{
    const struct hrf_head_card *first = e->cards[0], *card = e->cards[i];
    bool are_same = card->n_classes == first->n_classes;
    for (size_t k = 0; are_same && k < card->n_classes; k++)
        are_same = strcmp(card->classes[k], first->classes[k]) == 0;
    return are_same ? HRF_OK
                    : hrf_error_set(err, HRF_E_USER,
                                    "'%s' and '%s' have other classes: their mean says nothing",
                                    e->paths[0], e->paths[i]);
}

static enum hrf_status ensemble_open(struct ensemble *e, const char *const *paths, int n,
                                     struct hrf_error *err)
{
    *e = (struct ensemble){ .heads = hrf_calloc((size_t)n, sizeof(struct hrf_slide_head *)),
                            .cards = hrf_calloc((size_t)n, sizeof(struct hrf_head_card *)),
                            .paths = paths,
                            .n = n };
    for (int i = 0; i < n; i++) {
        HRF_TRY(hrf_head_card_read(paths[i], &e->cards[i], err));
        HRF_TRY(hrf_slide_head_open(paths[i], &e->heads[i], err));
        HRF_TRY(check_classes(e, i, err));
    }
    return HRF_OK;
}

/* Puts the mean so far of `n` rows of numbers, and those of the next one, into *mean. */
static void add_to_mean(float **mean, const float *next, int64_t length, int n)
{
    if (n == 0) {
        hrf_free(*mean);
        *mean = hrf_calloc((size_t)length + 1, sizeof **mean);
    }
    for (int64_t i = 0; i < length; i++)
        (*mean)[i] = (float)(((double)(*mean)[i] * n + (double)next[i]) / (n + 1));
}

/* The rows of a bag, for several heads one after the other: if all are read at once, once. */
struct shared_rows {
    struct hrf_bag_file *file;
    float *all; /* NULL: not read yet, or not kept */
    bool is_kept;
};

static enum hrf_status read_rows(void *context, int64_t first, int64_t n, float *out,
                                 struct hrf_error *err)
{
    struct shared_rows *rows = context;
    const size_t n_bytes = (size_t)(n * rows->file->width) * sizeof *out;
    if (rows->all != NULL) {
        memcpy(out, rows->all, n_bytes);
        return HRF_OK;
    }
    HRF_TRY(hrf_bag_file_read(rows->file, first, n, out, err));
    if (rows->is_kept && (rows->all = hrf_try_alloc(n_bytes)) != NULL)
        memcpy(rows->all, out, n_bytes);
    return HRF_OK;
}

/* Gives the numbers of one head as they are, of several heads their means. */
static enum hrf_status ensemble_run(struct ensemble *e, const struct hrf_bag_rows *bag,
                                    int64_t n_threads, struct hrf_slide_head_result *out,
                                    struct hrf_error *err)
{
    struct hrf_slide_head_result first = { .scores = NULL };
    for (int i = 0; i < e->n; i++) {
        struct hrf_slide_head_result r;
        HRF_TRY(hrf_slide_head_run(e->heads[i], bag, n_threads, &r, err));
        if (i == 0)
            first = r;
        if (r.n_classes != first.n_classes || r.n_branches != first.n_branches ||
            (r.attention == NULL) != (first.attention == NULL))
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s' gives %lld scores and %lld rows of attention, '%s' %lld and "
                                 "%lld: they have no mean",
                                 e->paths[0], (long long)first.n_classes,
                                 (long long)first.n_branches, e->paths[i], (long long)r.n_classes,
                                 (long long)r.n_branches);
        if (e->n == 1)
            break;
        add_to_mean(&e->scores, r.scores, r.n_classes, i);
        if (r.attention != NULL)
            add_to_mean(&e->attention, r.attention, r.n_branches * bag->n, i);
    }
    if (e->n > 1) {
        first.scores = e->scores;
        first.attention = first.attention != NULL ? e->attention : NULL;
    }
    *out = first;
    return HRF_OK;
}

static enum hrf_status score_file(const struct hrf_head_request *r, struct ensemble *e,
                                  const char *path, struct hrf_strbuf *out, struct hrf_error *err)
{
    struct hrf_slide_head_result result = { .scores = NULL };
    const struct hrf_head_use use = { .may_have_seen = r->seen,
                                      .may_mix = r->mixed,
                                      .when_seen = "--seen scores it all the same",
                                      .when_mixed = "--mixed scores them all the same" };
    int64_t width = 0;
    HRF_AUTO(hrf_bag_file) file = NULL;
    HRF_AUTO_FREE char *slide = hrf_path_stem(path);
    for (int i = 0; i < e->n; i++) {
        HRF_TRY(hrf_head_card_check(e->cards[i], path, r->set, &use, err));
        width = width > 0 ? width : hrf_slide_head_width(e->heads[i]);
    }
    HRF_TRY(hrf_bag_file_open(path, r->set, width, &file, err));
    struct shared_rows rows = { .file = file, .is_kept = e->n > 1 && file->n <= HRF_BAG_WHOLE };
    const struct hrf_bag_rows bag = { file->n, file->width, read_rows, &rows };
    const enum hrf_status status = ensemble_run(e, &bag, r->threads, &result, err);
    hrf_free(rows.all);
    HRF_TRY(status);
    put_score_row(&result, e->cards[0], slide, file->n, out->length == 0, out);
    if (r->attention == NULL)
        return HRF_OK;
    if (result.attention == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has no output 'attention': leave --attention out", e->paths[0]);
    return write_attention(&result, file, r->attention, slide, err);
}

/* Checks before anything is computed that the results can be written. */
static enum hrf_status check_outputs(const struct hrf_head_request *r, struct hrf_error *err)
{
    if (r->attention != NULL)
        HRF_TRY(hrf_path_make_directories(r->attention, err));
    HRF_AUTO_FREE char *folder = r->out != NULL ? hrf_path_directory(r->out) : NULL;
    if (folder != NULL && !hrf_path_is_directory(folder))
        return hrf_error_set(err, HRF_E_USER, "--out '%s': there is no folder '%s'", r->out,
                             folder);
    return HRF_OK;
}

/* The heads are the operands before the first that is no ONNX file by its name. */
static int count_heads(const struct hrf_head_request *r)
{
    int n = 1;
    for (bool is_head = true; is_head && n < r->n_files; n += is_head) {
        HRF_AUTO_FREE char *ending = hrf_path_extension(r->files[n]);
        is_head = ending != NULL && strcmp(ending, "onnx") == 0;
    }
    return n;
}

static enum hrf_status score(const struct hrf_head_request *r, struct hrf_error *err)
{
    struct ensemble e;
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    const int n_heads = count_heads(r);
    if (n_heads >= r->n_files)
        return hrf_error_set(err, HRF_E_USER, "score needs a head and files of features");
    HRF_TRY(check_outputs(r, err));
    enum hrf_status status = ensemble_open(&e, r->files, n_heads, err);
    for (int i = n_heads; i < r->n_files && status == HRF_OK; i++)
        status = score_file(r, &e, r->files[i], &out, err);
    ensemble_release(&e);
    HRF_TRY(status);
    if (r->out != NULL)
        return hrf_file_write_atomic(r->out, out.text, out.length, err);
    fwrite(out.text, 1, out.length, stdout);
    return HRF_OK;
}

int hrf_engine_head(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_head_request r = { .program = HRF_ENGINE_PROGRAM, .jobs = 1, .fold = -1 };
    const struct hrf_option options[] = {
        { "jobs", "N", "train: so many trainings side by side",
          HRF_OPTION_NUMBER(&r.jobs, 1, 1024) },
        { "threads", "N", "of each training (default: the cores divided by --jobs)",
          HRF_OPTION_NUMBER(&r.threads, 0, 4096) },
        { "fold", "N", "train: only this fold, from 0",
          HRF_OPTION_NUMBER(&r.fold, 0, HRF_UNBOUNDED) },
        { "seed", "N", "train: only this seed", HRF_OPTION(&r.seed) },
        { "json", NULL, "train: print the summary as JSON", HRF_OPTION(&r.json) },
        { "keys", NULL, "train: print the keys of FILE.yaml", HRF_OPTION(&r.keys) },
        { "out", "FILE", "score: where to write the csv (default: stdout)", HRF_OPTION(&r.out) },
        { "attention", "DIR", "score: write SLIDE.csv with each patch's attention into this folder",
          HRF_OPTION(&r.attention) },
        { "set", "NAME", "score: the data set of the embeddings (default: found)",
          HRF_OPTION(&r.set) },
        { "seen", NULL, "score: also slides that the head was trained on", HRF_OPTION(&r.seen) },
        { "mixed", NULL, "score: also features of another encoder, tiling or precision",
          HRF_OPTION(&r.mixed) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    r.files = args.operands + 1;
    r.n_files = args.n_operands - 1;
    enum hrf_status status;
    if (strcmp(args.operands[0], "train") == 0)
        status = hrf_head_train(&r, &err);
    else if (strcmp(args.operands[0], "score") == 0)
        status = score(&r, &err);
    else
        status = hrf_error_set(&err, HRF_E_USER, "'%s' is neither train nor score",
                               args.operands[0]);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
