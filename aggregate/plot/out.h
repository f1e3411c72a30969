/* out.h - writes a file as a stream, plain or gzip; the file appears only when it is complete.
 *
 * Bytes go to a temporary file beside `path`; commit syncs and renames it, destroy without commit
 * removes it. Errors are kept: after the first one, adding does nothing and commit reports it. The
 * gzip form contains no time and no name, so that equal content gives equal bytes.
 */
#ifndef HRF_AGGREGATE_PLOT_OUT_H
#define HRF_AGGREGATE_PLOT_OUT_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>

struct hrf_out; /* opaque */

enum hrf_out_form { HRF_OUT_PLAIN, HRF_OUT_GZIP };
HRF_CHECKED enum hrf_status hrf_out_create(const char *path, enum hrf_out_form form,
                                           struct hrf_out **out, struct hrf_error *err);
void hrf_out_destroy(struct hrf_out *out);
HRF_DEFINE_AUTO(hrf_out)

/* What keeps a part from being written; commit reports it. */
void hrf_out_fail(struct hrf_out *out, const struct hrf_error *why);
void hrf_out_add(struct hrf_out *out, const void *bytes, size_t n_bytes);
void hrf_out_adds(struct hrf_out *out, const char *text);
void hrf_out_addf(struct hrf_out *out, const char *format, ...) HRF_PRINTF(2, 3);
/* The building blocks of the page and the tables. */
void hrf_out_html(struct hrf_out *out, const char *text); /* escaped for text and attributes */
/* Markup with texts in it, as by printf: what %s stands for is escaped by hrf_out_html(). Other
 * conversions: d, u, f and g, with flags, digits and the lengths ll and z, and %%. */
void hrf_out_markup(struct hrf_out *out, const char *format, ...) HRF_PRINTF(2, 3);
void hrf_out_json(struct hrf_out *out, const char *text); /* quoted, ASCII only, as Python's json */
void hrf_out_csv(struct hrf_out *out, const char *text);  /* one harmless cell: base/csv.h */
void hrf_out_url(struct hrf_out *out, const char *path);  /* %XX but for A-Za-z0-9-._~/ */
void hrf_out_base64(struct hrf_out *out, const void *bytes, size_t n_bytes);
/* The shortest decimal that reads back as `value`, in the form of Python's repr: "0.5", "1.0",
 * "3.427372535086404e-12", "nan", "inf". */
void hrf_out_number(struct hrf_out *out, double value);
/* The same into a caller's buffer. */
void hrf_number_text(double value, char text[32]);

/* Completes the file and renames it to its path. */
HRF_CHECKED enum hrf_status hrf_out_commit(struct hrf_out *out, struct hrf_error *err);

#endif
