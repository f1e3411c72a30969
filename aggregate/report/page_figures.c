/* page_figures.c - figures and tables of figures on the page, by their rows. */
#include "aggregate/report/page_private.h"

#include <math.h>

void hrf_page_figure(struct hrf_out *out, const struct hrf_figure_row *row, const void *base)
{
    const double value = hrf_figure_value(row, base);
    const char *reason = hrf_figure_reason(row, base);
    if (isnan(value))
        hrf_out_markup(out, "<span class=\"dash\" title=\"%s\">–</span>",
                       reason != NULL ? reason : "not known");
    else
        hrf_out_adds(out, hrf_figure_text(row, value).text);
}

/* The columns: rows with a heading that no flag of `left_out` takes away. */
static size_t columns_of(const struct hrf_page_table *table,
                         const struct hrf_figure_row *out[HRF_MAX_COLUMNS])
{
    size_t n = hrf_figure_columns(table->rows, HRF_IN_PAGE, table->from, table->to, out), kept = 0;
    for (size_t i = 0; i < n; i++)
        if (out[i]->below_at == 0 && (table->has_gpu || (out[i]->shown & HRF_ONLY_GPU) == 0))
            out[kept++] = out[i];
    return kept;
}

void hrf_page_headings(struct hrf_out *out, const struct hrf_page_table *table,
                       const struct hrf_cohort *cohort)
{
    const struct hrf_figure_row *columns[HRF_MAX_COLUMNS];
    const size_t n = columns_of(table, columns);
    for (size_t i = 0; i < n; i++) {
        hrf_out_adds(out, "<th class=\"n\"");
        if (columns[i]->hint != NULL)
            hrf_out_addf(out, " title=\"%s\"", columns[i]->hint);
        hrf_out_addf(out, ">%s", columns[i]->heading);
        if (columns[i] == HRF_FIGURE_ROW(slides.auc) && hrf_cohort_has_many_classes(cohort))
            hrf_out_markup(out, " of %s", hrf_cohort_label(cohort, true));
        hrf_out_adds(out, "</th>");
    }
}

static void small_print(struct hrf_out *out, const struct hrf_page_table *table,
                        const struct hrf_figure_row *column, const void *base)
{
    const struct hrf_interval ends = hrf_figure_interval(column, base);
    if (column->interval_at > 0 && isnan(ends.low))
        hrf_out_adds(out, "<br><small>same order</small>");
    else if (column->interval_at > 0)
        hrf_out_addf(out, "<br><small>%.*f to %.*f</small>", column->interval_decimals, ends.low,
                     column->interval_decimals, ends.high);
    if (column == HRF_FIGURE_ROW(slides.auc)) {
        const struct hrf_pairs *pairs = &((const struct hrf_cohort_precision *)base)->slides.pairs;
        hrf_out_addf(out,
                     "<br><small title=\"of a positive and a negative slide; a tie is half a "
                     "pair\">%lld of %lld pairs</small>",
                     (long long)pairs->in_order, (long long)pairs->total);
    }
    for (const struct hrf_figure_row *row = table->rows; row->key != NULL; row++) {
        const double value = hrf_figure_value(row, base);
        if (row->below_at != column->at || row->below_at == 0 || isnan(value) ||
            (table->is_reference && (row->shown & HRF_ONLY_OTHERS) != 0))
            continue;
        const struct hrf_figure_text text = hrf_figure_text(row, value);
        if (row->unit == HRF_UNIT_TIMES)
            hrf_out_addf(out, "<br><small>× %s</small>", text.text);
        else
            hrf_out_addf(out, "<br><small>%s %s</small>", text.text, hrf_unit_symbol(row->unit));
    }
}

void hrf_page_cells(struct hrf_out *out, const struct hrf_page_table *table, const void *base)
{
    const struct hrf_figure_row *columns[HRF_MAX_COLUMNS];
    const size_t n = columns_of(table, columns);
    for (size_t i = 0; i < n; i++) {
        hrf_out_adds(out, "<td class=\"n\">");
        hrf_page_figure(out, columns[i], base);
        if (!isnan(hrf_figure_value(columns[i], base)) &&
            !(table->is_reference && (columns[i]->shown & HRF_ONLY_OTHERS) != 0))
            small_print(out, table, columns[i], base);
        hrf_out_adds(out, "</td>");
    }
}
