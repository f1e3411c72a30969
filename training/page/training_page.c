/* training_page.c - see training_page.h. */
#include "training/page/training_page.h"

#include "aggregate/plot/plot.h"
#include "base/csv.h"
#include "base/directory.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/path.h"
#include "statistics/most_likely.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct hrf_embedded hrf_training_files[];

/* The losses of one training by epoch. */
struct losses {
    char *name;
    int64_t n_epochs;
    double *values[2]; /* of training, of validation: NaN where there is none */
};

struct training_page {
    const struct hrf_trainings *trainings;
    const struct hrf_sample_list *list;
    const char *title;
    const json_t *summary;
    struct losses *losses;
    size_t n_losses;
    struct hrf_scored scored; /* with the first seed */
    const struct hrf_figure_row *rows;
};

static void training_page_release(struct training_page *page)
{
    for (size_t i = 0; i < page->n_losses; i++) {
        hrf_free(page->losses[i].name);
        hrf_free(page->losses[i].values[0]);
        hrf_free(page->losses[i].values[1]);
    }
    hrf_free(page->losses);
    hrf_scored_release(&page->scored);
}

/* ---- what the trainings left ---- */

static enum hrf_status read_losses(const char *folder, struct losses *out, struct hrf_error *err)
{
    static const char *const titles[] = { "training_loss", "validation_loss" };
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "history.csv");
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(path, &csv, err));
    out->name = hrf_strdup(hrf_path_name(folder));
    out->n_epochs = csv->n_rows > 0 ? (int64_t)csv->n_rows - 1 : 0;
    for (int k = 0; k < 2; k++) {
        const int column = csv->n_rows > 0 ? hrf_csv_column(&csv->rows[0], titles[k]) : -1;
        out->values[k] = hrf_alloc_array(csv->n_rows + 1, sizeof *out->values[k]);
        for (int64_t i = 0; i < out->n_epochs; i++) {
            const char *cell = hrf_csv_cell(&csv->rows[i + 1], column);
            out->values[k][i] = cell[0] != '\0' ? strtod(cell, NULL) : NAN;
        }
    }
    return HRF_OK;
}

static enum hrf_status read_all(struct training_page *page, struct hrf_error *err)
{
    const struct hrf_trainings *t = page->trainings;
    page->losses = hrf_calloc((size_t)hrf_trainings_count(t) + 1, sizeof *page->losses);
    for (int64_t i = 0; i < hrf_trainings_count(t); i++) {
        HRF_AUTO_FREE char *folder = hrf_trainings_folder(t, i);
        HRF_AUTO_FREE char *predictions = hrf_path_join(folder, "predictions.csv");
        if (!t->find_result(t->context, i, NULL, NULL))
            continue;
        HRF_TRY(read_losses(folder, &page->losses[page->n_losses++], err));
        if (i / t->n_folds == 0)
            HRF_TRY(hrf_scored_read(&page->scored, predictions, t->classes, err));
    }
    return HRF_OK;
}

/* ---- figures ---- */

static void add_summary(struct hrf_out *out, const struct training_page *page)
{
    const struct hrf_text_list *classes = page->trainings->classes;
    hrf_out_addf(out, "%zu %s of %lld px · classes ", page->list->set.n_items,
                 page->list->set.nouns, (long long)page->list->side);
    for (size_t k = 0; k < classes->n_items; k++)
        hrf_out_markup(out, "%s%s", k > 0 ? ", " : "", classes->items[k]);
}

static void add_mean(struct hrf_out *out, const json_t *mean)
{
    const json_t *value = json_object_get(mean, "mean");
    const json_t *deviation = json_object_get(mean, "deviation");
    if (!json_is_number(value)) {
        hrf_out_adds(out, "–");
        return;
    }
    hrf_out_addf(out, "%.4f", json_number_value(value));
    if (json_is_number(deviation))
        hrf_out_addf(out, " <small>± %.4f</small>", json_number_value(deviation));
}

static void add_cards(struct hrf_out *out, const struct training_page *page)
{
    const json_t *pooled = json_object_get(page->summary, "pooled");
    hrf_out_adds(out, "<div class=\"cards\">");
    for (const struct hrf_figure_row *row = page->rows; row->key != NULL; row++) {
        hrf_out_markup(out, "<div class=\"card\"><h3>%s</h3><b>", row->heading);
        add_mean(out, json_object_get(pooled, row->key));
        hrf_out_adds(out, "</b><p>training by training ");
        add_mean(out, json_object_get(page->summary, row->key));
        hrf_out_adds(out, "</p></div>");
    }
    hrf_out_adds(out, "</div>\n");
}

