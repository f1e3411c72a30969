/* slide_scores.h - the csv of the slide task: a slide's name and its probability of metastasis.
 *
 * With a header or without. Without: column 1 is the name, column 2 the score. With a header the
 * columns are found by their titles: "slide", "slide_name", "name", "image" or "case", and "score",
 * "probability" or "p", else the first and the second column. A run's labels.csv is such a table:
 * where there is a column "precision" the rows of one are taken, and where there is a column
 * "state" rows without a score are passed over. Names are kept as hrf_camelyon16_name() writes
 * them.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_SLIDE_SCORES_H
#define HRF_AGGREGATE_CAMELYON16_SLIDE_SCORES_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>

struct hrf_named_score {
    char *name;
    double score;
    int line;
};
struct hrf_slide_scores {
    struct hrf_named_score *items; /* sorted by name; names are unique */
    size_t n_items;
};

/* `column`: the title of the score's column; NULL: as above. `precision`: NULL is that of the first
 * row. HRF_E_USER names the line: a score
 * that is not a finite number, a slide that is there twice with two scores (with one it is taken
 * once), a column that is missing. */
HRF_CHECKED enum hrf_status
hrf_slide_scores_parse(const char *text, size_t n_bytes, const char *where, const char *column,
                       const char *precision, struct hrf_slide_scores **out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_slide_scores_read(const char *path, const char *column,
                                                  const char *precision,
                                                  struct hrf_slide_scores **out,
                                                  struct hrf_error *err);
void hrf_slide_scores_destroy(struct hrf_slide_scores *scores);
HRF_DEFINE_AUTO(hrf_slide_scores)

#endif
