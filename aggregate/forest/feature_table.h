/* feature_table.h - the 30 heat-map features of slides as a csv table.
 *
 * Columns are found by their titles: "name" or "slide", "tumor" or "truth" (1, 0, or empty:
 * unknown), and hrf_map_feature_names; others are ignored. DIDSR's published tables have this form.
 */
#ifndef HRF_AGGREGATE_FOREST_FEATURE_TABLE_H
#define HRF_AGGREGATE_FOREST_FEATURE_TABLE_H

#include "aggregate/slide/map_features.h"
#include "base/alloc.h"
#include "base/strbuf.h"

#include <stdbool.h>

struct hrf_feature_row {
    char *slide; /* as hrf_camelyon16_name() */
    int truth;   /* 1, 0; -1 = unknown */
    double values[HRF_MAP_FEATURES];
};
struct hrf_feature_table {
    struct hrf_feature_row *rows;
    size_t n_rows, capacity;
};
void hrf_feature_table_destroy(struct hrf_feature_table *table);
HRF_DEFINE_AUTO(hrf_feature_table)

/* Appends the rows of a file to *table, which is created if it is NULL. HRF_E_USER, with the line:
 * a column is missing, a value is not a number, or a slide occurs twice. */
HRF_CHECKED enum hrf_status
hrf_feature_table_read(const char *path, struct hrf_feature_table **table, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_feature_table_parse(const char *text, size_t n_bytes,
                                                    const char *where,
                                                    struct hrf_feature_table **table,
                                                    struct hrf_error *err);
/* Append the line of titles, and a slide's line. */
void hrf_feature_table_add_titles(struct hrf_strbuf *out);
void hrf_feature_table_add_row(struct hrf_strbuf *out, const char *slide, int truth,
                               const double values[HRF_MAP_FEATURES]);

#endif
