/* train.c - `train`: a network of patches on one's own pictures, all folds and seeds of a file. */
#include "base/directory.h"
#include "base/json.h"
#include "base/message.h"
#include "base/path.h"
#include "engine/cli/cli.h"
#include "engine/run/joined.h"
#include "training/cohort/folds_and_seeds.h"
#include "training/cohort/training_files.h"
#include "training/cutting/pictures.h"
#include "training/loop/probe.h"
#include "training/loop/training_result.h"
#include "training/page/training_page.h"

#include <stdio.h>
#include <string.h>

struct train_request {
    const struct hrf_train_request *request;
    const char *file;
};

struct train_command {
    const struct hrf_train_request *request;
    struct hrf_comm *comm; /* of processes that share each training; NULL: there is one */
    struct hrf_train_recipe *recipe;
    struct hrf_sample_list *list;
    struct hrf_left_outs left_out;
    struct hrf_fine_tuning *tuning;
    struct hrf_trainings all;
    const char *title; /* the file's name */
};

static void train_command_release(struct train_command *c)
{
    hrf_fine_tuning_destroy(c->tuning);
    hrf_sample_list_destroy(c->list);
    hrf_left_outs_release(&c->left_out);
    hrf_train_recipe_destroy(c->recipe);
}

/* Whether training i is done, and its figures. It has no checkpoint then: one that is left is of a
 * process that ended just before it would have removed it. */
static bool find_result(void *context, int64_t i, struct hrf_scored_figures *out, json_t **json)
{
    const struct train_command *c = context;
    const int64_t fold = i % c->all.n_folds, seed = hrf_trainings_seed(&c->all, i);
    HRF_AUTO_FREE char *folder = hrf_trainings_folder(&c->all, i);
    struct hrf_training_figures figures;
    if (!hrf_fine_tuning_is_done(c->tuning, fold, seed, folder, &figures))
        return false;
    hrf_training_remove_checkpoint(folder);
    if (out != NULL)
        *out = figures.testing;
    if (json != NULL)
        *json = hrf_training_figures_json(hrf_training_of_pictures_rows, c->recipe->output, fold,
                                          seed, &figures);
    return true;
}

static enum hrf_status train_one(void *context, int64_t i, struct hrf_error *err)
{
    const struct train_command *c = context;
    HRF_AUTO_FREE char *folder = hrf_trainings_folder(&c->all, i);
    if (find_result(context, i, NULL, NULL))
        return HRF_OK;
    HRF_TRY(hrf_path_make_directories(folder, err));
    return hrf_fine_tuning_run(c->tuning, i % c->all.n_folds, hrf_trainings_seed(&c->all, i),
                               folder, err);
}

/* The trainings that are wanted, for `hires-flow`, which makes tasks of them. */
static enum hrf_status write_list(struct train_command *c, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_listed_trainings) list = { .items = NULL };
    if (c->recipe->method != HRF_METHOD_FINE_TUNING)
        return hrf_error_set(err, HRF_E_USER,
                             "a probe computes the embeddings once for all folds, and is no work "
                             "of jobs: leave 'executor' out");
    HRF_TRY(hrf_path_absolute(c->recipe->out, &list.out, err));
    HRF_TRY(hrf_path_absolute(c->recipe->model, &list.model, err));
    list.layout = hrf_strdup(c->recipe->layout);
    list.items = hrf_calloc((size_t)hrf_trainings_count(&c->all) + 1, sizeof *list.items);
    for (int64_t i = 0; i < hrf_trainings_count(&c->all); i++) {
        struct hrf_listed_training *item = &list.items[list.n];
        if (!hrf_trainings_is_wanted(&c->all, i))
            continue;
        HRF_AUTO_FREE char *folder = hrf_trainings_folder(&c->all, i);
        list.n++;
        item->number = i;
        item->fold = i % c->all.n_folds;
        item->seed = hrf_trainings_seed(&c->all, i);
        HRF_TRY(hrf_path_absolute(folder, &item->folder, err));
        HRF_TRY(hrf_fine_tuning_key(c->tuning, item->fold, item->seed, item->key, err));
        item->done = find_result(c, i, NULL, NULL);
    }
    HRF_AUTO_JSON json = hrf_listed_trainings_json(&list);
    return hrf_json_write_file(c->request->list, json, err);
}

