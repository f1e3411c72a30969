/* figure.h - figures as rows: name, unit, format, direction, help, where each is shown, and the
 * offset of its value in the struct that holds it.
 *
 * A figure is written once, as a row. JSON, CSV, pages, terminals and docs/ walk the rows, so that
 * a new figure is its member, what computes it, and its row. The tables of rows are with their
 * structs: aggregate/study/figure_rows.h, training/cohort/scored.h.
 */
#ifndef HRF_STATISTICS_FIGURE_H
#define HRF_STATISTICS_FIGURE_H

#include "base/json.h"
#include "statistics/metrics.h"

#include <stddef.h>

/* A value that cannot be computed is NaN with a reason beside it, never 0. */
struct hrf_figure {
    double value; /* NaN: see reason */
    char *reason; /* heap; NULL when there is a value */
};

enum hrf_unit {
    HRF_UNIT_ONE = 1, /* a share, an area under a curve, a probability, a cosine */
    HRF_UNIT_COUNT,
    HRF_UNIT_TIMES, /* times the reference */
    HRF_UNIT_SECONDS,
    HRF_UNIT_CLOCK_MS, /* a time of a wall clock, ms since 1970 */
    HRF_UNIT_BYTES,
    HRF_UNIT_PROCESSORS,
    HRF_UNIT_PATCHES_PER_SECOND,
    HRF_UNIT_SLIDES_PER_HOUR,
    HRF_UNIT_JOULES_PER_PATCH,
    HRF_UNIT_JOULES_PER_SLIDE,
    HRF_UNIT_SQUARE_MM,
    HRF_UNIT_GB_PER_SECOND,
    HRF_UNIT_OF_SCORE, /* that of the scores of a regression */
    HRF_UNIT_TEXT,
    HRF_N_UNITS
};
/* Returns the symbol of a unit, e.g. "patches/s"; "" for a count, a text and HRF_UNIT_ONE. */
const char *hrf_unit_symbol(enum hrf_unit unit);

enum hrf_better { HRF_BETTER_NEITHER = 1, HRF_BETTER_HIGHER, HRF_BETTER_LOWER };

enum { /* where it is shown */
       HRF_IN_JSON = 1,
       HRF_IN_CSV = 2,
       HRF_IN_PAGE = 4,
       HRF_IN_TEXT = 8,      /* of `compare` */
       HRF_ONLY_GPU = 16,    /* on the page only where a GPU computed */
       HRF_ONLY_OTHERS = 32, /* small print only where there is a reference to compare with */
};

enum hrf_figure_type {
    HRF_FIGURE_VALUE = 1, /* struct hrf_figure */
    HRF_FIGURE_DOUBLE,
    HRF_FIGURE_INT32,
    HRF_FIGURE_INT64,
    HRF_FIGURE_SIZE,
    HRF_FIGURE_COMPUTED, /* by `compute` or `text` */
};

/* decimals: "%.3g"; one, none from 100 on; "%.4g" */
enum { HRF_3_DIGITS = -1, HRF_1_BELOW_100 = -2, HRF_4_DIGITS = -3 };

struct hrf_figure_row {
    const char *key; /* in JSON; NULL ends a table */
    const char *csv; /* its column in a CSV file, where that is not the key */
    int part;        /* the object or table of several that has it, from 1; 0: there is just one */
    enum hrf_unit unit;
    enum hrf_better better;
    unsigned shown;
    int column; /* the position among the columns of a table; JSON and docs/ have the rows' order */
    const char *heading;             /* of its column on the page, or of its line on a terminal */
    const char *hint;                /* the tooltip of the heading */
    const char *short_heading;       /* of its column in `compare` */
    const char *help;                /* its description in docs/ */
    int decimals, interval_decimals; /* on the page and in `compare` */
    enum hrf_figure_type type;
    size_t at;
    size_t interval_at; /* offset of a struct hrf_interval whose ends are shown, too; 0: none */
    size_t below_at;   /* on the page in small print below the figure of that offset; 0: a column */
    size_t counted_at; /* offset of an int64_t: a CSV file has no value if that is 0; 0: always a
                          value */
    size_t reason_at;  /* offset of a char[] that says why there is no value; 0: see `unknown` */
    const char *unknown; /* why there is no value, for types other than HRF_FIGURE_VALUE */
    double (*compute)(const void *base);
    const char *(*text)(const void *base); /* HRF_UNIT_TEXT */
};
/* Type and offset of a member of `struct base`. */
#define HRF_FIGURE_AT(base, member)                                                                \
    .type = _Generic(((const struct base *)0)->member, struct hrf_figure                           \
                     : HRF_FIGURE_VALUE, double                                                    \
                     : HRF_FIGURE_DOUBLE, int32_t                                                  \
                     : HRF_FIGURE_INT32, int64_t                                                   \
                     : HRF_FIGURE_INT64, size_t                                                    \
                     : HRF_FIGURE_SIZE),                                                           \
    .at = offsetof(struct base, member)
#define HRF_FIGURE_INTERVAL_AT(base, member)                                                       \
    .interval_at = _Generic(&((const struct base *)0)->member,                                     \
        const struct hrf_interval *: offsetof(struct base, member))

/* Returns the value, or NaN if there is none; hrf_figure_reason() then says why (NULL: not known).
 */
double hrf_figure_value(const struct hrf_figure_row *row, const void *base);
const char *hrf_figure_reason(const struct hrf_figure_row *row, const void *base);
/* Returns the interval of a figure, or {NaN, NaN} if there is no value or no interval. */
struct hrf_interval hrf_figure_interval(const struct hrf_figure_row *row, const void *base);
/* Frees the reasons. */
void hrf_figures_release(const struct hrf_figure_row *rows, void *base);

/* Lists the rows that are shown in one place (a bit of `shown`) of parts `from` to `to` (0: all),
 * sorted by `column`, and returns their number. The rows are borrowed. */
enum { HRF_MAX_COLUMNS = 64 };
size_t hrf_figure_columns(const struct hrf_figure_row *rows, unsigned shown, int from, int to,
                          const struct hrf_figure_row *out[HRF_MAX_COLUMNS]);
/* True if a row belongs to one of the parts `from` to `to` (from 0: to any). */
bool hrf_figure_is_of(const struct hrf_figure_row *row, int from, int to);

struct hrf_figure_text {
    char text[64];
};
/* Formats the number as the page and `compare` show it, without its unit. */
struct hrf_figure_text hrf_figure_text(const struct hrf_figure_row *row, double value);
/* Returns the name of its column in a CSV file. */
const char *hrf_figure_csv_name(const struct hrf_figure_row *row);

/* Puts the rows of one part (0: of a table without parts) that are shown in JSON. NaN becomes null,
 * with the reason as "<key>_reason"; an interval is "<key>_ci". */
void hrf_figures_put(json_t *object, const struct hrf_figure_row *rows, int part, const void *base);
/* Reads what hrf_figures_put() wrote of whole and real numbers; `where` names the object. */
HRF_CHECKED enum hrf_status hrf_figures_get(const json_t *object, const struct hrf_figure_row *rows,
                                            const char *where, void *base, struct hrf_error *err);
/* Puts "<key>_reason". */
void hrf_json_put_reason(json_t *object, const char *key, const char *reason);
/* Puts a number; NaN becomes null with a reason. */
void hrf_json_put_ratio(json_t *object, const char *key, double value, const char *reason);
/* Puts [low, high] of a figure; null with a reason if the figure has no value or no spread. */
void hrf_json_put_interval(json_t *object, const char *key, double value, const char *reason,
                           const struct hrf_interval *interval);

#endif