static void add_cell(struct hrf_out *out, const json_t *value)
{
    if (json_is_integer(value))
        hrf_out_addf(out, "<td class=\"n\">%lld</td>", (long long)json_integer_value(value));
    else if (json_is_number(value))
        hrf_out_addf(out, "<td class=\"n\">%.4f</td>", json_number_value(value));
    else
        hrf_out_adds(out, "<td class=\"n\">–</td>");
}

struct column {
    const char *key, *heading;
};

static void add_trainings(struct hrf_out *out, const struct training_page *page)
{
    static const struct column counts[] = { { "training_pictures", "training" },
                                            { "validation_pictures", "validation" },
                                            { "testing_pictures", "testing" },
                                            { "epochs", "epochs" },
                                            { "best_epoch", "best epoch" } };
    enum { N_COUNTS = sizeof counts / sizeof counts[0] };
    struct column columns[N_COUNTS + HRF_MAX_COLUMNS];
    int n = N_COUNTS;
    memcpy(columns, counts, sizeof counts);
    for (const struct hrf_figure_row *row = page->rows; row->key != NULL; row++)
        columns[n++] = (struct column){ row->key, row->short_heading };
    const json_t *all = json_object_get(page->summary, "trainings");
    hrf_out_adds(out, "<section><h2>Trainings</h2><table><thead><tr><th></th>");
    for (int k = 0; k < n; k++)
        hrf_out_markup(out, "<th class=\"n\">%s</th>", columns[k].heading);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        hrf_out_markup(out, "<tr><th>%s</th>", name != NULL ? name : "");
        for (int k = 0; k < n; k++)
            add_cell(out, json_object_get(one, columns[k].key));
        hrf_out_adds(out, "</tr>\n");
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

/* The figures of each of several labels or numbers. */
static void add_classes(struct hrf_out *out, const struct training_page *page)
{
    const json_t *all = json_object_get(json_object_get(page->summary, "pooled"), "classes");
    if (json_array_size(all) == 0)
        return;
    hrf_out_markup(out, "<section><h2>%s</h2><table><thead><tr><th></th>",
                   page->scored.kind == HRF_LABEL_NUMBERS  ? "Numbers"
                   : page->scored.kind == HRF_LABEL_PIXELS ? "Classes of pixels"
                                                           : "Labels");
    for (const struct hrf_figure_row *row = page->rows; row->key != NULL; row++)
        hrf_out_markup(out, "<th class=\"n\">%s</th>", row->short_heading);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < json_array_size(all); k++) {
        const json_t *one = json_array_get(all, k);
        hrf_out_markup(out, "<tr><th>%s</th>", page->trainings->classes->items[k]);
        for (const struct hrf_figure_row *row = page->rows; row->key != NULL; row++)
            add_cell(out, json_object_get(json_object_get(one, row->key), "mean"));
        hrf_out_adds(out, "</tr>\n");
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

/* ---- losses by epoch ---- */

/* The least of 1, 2, 5, 10 ... times a power of ten that is not below. */
static double round_up(double value)
{
    static const double steps[] = { 1, 2, 5, 10 };
    const double power = pow(10, floor(log10(value)));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (value <= steps[i] * power)
            return steps[i] * power;
    return value;
}

static void loss_line(struct hrf_out *out, const struct losses *l, int kind, size_t index,
                      double x_most, double y_most)
{
    bool is_begun = false;
    hrf_plot_line(out, index);
    for (int64_t i = 0; i < l->n_epochs; i++) {
        if (isnan(l->values[kind][i]))
            continue;
        hrf_out_addf(out, "%c%.1f %.1f", is_begun ? 'L' : 'M',
                     HRF_PLOT_LEFT + HRF_PLOT_SIDE * (double)(i + 1) / x_most,
                     HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * l->values[kind][i] / y_most);
        is_begun = true;
    }
    hrf_out_adds(out, "\"/>");
}

static void add_loss(struct hrf_out *out, const struct training_page *page, int kind)
{
    static const char *const headings[] = { "Training loss", "Validation loss" };
    double epochs = 1, most = 0;
    for (size_t i = 0; i < page->n_losses; i++)
        for (int64_t e = 0; e < page->losses[i].n_epochs; e++) {
            epochs = fmax(epochs, (double)e + 1);
            most = fmax(most, page->losses[i].values[kind][e]); /* passes NaN over */
        }
    if (!(most > 0))
        return;
    const double x_most = 4 * ceil(epochs / 4), y_most = round_up(most);
    hrf_out_markup(out, "<section><h2>%s</h2>\n", headings[kind]);
    hrf_plot_scaled(out, headings[kind], 318, "epoch", x_most, y_most);
    for (size_t i = page->n_losses; i-- > 0;)
        loss_line(out, &page->losses[i], kind, i, x_most, y_most);
    hrf_out_adds(out, "</svg>\n<ul class=\"key\">");
    for (size_t i = 0; i < page->n_losses; i++) {
        hrf_plot_key(out, i);
        hrf_out_markup(out, "%s</li>", page->losses[i].name);
    }
    hrf_out_adds(out, "</ul></section>\n");
}

static void add_losses(struct hrf_out *out, const struct training_page *page)
{
    add_loss(out, page, 0);
    add_loss(out, page, 1);
}

/* ---- curves: each class against all others ---- */

/* The items of one class against all others; false if there are none of either. */
static bool label_items(const struct training_page *page, size_t class, struct hrf_labelled *items)
{
    const struct hrf_scored *s = &page->scored;
    const size_t n_classes = page->trainings->classes->n_items;
    size_t n_positive = 0;
    for (size_t i = 0; i < s->n; i++) {
        const float score = s->scores[i * n_classes + class];
        if (isnan(score))
            return false;
        items[i] = (struct hrf_labelled){ (double)score, s->truths[i * n_classes + class] > 0.5F };
        n_positive += items[i].positive;
    }
    return n_positive > 0 && n_positive < s->n;
}

static void add_curves(struct hrf_out *out, const struct training_page *page, bool is_recall)
{
    const struct hrf_text_list *classes = page->trainings->classes;
    const bool is_class = page->scored.kind == HRF_LABEL_CLASS;
    const size_t first = is_class && classes->n_items == 2 ? 1 : 0;
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(page->scored.n + 1, sizeof *items);
    if (page->scored.n == 0 || (!is_class && page->scored.kind != HRF_LABEL_SEVERAL))
        return;
    hrf_out_markup(out, "<section><h2>%s <small>%s</small></h2>\n",
                   is_recall ? "Precision and recall" : "ROC curve",
                   is_class ? "each class against all others" : "each label");
    if (is_recall)
        hrf_plot_frame(out, "Precision-recall curve", 318, "recall (sensitivity)");
    else
        hrf_plot_square(out, "ROC curve", 318, "1 − specificity");
    hrf_plot_y_title(out, is_recall ? "precision" : "sensitivity");
    for (size_t k = first; k < classes->n_items; k++)
        if (label_items(page, k, items))
            (is_recall ? hrf_plot_recall : hrf_plot_roc)(out, items, page->scored.n, k - first);
    hrf_out_adds(out, "</svg>\n<ul class=\"key\">");
    for (size_t k = first; k < classes->n_items; k++) {
        hrf_plot_key(out, k - first);
        hrf_out_markup(out, "%s</li>", classes->items[k]);
    }
    hrf_out_adds(out, "</ul></section>\n");
}

static void add_roc(struct hrf_out *out, const struct training_page *page)
{
    add_curves(out, page, false);
}

static void add_recall(struct hrf_out *out, const struct training_page *page)
{
    add_curves(out, page, true);
}

/* ---- numbers against their truths ---- */

static double widest(const struct training_page *page, size_t k, double *least)
{
    const size_t n_classes = page->trainings->classes->n_items;
    double most = -INFINITY;
    *least = INFINITY;
    for (size_t i = 0; i < page->scored.n; i++) {
        const double truth = (double)page->scored.truths[i * n_classes + k];
        const double value = (double)page->scored.scores[i * n_classes + k];
        *least = fmin(*least, fmin(truth, value));
        most = fmax(most, fmax(truth, value));
    }
    return most > *least ? most - *least : 1;
}

static void add_points(struct hrf_out *out, const struct training_page *page, size_t k)
{
    const size_t n_classes = page->trainings->classes->n_items;
    const char *name = page->trainings->classes->items[k];
    double least = 0;
    const double range = widest(page, k, &least);
    hrf_out_markup(out, "<section><h2>%s</h2>\n", name);
    hrf_plot_ranged(out, name, 318, "truth", least, least + range);
    hrf_plot_y_title(out, "given by the network");
    for (size_t i = 0; i < page->scored.n; i++) {
        const double truth = (double)page->scored.truths[i * n_classes + k];
        const double value = (double)page->scored.scores[i * n_classes + k];
        hrf_out_addf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"var(--s0)\"/>",
                     HRF_PLOT_LEFT + HRF_PLOT_SIDE * (truth - least) / range,
                     HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * (value - least) / range);
    }
    hrf_out_adds(out, "</svg></section>\n");
}

static void add_scatter(struct hrf_out *out, const struct training_page *page)
{
    for (size_t k = 0; page->scored.kind == HRF_LABEL_NUMBERS && page->scored.n > 0 &&
                       k < page->trainings->classes->n_items;
         k++)
        add_points(out, page, k);
}

/* ---- confusion and mistakes ---- */

static size_t called(const struct training_page *page, size_t i)
{
    const size_t n = page->trainings->classes->n_items;
    return (size_t)hrf_most_likely(page->scored.scores + i * n, (int64_t)n);
}

static size_t class_of(const struct training_page *page, size_t i)
{
    const size_t n = page->trainings->classes->n_items;
    return (size_t)hrf_most_likely(page->scored.truths + i * n, (int64_t)n);
}

static void add_confusion(struct hrf_out *out, const struct training_page *page)
{
    const struct hrf_text_list *classes = page->trainings->classes;
    const size_t n = classes->n_items;
    HRF_AUTO_FREE size_t *counts = hrf_calloc(n * n + 1, sizeof *counts);
    if (page->scored.n == 0 || page->scored.kind != HRF_LABEL_CLASS)
        return;
    for (size_t i = 0; i < page->scored.n; i++)
        counts[class_of(page, i) * n + called(page, i)]++;
    hrf_out_adds(out, "<section><h2>Confusion</h2><table><thead><tr><th></th>");
    for (size_t k = 0; k < n; k++)
        hrf_out_markup(out, "<th class=\"n\">called %s</th>", classes->items[k]);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < n; k++) {
        hrf_out_markup(out, "<tr><th>%s</th>", classes->items[k]);
        for (size_t c = 0; c < n; c++)
            hrf_out_addf(out, "<td class=\"n%s\">%zu</td>", c == k ? " same" : "",
                         counts[k * n + c]);
        hrf_out_adds(out, "</tr>\n");
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

struct mistake {
    size_t item, class;
    float size; /* the larger, the worse */
};

static int by_size(const void *a, const void *b)
{
    const struct mistake *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* The share of a picture's pixels that are called wrongly. */
static float wrong_share(const struct training_page *page, size_t i)
{
    const size_t n_classes = page->trainings->classes->n_items;
    const float *scores = page->scored.scores + i * (2 * n_classes + 1);
    float all = 0, right = 0;
    for (size_t k = 0; k < n_classes; k++) {
        all += page->scored.truths[i * n_classes + k];
        right += scores[k];
    }
    return all > 0 ? 1 - right / all : 0;
}

/* The worst that an item is wrong in; false: it is right. */
static bool find_mistake(const struct training_page *page, size_t i, struct mistake *out)
{
    const size_t n_classes = page->trainings->classes->n_items;
    if (page->scored.kind == HRF_LABEL_PIXELS) {
        *out = (struct mistake){ i, 0, wrong_share(page, i) };
        return out->size > 0;
    }
    const float *scores = page->scored.scores + i * n_classes;
    const float *truths = page->scored.truths + i * n_classes;
    if (page->scored.kind == HRF_LABEL_CLASS) {
        const size_t class = class_of(page, i);
        *out = (struct mistake){ i, class, -scores[class] };
        return called(page, i) != class;
    }
    *out = (struct mistake){ i, 0, -1 };
    for (size_t k = 0; k < n_classes; k++) {
        const float off = fabsf(scores[k] - truths[k]);
        if (off > out->size)
            *out = (struct mistake){ i, k, off };
    }
    return page->scored.kind == HRF_LABEL_NUMBERS ? out->size > 0 : out->size >= 0.5F;
}

static void add_caption(struct hrf_out *out, const struct training_page *page,
                        const struct mistake *m)
{
    const struct hrf_text_list *classes = page->trainings->classes;
    const size_t at = m->item * classes->n_items + m->class;
    const double score = (double)page->scored.scores[at];
    const char *name = classes->items[m->class];
    hrf_out_markup(out, "<figcaption>%s<br>", page->scored.names[m->item]);
    if (page->scored.kind == HRF_LABEL_PIXELS) {
        hrf_out_addf(out, "%.1f %% of its pixels</figcaption></figure>\n", 100 * (double)m->size);
        return;
    }
    if (page->scored.kind == HRF_LABEL_CLASS)
        hrf_out_markup(out, "is %s (%.3f), called %s", name, score,
                       classes->items[called(page, m->item)]);
    else if (page->scored.kind == HRF_LABEL_SEVERAL)
        hrf_out_markup(out, "is %s%s (%.3f)", page->scored.truths[at] > 0.5F ? "" : "not ", name,
                       score);
    else
        hrf_out_markup(out, "%s is %.4g, given %.4g", name, (double)page->scored.truths[at], score);
    hrf_out_adds(out, "</figcaption></figure>\n");
}

/* The picture itself, so that the page is whole; a large one is only named, and so is a bag. */
static void add_picture(struct hrf_out *out, const struct training_page *page, const char *name)
{
    enum { MOST_BYTES = 1 << 19 };
    for (size_t i = 0; page->list->patches == NULL && i < page->list->set.n_items; i++) {
        const struct hrf_sample *sample = &page->list->items[i];
        HRF_AUTO_FREE char *bytes = NULL;
        size_t n = 0;
        if (strcmp(sample->name, name) != 0)
            continue;
        if (hrf_file_read(sample->path, MOST_BYTES, &bytes, &n, NULL) != HRF_OK || n < 4)
            return;
        hrf_out_addf(out, "<img alt=\"\" src=\"data:image/%s;base64,",
                     bytes[1] == 'P' ? "png" : "jpeg");
        hrf_out_base64(out, bytes, n);
        hrf_out_adds(out, "\">");
        return;
    }
}

static void add_mistakes(struct hrf_out *out, const struct training_page *page)
{
    enum { SHOWN = 12 };
    const struct hrf_scored *s = &page->scored;
    HRF_AUTO_FREE struct mistake *mistakes = hrf_alloc_array(s->n + 1, sizeof *mistakes);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += find_mistake(page, i, &mistakes[n]);
    if (s->n == 0)
        return;
    qsort(mistakes, n, sizeof mistakes[0], by_size);
    hrf_out_addf(out, "<section><h2>Worst mistakes <small>%zu of %zu %s</small></h2>\n", n, s->n,
                 page->list->set.nouns);
    if (n == 0)
        hrf_out_adds(out, "<p class=\"none\">There are none.</p>");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        hrf_out_adds(out, "<figure>");
        add_picture(out, page, s->names[mistakes[i].item]);
        add_caption(out, page, &mistakes[i]);
    }
    hrf_out_adds(out, "</section>\n");
}

/* ---- the page ---- */

static void add_title(struct hrf_out *out, const struct training_page *page)
{
    hrf_out_html(out, page->title);
}

static void fill(struct hrf_out *out, const char *name, const void *context)
{
    static const struct {
        const char *name;
        void (*add)(struct hrf_out *out, const struct training_page *page);
    } parts[] = { { "title", add_title },
                  { "summary", add_summary },
                  { "cards", add_cards },
                  { "losses", add_losses },
                  { "roc", add_roc },
                  { "recall", add_recall },
                  { "scatter", add_scatter },
                  { "classes", add_classes },
                  { "confusion", add_confusion },
                  { "mistakes", add_mistakes },
                  { "trainings", add_trainings } };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].name, name) == 0)
            parts[i].add(out, context);
}

enum hrf_status hrf_training_page_write(const struct hrf_trainings *trainings,
                                        const struct hrf_sample_list *list, const char *title,
                                        const json_t *summary, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(training_page)
    page = { .trainings = trainings,
             .list = list,
             .title = title,
             .summary = summary,
             .scored = { .kind = trainings->kind },
             .rows = hrf_scored_rows[trainings->kind] };
    HRF_AUTO_FREE char *folder = hrf_path_join(trainings->out, "report");
    HRF_AUTO_FREE char *path = hrf_path_join(folder, "index.html");
    HRF_TRY(read_all(&page, err));
    HRF_TRY(hrf_path_make_directories(folder, err));
    return hrf_page_write(hrf_embedded_find(hrf_training_files, "training.html")->text, fill, &page,
                          path, err);
}
