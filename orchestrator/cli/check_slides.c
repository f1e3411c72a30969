/* check_slides.c - see check_slides.h. */
#include "orchestrator/cli/check_slides.h"

#include "base/json.h"
#include "base/own_process.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/slides_summary.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/ingest/survey.h"

#include <math.h>
#include <stdio.h>

/* The children wait for disks most of the time. */
enum { CHILDREN_PER_CORE = 4, MAX_CHILDREN = 64 };
/* Returns the bytes of the scores, as text and as numbers, in all precisions. Heat maps and
 * embeddings are not counted. */
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
        json_t *slide = json_object();
        hrf_json_put_text(slide, "slide", row->name);
        hrf_json_put_text(slide, "path", row->path);
        hrf_json_put_text(slide, "state", hrf_finding_word(f->kind));
        hrf_json_put_text(slide, "vendor", f->vendor);
        hrf_json_put_text(slide, "reason", f->reason);
        hrf_json_put_text(slide, "scanner", f->scanner);
        hrf_json_put_int(slide, "bytes", row->n_bytes);
        hrf_json_put_int(slide, "width", f->width);
        hrf_json_put_int(slide, "height", f->height);
        hrf_json_put_number(slide, "mpp_x", f->mpp_x > 0 ? f->mpp_x : (double)NAN);
        hrf_json_put_number(slide, "mpp_y", f->mpp_y > 0 ? f->mpp_y : (double)NAN);
        hrf_json_put_text(slide, "mpp_source", hrf_mpp_source_name(f->source));
        hrf_json_put_bool(slide, "upsampled", hrf_slide_is_upsampled(all->workflow, f));
        hrf_json_add(list, slide);
    }
    return list;
}

static void print_check_slides_json(const struct hrf_slides_summary *all, const char *warnings)
{
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put(value, "slides", slides_json(all));
    hrf_json_put(value, "warnings", hrf_json_lines(warnings));
    hrf_json_put_int(value, "patches_at_most", all->patches);
    hrf_json_put_int(value, "result_bytes_at_most", result_bytes(all));
    hrf_json_put_number(value, "seconds", all->survey->seconds);
    hrf_slides_summary_json(all, value);
    hrf_json_print(value);
}

int hrf_cli_check_slides(const struct hrf_workflow *workflow, bool is_json)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_RELEASE(hrf_slide_rows) rows = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_survey) survey = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_strbuf) warnings = HRF_STRBUF_INIT;
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
    return code;
}