static enum hrf_status write_summary(const struct train_command *c, struct hrf_error *err)
{
    HRF_AUTO_JSON summary = json_object();
    HRF_AUTO_FREE char *path = hrf_path_join(c->recipe->out, "summary.json");
    HRF_TRY(hrf_trainings_summarise(&c->all, summary, err));
    hrf_json_put_int(summary, c->list->set.nouns, (int64_t)c->list->set.n_items);
    hrf_json_put(summary, "left_out", hrf_left_outs_json(&c->left_out));
    hrf_json_put_text(summary, "trained_from", c->tuning->model_sha256);
    HRF_TRY(hrf_json_write_file(path, summary, err));
    HRF_TRY(hrf_training_page_write(&c->all, c->list, c->title, summary, err));
    if (c->request->json) {
        hrf_json_print(summary);
        return HRF_OK;
    }
    printf("%zu %s of ", c->list->set.n_items, c->list->set.nouns);
    if (c->list->patches != NULL)
        printf("%lld patches of ", (long long)c->list->first_patch[c->list->set.n_items]);
    printf("%lld px, ", (long long)c->list->side);
    if (c->left_out.n_items > 0)
        printf("%zu slide%s left out, ", c->left_out.n_items, c->left_out.n_items == 1 ? "" : "s");
    if (c->recipe->method == HRF_METHOD_KNN)
        printf("%lld nearest of embeddings of %zu numbers\n", (long long)c->recipe->neighbours,
               c->tuning->width);
    else if (c->recipe->head != HRF_TRAIN_NONE)
        printf("head %s on embeddings of %zu numbers\n", hrf_words_heads[c->recipe->head],
               c->tuning->width);
    else if (c->recipe->method == HRF_METHOD_LINEAR_PROBE)
        printf("a linear model of embeddings of %zu numbers\n", c->tuning->width);
    else
        printf("the last layer %s\n", c->tuning->added_to > 0 ? "added"
                                      : c->tuning->is_renewed ? "made anew"
                                                              : "as in the file");
    hrf_trainings_print(&c->all, summary);
    return HRF_OK;
}

/* Finds what would end one of the trainings before the first one begins. */
static enum hrf_status check_trainings(const struct train_command *c, struct hrf_error *err)
{
    HRF_AUTO_FREE enum hrf_training_part *parts = hrf_alloc_array(c->list->set.n_items + 1,
                                                                  sizeof *parts);
    HRF_TRY(hrf_trainings_check(&c->all, err));
    for (int64_t i = 0; i < hrf_trainings_count(&c->all); i++)
        if (hrf_trainings_is_wanted(&c->all, i))
            HRF_TRY(hrf_training_set_split(&c->list->set, i % c->all.n_folds, parts, err));
    return HRF_OK;
}

/* Embeddings are computed once for all folds and seeds. */
static enum hrf_status embed(const struct train_command *c, struct hrf_error *err)
{
    for (int64_t i = 0; i < hrf_trainings_count(&c->all); i++)
        if (hrf_trainings_is_wanted(&c->all, i) && !find_result(c->all.context, i, NULL, NULL))
            return hrf_probe_embed(c->tuning, c->recipe->out, err);
    return HRF_OK;
}

/* What the engine calls its limit is train.memory here. */
static bool name_limit(const char *name, const char *value, char *out, size_t size)
{
    if (strcmp(name, "engine.memory") != 0 || value != NULL)
        return false;
    snprintf(out, size, "train.memory");
    return true;
}

