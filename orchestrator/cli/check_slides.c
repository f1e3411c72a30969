/* check_slides.c - see check_slides.h. */
#include "orchestrator/cli/check_slides.h"

#include "base/json.h"
#include "base/own_process.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/slides_summary.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/ingest/survey.h"

#include <stdio.h>
#include <string.h>

/* They wait for disks most of the time. */
enum { CHILDREN_PER_CORE = 4, MAX_CHILDREN = 64 };
/* Scores as text and numbers, for each precision; heatmaps and embeddings come on top. */
static int64_t result_bytes(const struct hrf_slides_summary *all)
{
    enum { PER_PATCH = 120, PER_SCORE = 14 };
    const int64_t n_scores = (int64_t)all->workflow->model.classes.n_items;
    return all->patches * (int64_t)hrf_workflow_n_variants(all->workflow) *
           (PER_PATCH + PER_SCORE * n_scores);
}

static void print_check_slides_text(const struct hrf_slides_summary *all, const char *warnings)
{
    const double gigabyte = 1e9;
    hrf_cli_printf("%zu slides, %.1f GB, looked at in %.1f s\n%lld can be scored\n",
                   all->survey->n_items, (double)all->bytes / gigabyte, all->survey->seconds,
                   (long long)all->n[HRF_SLIDE_IS_READY]);
    hrf_slides_summary_print_faults(all);
    hrf_cli_printf("%s", warnings);
    hrf_slides_summary_print_kinds(all, 0);
    hrf_cli_printf("patches     at most %lld, if all were tissue; their scores take %.2f GB\n",
                   (long long)all->patches, (double)result_bytes(all) / gigabyte);
}

static json_t *slides_json(const struct hrf_slides_summary *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < all->survey->n_items; i++) {
        const struct hrf_slide_finding *f = &all->survey->items[i];
        const struct hrf_slide_row *row = &all->rows->items[i];
        json_t *slide = json_pack("{sosossss}", "slide", hrf_json_string(row->name), "path",
                                  hrf_json_string(row->path), "state", hrf_finding_word(f->kind),
                                  "vendor", f->vendor);
        json_object_set_new(slide, "reason",
                            f->reason != NULL ? hrf_json_string(f->reason) : json_null());
        json_object_set_new(slide, "scanner", hrf_json_string(f->scanner));
        json_object_set_new(slide, "bytes", json_integer(row->n_bytes));
        json_object_set_new(slide, "width", json_integer(f->width));
        json_object_set_new(slide, "height", json_integer(f->height));
        json_object_set_new(slide, "mpp_x", f->mpp_x > 0 ? json_real(f->mpp_x) : json_null());
        json_object_set_new(slide, "mpp_y", f->mpp_y > 0 ? json_real(f->mpp_y) : json_null());
        json_object_set_new(slide, "mpp_source", json_string(hrf_mpp_source_name(f->source)));
        json_object_set_new(slide, "upsampled",
                            json_boolean(hrf_slide_is_upsampled(all->workflow, f)));
        json_array_append_new(list, slide);
    }
    return list;
}

static void print_check_slides_json(const struct hrf_slides_summary *all, const char *warnings)
{
    HRF_AUTO_JSON value = json_pack("{sisososIsIso}", "version", 1, "slides", slides_json(all),
                                    "warnings", hrf_cli_lines_json(warnings), "patches_at_most",
                                    (json_int_t)all->patches, "result_bytes_at_most",
                                    (json_int_t)result_bytes(all), "seconds",
                                    hrf_json_number(all->survey->seconds));
    if (value != NULL)
        hrf_slides_summary_json(all, value);
    hrf_json_print(value);
}

int hrf_cli_check_slides(const struct hrf_workflow *workflow, bool is_json)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_slide_rows rows = { .items = NULL };
    struct hrf_survey survey = { .items = NULL };
    struct hrf_strbuf warnings = HRF_STRBUF_INIT;
    const int32_t wanted = hrf_process_cpu_count() * CHILDREN_PER_CORE;
    enum hrf_status status = hrf_ingest(workflow, NULL, &rows, &warnings, &err);
    if (status == HRF_OK)
        status = hrf_survey_make(&rows, workflow->dataset.mpp,
                                 wanted < MAX_CHILDREN ? wanted : MAX_CHILDREN, &survey, &err);
    struct hrf_slides_summary all;
    hrf_slides_summary_make(workflow, &rows, &survey, &all);
    if (status == HRF_OK)
        (is_json ? print_check_slides_json
                 : print_check_slides_text)(&all, warnings.text != NULL ? warnings.text : "");
    const size_t n_good = (size_t)(all.n[HRF_SLIDE_IS_READY] + all.n[HRF_SLIDE_IS_EXCLUDED]);
    const int code = status != HRF_OK          ? hrf_cli_fail("check", &err)
                     : n_good < survey.n_items ? HRF_EXIT_PARTIAL
                                               : 0;
    hrf_survey_release(&survey);
    hrf_slide_rows_release(&rows);
    hrf_strbuf_release(&warnings);
    return code;
}
