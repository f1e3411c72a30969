/* page_slides.c - the table of all slides, sortable and filterable, with links to their files. */
#include "aggregate/report/page_private.h"

#include <math.h>
#include <stdlib.h>

static bool flipped(const struct hrf_cohort *cohort, const struct hrf_cohort_slide *slide)
{
    for (size_t p = 1; p < cohort->n_precisions; p++)
        if (hrf_cohort_differs(cohort, &slide->scores[0], &slide->scores[p]))
            return true;
    return false;
}

/* ---- which are shown ---- */

enum interest { LABEL_IS_WRONG, LABEL_DIFFERS, NEEDS_A_LOOK, HAS_SCORE, HAS_NONE };

struct candidate {
    enum interest interest;
    double distance; /* of equal interest, the smaller one is shown first */
    size_t index;    /* in the cohort */
};

static struct candidate candidate_of(const struct hrf_cohort *cohort, size_t index)
{
    const struct hrf_cohort_slide *slide = &cohort->slides[index];
    const struct hrf_cohort_score *first = &slide->scores[0];
    struct candidate c = { .interest = HAS_NONE, .index = index };
    if (hrf_cohort_is_wrong(cohort, slide))
        c.interest = LABEL_IS_WRONG;
    else if (flipped(cohort, slide))
        c.interest = LABEL_DIFFERS;
    else if (slide->state == HRF_SLIDE_FAILED || slide->warning != NULL)
        c.interest = NEEDS_A_LOOK;
    else if (first->known)
        c.interest = HAS_SCORE;
    if (first->known)
        c.distance = fabs(first->value - cohort->threshold);
    if (c.interest == LABEL_IS_WRONG)
        c.distance = -c.distance;
    return c;
}

static int by_interest(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->interest != y->interest)
        return x->interest < y->interest ? -1 : 1;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

void hrf_page_choose_slides(const struct hrf_cohort *cohort, struct hrf_page_slide *extras)
{
    if (cohort->n_slides <= HRF_PAGE_SLIDES)
        return;
    HRF_AUTO_FREE struct candidate *all = hrf_alloc_array(cohort->n_slides, sizeof *all);
    for (size_t i = 0; i < cohort->n_slides; i++)
        all[i] = candidate_of(cohort, i);
    qsort(all, cohort->n_slides, sizeof *all, by_interest);
    for (size_t i = HRF_PAGE_SLIDES; i < cohort->n_slides; i++)
        extras[all[i].index].is_left_out = true;
}

static void say_which(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (cohort->n_slides <= HRF_PAGE_SLIDES)
        return;
    hrf_out_markup(
        out,
        "<p class=\"said\">Here are %s of %s slides: labels that differ from the truth or between "
        "precisions, slides that failed or carry a warning, and the scores nearest to the "
        "threshold. <a href=\"../results/labels.csv\">results/labels.csv</a> has all of "
        "them.</p>\n",
        hrf_count_text(HRF_PAGE_SLIDES).text, hrf_count_text((int64_t)cohort->n_slides).text);
}

/* ---- the table ---- */

static void tools(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_markup(
        out,
        "<div class=\"tools\"><input id=\"find\" type=\"search\" placeholder=\"Find a slide\" "
        "aria-label=\"Find a slide\"><select id=\"pick\" aria-label=\"Show\">"
        "<option value=\"\">all slides</option><option value=\"positive\">called %s</option>"
        "<option value=\"wrong\">label differs from truth</option>"
        "<option value=\"flip\">label differs between precisions</option>"
        "<option value=\"done\">done</option><option value=\"failed\">failed</option>"
        "<option value=\"no_tissue\">no tissue</option><option value=\"excluded\">excluded</option>"
        "<option value=\"pending\">pending</option><option value=\"note\">with a note</option>"
        "</select><output id=\"shown\"></output></div>\n",
        hrf_cohort_has_many_classes(cohort) ? hrf_cohort_label(cohort, true) : "positive");
}

static void header(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "<table id=\"slides\"");
    if (cohort->n_slides > HRF_PAGE_SLIDES)
        hrf_out_addf(out, " data-all=\"%zu\"", cohort->n_slides);
    hrf_out_adds(out, "><thead><tr><th></th>"
                      "<th><button>slide</button></th><th><button>state</button></th>"
                      "<th><button>truth</button></th>");
    if (hrf_cohort_scores_slides(cohort))
        hrf_out_adds(out, "<th><button>label</button></th>");
    for (size_t p = 0; hrf_cohort_scores_slides(cohort) && p < cohort->n_precisions; p++)
        hrf_out_addf(out, "<th class=\"n\"><button>score %s</button></th>",
                     cohort->precisions[p].name);
    hrf_out_adds(
        out,
        "<th class=\"n\"><button>patches</button></th>"
        "<th class=\"n\"><button>tissue</button></th><th class=\"files\">files</th></tr></thead>"
        "<tbody>\n");
}

