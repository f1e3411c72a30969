/* head.c - `head score`: slides by a slide head in ONNX; `head train` is in head_train.c. */
#include "engine/cli/head.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "engine/cli/cli.h"
#include "engine/run/slide_head.h"
#include "heads/bags/bag.h"
#include "heads/export/export.h"

#include <stdio.h>
#include <string.h>

static void put_score_row(const struct hrf_slide_head_result *r, const struct hrf_head_card *card,
                          const char *slide, int64_t n, bool with_titles, struct hrf_strbuf *out)
{
    int64_t best = 0;
    char number[24];
    const bool is_named = card->n_classes == (size_t)r->n_classes;
    if (with_titles) {
        hrf_strbuf_adds(out, "slide,label");
        for (int64_t k = 0; k < r->n_classes; k++) {
            snprintf(number, sizeof number, "%lld", (long long)k);
            HRF_AUTO_FREE char *title = hrf_format("score_%s",
                                                   is_named ? card->classes[k] : number);
            hrf_strbuf_addc(out, ',');
            hrf_csv_add_cell(out, title != NULL ? title : "");
        }
        hrf_strbuf_adds(out, ",patches\n");
    }
    for (int64_t k = 1; k < r->n_classes; k++)
        best = r->scores[k] > r->scores[best] ? k : best;
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
                                       const struct hrf_bag *bag, const char *folder,
                                       const char *slide, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *name = hrf_text_file_name(slide);
    HRF_AUTO_FREE char *file = name != NULL ? hrf_format("%s.csv", name) : NULL;
    HRF_AUTO_FREE char *path = file != NULL ? hrf_path_join(folder, file) : NULL;
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    hrf_strbuf_adds(&out, bag->places != NULL ? "patch,x,y" : "patch");
    for (int64_t k = 0; k < r->n_branches; k++)
        if (r->n_branches == 1)
            hrf_strbuf_adds(&out, ",attention");
        else
            hrf_strbuf_addf(&out, ",attention_%lld", (long long)k);
    hrf_strbuf_addc(&out, '\n');
    for (int64_t i = 0; i < bag->n; i++) {
        hrf_strbuf_addf(&out, "%lld", (long long)i);
        if (bag->places != NULL)
            hrf_strbuf_addf(&out, ",%.9g,%.9g", bag->places[2 * i], bag->places[2 * i + 1]);
        for (int64_t k = 0; k < r->n_branches; k++)
            hrf_strbuf_addf(&out, ",%.9g", (double)r->attention[k * bag->n + i]);
        hrf_strbuf_addc(&out, '\n');
    }
    HRF_TRY(hrf_strbuf_status(&out, err));
    return hrf_file_write_atomic(path, out.text, out.length, err);
}

static enum hrf_status score_file(const struct hrf_head_request *r, struct hrf_slide_head *head,
                                  const struct hrf_head_card *card, const char *path,
                                  struct hrf_strbuf *out, struct hrf_error *err)
{
    struct hrf_slide_head_result result;
    const struct hrf_head_use use = { .may_have_seen = r->seen,
                                      .may_mix = r->mixed,
                                      .when_seen = "--seen scores it all the same",
                                      .when_mixed = "--mixed scores them all the same" };
    HRF_AUTO(hrf_bag) bag = NULL;
    HRF_AUTO_FREE char *slide = hrf_path_stem(path);
    HRF_CHECK_MEMORY(slide != NULL, err, "no memory for a path");
    HRF_TRY(hrf_head_card_check(card, path, r->set, &use, err));
    HRF_TRY(hrf_bag_read(path, r->set, hrf_slide_head_width(head), &bag, err));
    HRF_TRY(hrf_slide_head_run(head, bag->values, bag->n, bag->width, r->threads, &result, err));
    put_score_row(&result, card, slide, bag->n, out->length == 0, out);
    if (r->attention == NULL)
        return HRF_OK;
    if (result.attention == NULL)
        return hrf_error_set(err, HRF_E_USER, "the head has no output 'attention'");
    return write_attention(&result, bag, r->attention, slide, err);
}

static enum hrf_status score(const struct hrf_head_request *r, struct hrf_error *err)
{
    struct hrf_slide_head *head = NULL;
    HRF_AUTO(hrf_head_card) card = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    HRF_TRY(hrf_head_card_read(r->files[0], &card, err));
    HRF_TRY(hrf_slide_head_open(r->files[0], &head, err));
    enum hrf_status status = HRF_OK;
    for (int i = 1; i < r->n_files && status == HRF_OK; i++)
        status = score_file(r, head, card, r->files[i], &out, err);
    hrf_slide_head_close(head);
    HRF_TRY(status);
    HRF_TRY(hrf_strbuf_status(&out, err));
    if (r->out != NULL)
        return hrf_file_write_atomic(r->out, out.text, out.length, err);
    fwrite(out.text, 1, out.length, stdout);
    return HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_head_request r = { .program = HRF_ENGINE_PROGRAM, .jobs = 1, .fold = -1 };
    const struct hrf_option options[] = {
        { "jobs", "N", "train: so many trainings side by side (1)", HRF_OPTION_INT, &r.jobs },
        { "threads", "N", "of each training (default: the cores divided by --jobs)", HRF_OPTION_INT,
          &r.threads },
        { "fold", "N", "train: only this fold, from 0", HRF_OPTION_INT, &r.fold },
        { "seed", "N", "train: only this seed", HRF_OPTION_TEXT, &r.seed },
        { "json", NULL, "train: print the summary as JSON", HRF_OPTION_FLAG, &r.json },
        { "keys", NULL, "train: print the keys of FILE.yaml", HRF_OPTION_FLAG, &r.keys },
        { "out", "FILE", "score: where to write the csv (default: stdout)", HRF_OPTION_TEXT,
          &r.out },
        { "attention", "DIR", "score: write SLIDE.csv with each patch's attention into this folder",
          HRF_OPTION_TEXT, &r.attention },
        { "set", "NAME", "score: the data set of the embeddings (default: found)", HRF_OPTION_TEXT,
          &r.set },
        { "seen", NULL, "score: also slides that the head was trained on", HRF_OPTION_FLAG,
          &r.seen },
        { "mixed", NULL, "score: also features of another encoder, tiling or precision",
          HRF_OPTION_FLAG, &r.mixed },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    r.files = args.operands + 1;
    r.n_files = args.n_operands - 1;
    if (r.jobs < 1 || r.jobs > 1024 || r.threads < 0 || r.threads > 4096)
        status = hrf_error_set(&err, HRF_E_USER, "--jobs is 1 to 1024, --threads 0 to 4096");
    else if (strcmp(args.operands[0], "train") == 0)
        status = hrf_head_train(&r, &err);
    else if (strcmp(args.operands[0], "score") == 0 && r.n_files < 2)
        status = hrf_error_set(&err, HRF_E_USER, "score needs a head and files of features");
    else if (strcmp(args.operands[0], "score") == 0)
        status = score(&r, &err);
    else
        status = hrf_error_set(&err, HRF_E_USER, "'%s' is neither train nor score",
                               args.operands[0]);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}

const struct hrf_command hrf_engine_head = {
    .name = "head",
    .operands = "train FILE.yaml | score HEAD.onnx FEATURES...",
    .summary = "train a slide head on embeddings, or score slides with one",
    .details = "`train` makes one head for each fold and seed of the file and goes on where it was "
               "interrupted. `score` writes a line for each HDF5 file. A slide that the head was "
               "trained on, and features of another encoder, tiling or precision, are refused.",
    .min_operands = 1,
    .max_operands = -1,
    .run = run,
};
