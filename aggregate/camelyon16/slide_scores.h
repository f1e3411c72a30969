/* slide_scores.h - the csv of the slide task: a slide's name and its probability of metastasis.
 *
 * A header is optional. Without one, column 1 is the name and column 2 the score. With one, the
 * columns are found by their titles: "slide", "slide_name", "name", "image" or "case", and "score",
 * "probability" or "p", else the first and the second column. A run's labels.csv is such a table:
 * if there is a column "precision", the rows of one precision are taken, and if there is a column
 * "state", rows without a score are skipped. Names are stored as hrf_camelyon16_name() writes them.
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

/* `column` is the title of the score's column; NULL: as above. `precision` NULL stands for that of
 * the first row. A slide that occurs twice with the same score is taken once. HRF_E_USER, with the
 * line: a score is not a finite number, a slide has two different scores, or a column is missing.
 */
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