static void file_url(struct hrf_out *out, const struct hrf_cohort *cohort,
                     const struct hrf_cohort_slide *slide, size_t p, const char *folder,
                     const char *suffix)
{
    hrf_out_adds(out, "../results/");
    hrf_out_url(out, cohort->precisions[p].name);
    hrf_out_addf(out, "/%s/", folder);
    hrf_out_url(out, slide->file_name);
    hrf_out_adds(out, suffix);
}

static void thumbnail(struct hrf_out *out, const struct hrf_cohort_slide *slide,
                      const struct hrf_page_slide *extra)
{
    hrf_out_adds(out, "<td class=\"thumb\">");
    if (extra->thumbnail.n_bytes > 0) {
        hrf_out_markup(out,
                       "<button class=\"zoom\"><img alt=\"%s of %s\" "
                       "src=\"data:image/png;base64,",
                       extra->has_heatmap ? "heatmap" : "thumbnail", slide->name);
        hrf_out_base64(out, extra->thumbnail.data, extra->thumbnail.n_bytes);
        hrf_out_adds(out, "\"></button>");
    }
    hrf_out_adds(out, "</td>");
}

static void top_patches(struct hrf_out *out, const struct hrf_cohort_slide *slide,
                        const struct hrf_page_slide *extra)
{
    if (extra->top_patches.n_bytes == 0)
        return;
    hrf_out_markup(out,
                   "<div><img class=\"top\" title=\"patches of highest attention\" "
                   "alt=\"patches of %s with the highest attention\" src=\"data:image/png;base64,",
                   slide->name);
    hrf_out_base64(out, extra->top_patches.data, extra->top_patches.n_bytes);
    hrf_out_adds(out, "\"></div>");
}

static void note(struct hrf_out *out, const char *text, bool warn)
{
    if (text == NULL)
        return;
    hrf_out_adds(out, warn ? "<div class=\"warn\">" : "<div>");
    hrf_out_markup(out, "%s</div>", text);
}

static void name_cell(struct hrf_out *out, const struct hrf_cohort_slide *slide,
                      const struct hrf_page_slide *extra)
{
    hrf_out_markup(out, "<td class=\"name\">%s", slide->name);
    if (slide->width > 0)
        hrf_out_addf(out, "<div>%lld × %lld px, %.3g µm/px</div>", (long long)slide->width,
                     (long long)slide->height, slide->mpp);
    if (slide->state == HRF_SLIDE_DONE) /* the others' reasons stand in the lists below */
        note(out, slide->reason, true);
    note(out, slide->warning, true);
    note(out, extra->note, true);
    top_patches(out, slide, extra);
    hrf_out_adds(out, "</td>");
}

static void state_cell(struct hrf_out *out, const struct hrf_cohort_slide *slide)
{
    bool bad = slide->state == HRF_SLIDE_FAILED || slide->state == HRF_SLIDE_PENDING;
    hrf_out_adds(out, "<td>");
    if (slide->state != HRF_SLIDE_DONE)
        hrf_out_addf(out, "<a href=\"#%s\">", hrf_slide_state_word(slide->state));
    hrf_out_addf(out, "<span class=\"tag%s\">%s</span>%s</td>", bad ? " bad" : "",
                 hrf_slide_state_text(slide->state), slide->state != HRF_SLIDE_DONE ? "</a>" : "");
}

static void label_cells(struct hrf_out *out, const struct hrf_cohort *cohort,
                        const struct hrf_cohort_slide *slide)
{
    hrf_out_adds(out, "<td>");
    if (slide->truth != HRF_TRUTH_UNKNOWN || slide->is_tuning)
        hrf_out_html(out, hrf_cohort_truth_label(cohort, slide));
    if (slide->is_tuning)
        hrf_out_adds(out, "<div>threshold chosen on it</div>");
    else if (slide->truth == HRF_TRUTH_UNKNOWN)
        hrf_out_adds(out, "<span class=\"tag\">unknown</span>");
    hrf_out_adds(out, "</td>");
    if (!hrf_cohort_scores_slides(cohort))
        return;
    hrf_out_adds(out, "<td class=\"label\">");
    if (slide->scores[0].known) {
        hrf_out_markup(out, "<span class=\"tag %s\">%s",
                       hrf_cohort_calls_positive(cohort, &slide->scores[0]) ? "pos" : "neg",
                       hrf_cohort_slide_label(cohort, &slide->scores[0]));
        hrf_out_addf(out, "</span>%s",
                     hrf_cohort_is_wrong(cohort, slide)
                         ? " <span class=\"warn\" title=\"differs from the truth\">≠"
                           "</span>"
                         : "");
    }
    hrf_out_adds(out, "</td>");
}

static void score_cell(struct hrf_out *out, const struct hrf_cohort_score *score)
{
    if (!score->known) {
        hrf_out_adds(out, "<td class=\"n\" data-k=\"\"></td>");
        return;
    }
    double share = fmin(fmax(score->value, 0.0), 1.0);
    hrf_out_addf(out,
                 "<td class=\"n\" data-k=\"%.17g\"><div class=\"score\">%.3f<span class=\"meter "
                 "%s\"><i style=\"width:%.1f%%\"></i></span></div></td>",
                 score->value, score->value, score->positive ? "pos" : "neg", 100.0 * share);
}

