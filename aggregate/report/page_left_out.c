/* page_left_out.c - the slides without a result: once, by state, and equal reasons together. */
#include "aggregate/report/page_private.h"

#include "base/strbuf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A slide with the kind of its reason: reasons that differ only in what they quote and in numbers
 * are of one kind. */
struct left_out {
    const struct hrf_cohort_slide *slide;
    size_t index; /* in the cohort */
    char *kind;   /* heap */
};

struct left_out_list {
    struct left_out *items;
    size_t n;
};

static void release_list(struct left_out_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        hrf_free(list->items[i].kind);
    hrf_free(list->items);
}

/* "'…' is cut short: it should go on at byte …" */
static char *kind_of(const char *reason)
{
    HRF_AUTO_RELEASE(hrf_strbuf) kind = HRF_STRBUF_INIT;
    for (const char *at = reason; *at != '\0';) {
        const char *end = *at == '\'' ? strchr(at + 1, '\'') : NULL;
        if (end != NULL) {
            hrf_strbuf_adds(&kind, "'…'");
            at = end + 1;
        } else if (isdigit((unsigned char)*at)) {
            hrf_strbuf_adds(&kind, "…");
            while (isdigit((unsigned char)*at))
                at++;
        } else {
            hrf_strbuf_add(&kind, at++, 1);
        }
    }
    return hrf_strdup(kind.text != NULL ? kind.text : "");
}

static int by_kind(const void *a, const void *b)
{
    const struct left_out *x = a, *y = b;
    const int order = strcmp(x->kind, y->kind);
    return order != 0 ? order : x->index < y->index ? -1 : 1;
}

static void collect(const struct hrf_cohort *cohort, enum hrf_slide_state state, size_t count,
                    struct left_out_list *list)
{
    list->items = hrf_calloc(count + 1, sizeof *list->items);
    for (size_t i = 0; i < cohort->n_slides && list->n < count; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->state != state)
            continue;
        char *kind = kind_of(slide->reason != NULL ? slide->reason : "no reason given");
        list->items[list->n++] = (struct left_out){ slide, i, kind };
    }
    qsort(list->items, list->n, sizeof *list->items, by_kind);
}

static const char *reason_of(const struct left_out *item)
{
    return item->slide->reason != NULL ? item->slide->reason : "no reason given";
}

static bool have_equal_reasons(const struct left_out *items, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (strcmp(reason_of(&items[0]), reason_of(&items[i])) != 0)
            return false;
    return true;
}

static void and_more(struct hrf_out *out, size_t n, size_t n_shown)
{
    if (n > n_shown)
        hrf_out_markup(out, "<li>and %zu more slides: results/labels.csv</li>\n", n - n_shown);
}

/* One slide: its name and reason. Several: how many, what they have in common, and behind a fold
 * what each one's own reason says. */
static void group(struct hrf_out *out, const struct left_out *items, size_t n)
{
    const bool is_equal = have_equal_reasons(items, n);
    if (n == 1) {
        hrf_out_markup(out, "<li><b>%s</b> %s</li>\n", items[0].slide->name, reason_of(&items[0]));
        return;
    }
    hrf_out_markup(out, "<li><b>%zu slides</b> %s<details><summary>which</summary><ul>\n", n,
                   is_equal ? reason_of(&items[0]) : items[0].kind);
    for (size_t i = 0; i < n && i < HRF_PAGE_LINES; i++)
        hrf_out_markup(out, "<li><b>%s</b> %s</li>\n", items[i].slide->name,
                       is_equal ? "" : reason_of(&items[i]));
    and_more(out, n, HRF_PAGE_LINES);
    hrf_out_adds(out, "</ul></details></li>\n");
}

static void state_list(struct hrf_out *out, const struct hrf_cohort *cohort,
                       enum hrf_slide_state state, size_t count, const char *title,
                       const char *hint)
{
    struct left_out_list list = { .items = NULL };
    if (count == 0)
        return;
    collect(cohort, state, count, &list);
    hrf_out_markup(out, "<section id=\"%s\"><h2>%s <small>%zu slide%s; %s</small></h2>",
                   hrf_slide_state_word(state), title, count, count == 1 ? "" : "s", hint);
    hrf_out_adds(out, "<ul class=\"reasons\">\n");
    size_t i = 0;
    for (size_t n, n_groups = 0; i < list.n && n_groups < HRF_PAGE_LINES; i += n, n_groups++) {
        for (n = 1; i + n < list.n && strcmp(list.items[i].kind, list.items[i + n].kind) == 0;)
            n++;
        group(out, &list.items[i], n);
    }
    and_more(out, list.n, i);
    hrf_out_adds(out, "</ul></section>\n");
    release_list(&list);
}

void hrf_page_left_out(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const struct hrf_cohort_counts *c = &cohort->counts;
    state_list(
        out, cohort, HRF_SLIDE_FAILED, c->failed, "Failed",
        "at the precisions that the reason names, at all where it names none; in no figure of "
        "those");
    state_list(out, cohort, HRF_SLIDE_PENDING, c->pending, "Pending",
               "the run is not finished; in no figure above");
    state_list(out, cohort, HRF_SLIDE_NO_TISSUE, c->no_tissue, "No tissue",
               "nothing was scored; in no figure above");
    state_list(out, cohort, HRF_SLIDE_EXCLUDED, c->excluded, "Excluded",
               "by the workflow; in no figure above");
}