static enum hrf_status train_all(struct train_command *c, const char *file, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    const struct hrf_train_request *r = c->request;
    enum hrf_status status = hrf_train_recipe_read(file, &c->recipe, &findings, err);
    if (status == HRF_OK)
        status = hrf_pictures_find(c->recipe, HRF_VERSION, false, &c->list, &c->left_out, &findings,
                                   err);
    fputs(findings.text.text, stderr);
    HRF_TRY(status);
    hrf_message_set_namer(name_limit);
    HRF_TRY(hrf_fine_tuning_open(c->recipe, c->list, &c->tuning, err));
    const char *const arguments[] = { "train", file, "--device", r->device, NULL };
    c->all = (struct hrf_trainings){
        .n_folds = c->recipe->split == HRF_TRAIN_BY_FOLDS ? c->recipe->folds : 1,
        .seeds = &c->recipe->seeds,
        .out = c->recipe->out,
        .only_fold = r->fold,
        .only_seed = r->seed,
        .jobs = r->jobs,
        .threads = r->threads,
        .arguments = arguments,
        .kind = c->recipe->output,
        .classes = &c->recipe->classes,
        .nouns = c->list->set.nouns,
        .context = c,
        .find_result = find_result,
        .train = train_one,
    };
    c->title = hrf_path_name(file);
    c->tuning->version = HRF_VERSION;
    c->tuning->device = r->device;
    c->tuning->comm = c->comm;
    c->tuning->n_threads = (int32_t)hrf_trainings_threads(&c->all);
    HRF_TRY(check_trainings(c, err));
    if (r->list != NULL)
        return write_list(c, err);
    HRF_TRY(hrf_path_make_directories(c->recipe->out, err));
    if (r->summary)
        return write_summary(c, err);
    if (c->recipe->method != HRF_METHOD_FINE_TUNING)
        HRF_TRY(embed(c, err));
    HRF_TRY(hrf_trainings_run(&c->all, err));
    const bool writes = c->comm == NULL || c->comm->rank == 0;
    return hrf_trainings_is_one(&c->all) || !writes ? HRF_OK : write_summary(c, err);
}

/* On one of the ranks of train.layout, or on all of them as threads. */
static enum hrf_status train_joined(const void *context, const struct hrf_joined *joined,
                                    struct hrf_error *err)
{
    const struct train_request *r = context;
    HRF_AUTO_RELEASE(train_command) c = { .request = r->request, .comm = joined->comm };
    return train_all(&c, r->file, err);
}

/* The text of train.layout, which says how many ranks there have to be; heap. */
static enum hrf_status read_layout(const char *file, char **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_train_recipe) recipe = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    const enum hrf_status status = hrf_train_recipe_read(file, &recipe, &findings, err);
    fputs(findings.text.text, stderr);
    HRF_TRY(status);
    *out = hrf_strdup(recipe->layout);
    return HRF_OK;
}

static enum hrf_status train_with(const struct hrf_train_request *request, const char *file,
                                  struct hrf_error *err)
{
    const struct train_request with = { request, file };
    HRF_AUTO_FREE char *layout = NULL;
    if (request->comm != NULL)
        HRF_TRY(read_layout(file, &layout, err));
    if (request->comm != NULL && request->jobs > 1)
        return hrf_error_set(err, HRF_E_USER,
                             "--comm is for trainings one after the other: leave --jobs out");
    return hrf_joined_run(request->comm, layout, train_joined, &with, err);
}

static void print_keys(void)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_settings_describe(hrf_train_recipe_settings, &text);
    fputs(text.text, stdout);
}

int hrf_engine_train(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_train_request request = hrf_train_request_initial;
    struct hrf_args args = hrf_args_parse_request(HRF_ENGINE_PROGRAM, command, hrf_train_options,
                                                  &request, argc, argv);
    if (args.done)
        return args.exit_code;
    if (request.keys) {
        print_keys();
        return 0;
    }
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    if (args.n_operands != 1)
        status = hrf_error_set(&err, HRF_E_USER, "train needs one file");
    if (status == HRF_OK)
        status = train_with(&request, args.operands[0], &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