static void file_link(struct hrf_out *out, const struct hrf_cohort *cohort,
                      const struct hrf_cohort_slide *slide, size_t p, const char *folder,
                      const char *suffix, const char *text)
{
    hrf_out_adds(out, "<a href=\"");
    file_url(out, cohort, slide, p, folder, suffix);
    hrf_out_addf(out, "\">%s</a>", text);
}

static void file_cell(struct hrf_out *out, const struct hrf_cohort *cohort,
                      const struct hrf_cohort_slide *slide, const struct hrf_page_slide *extra)
{
    bool any = extra->has_csv || extra->has_geojson || extra->has_heatmap ||
               extra->features != NULL || extra->has_mask || extra->has_regions;
    hrf_out_adds(out, "<td class=\"files\">");
    for (size_t p = 0; any && p < cohort->n_precisions; p++) {
        if (!(slide->scores[p].known || slide->scores[p].has_features) ||
            slide->scores[p].failure != NULL)
            continue;
        hrf_out_adds(out, "<div>");
        if (cohort->n_precisions > 1)
            hrf_out_addf(out, "<span>%s</span>", cohort->precisions[p].name);
        if (extra->features != NULL)
            file_link(out, cohort, slide, p, "features", extra->features, "embeddings");
        if (extra->has_csv)
            file_link(out, cohort, slide, p, "model-outputs-csv", ".csv", "csv");
        if (extra->has_geojson)
            file_link(out, cohort, slide, p, "model-outputs-geojson", ".geojson.gz", "geojson");
        if (extra->has_mask)
            file_link(out, cohort, slide, p, "masks", ".tiff", "mask");
        if (extra->has_regions)
            file_link(out, cohort, slide, p, "masks", ".geojson.gz", "outlines");
        if (extra->has_heatmap)
            file_link(out, cohort, slide, p, "heatmaps", ".png", "heatmap");
        if (extra->has_top_patches)
            file_link(out, cohort, slide, p, "top-patches", ".png", "top patches");
        hrf_out_adds(out, "</div>");
    }
    hrf_out_adds(out, "</td>");
}

static void row(struct hrf_out *out, const struct hrf_cohort *cohort,
                const struct hrf_cohort_slide *slide, const struct hrf_page_slide *extra)
{
    bool noted = slide->warning != NULL || extra->note != NULL;
    hrf_out_markup(out, "<tr data-n=\"%s\" data-s=\"%s%s%s%s%s\">", slide->name,
                   hrf_slide_state_word(slide->state),
                   hrf_cohort_calls_positive(cohort, &slide->scores[0]) ? " positive" : "",
                   hrf_cohort_is_wrong(cohort, slide) ? " wrong" : "",
                   flipped(cohort, slide) ? " flip" : "", noted ? " note" : "");
    thumbnail(out, slide, extra);
    name_cell(out, slide, extra);
    state_cell(out, slide);
    label_cells(out, cohort, slide);
    for (size_t p = 0; hrf_cohort_scores_slides(cohort) && p < cohort->n_precisions; p++)
        score_cell(out, &slide->scores[p]);
    if (slide->n_patches >= 0) {
        hrf_out_markup(out,
                       "<td class=\"n\" data-k=\"%lld\">%s</td>"
                       "<td class=\"n\" data-k=\"%.6g\">%.1f %%</td>",
                       (long long)slide->n_patches, hrf_count_text(slide->n_patches).text,
                       slide->tissue_fraction, 100.0 * slide->tissue_fraction);
    } else {
        hrf_out_adds(out, "<td class=\"n\" data-k=\"\"></td><td class=\"n\" data-k=\"\"></td>");
    }
    file_cell(out, cohort, slide, extra);
    hrf_out_adds(out, "</tr>\n");
}

void hrf_page_slides(struct hrf_out *out, const struct hrf_cohort *cohort,
                     const struct hrf_page_slide *extras)
{
    hrf_out_adds(out, "<section><h2>Slides");
    if (cohort->has_head)
        hrf_out_addf(out,
                     " <small>heat maps: attention of the slide head in %s, by rank from dark "
                     "(least) to yellow (most); strips: the patches of highest attention</small>",
                     cohort->precisions[0].name);
    else if (!cohort->is_embedding)
        hrf_out_markup(out,
                       " <small>heat maps: %s of %s, blue 0, red 1, faint where the model is not "
                       "sure; dark outlines are annotated lesions; a click enlarges</small>",
                       hrf_cohort_label(cohort, true), cohort->precisions[0].name);
    hrf_out_adds(out, "</h2>\n");
    say_which(out, cohort);
    tools(out, cohort);
    header(out, cohort);
    for (size_t i = 0; i < cohort->n_slides; i++)
        if (!extras[i].is_left_out)
            row(out, cohort, &cohort->slides[i], &extras[i]);
    hrf_out_adds(out, "</tbody></table></section>\n");
}
