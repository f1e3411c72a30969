/* timeline.h - a simulation as a picture: a row a rank, time to the right.
 *
 * Rows are drawn in columns of one px, each in the colour of what the rank did most there, so that
 * the picture stays small however many steps there are. SVG 1.1, no scripts, no fonts loaded.
 */
#ifndef HRF_ENGINE_PLAN_TIMELINE_H
#define HRF_ENGINE_PLAN_TIMELINE_H

#include "base/strbuf.h"
#include "engine/plan/simulate.h"

struct hrf_timeline {
    const char *title, *subtitle; /* any text */
    const char *const *row_names; /* [n_ranks]; NULL: "rank 0" ... */
};

/* Appends; check with hrf_strbuf_status(). */
void hrf_timeline_svg(const struct hrf_timeline *timeline, const struct hrf_simulation *simulation,
                      struct hrf_strbuf *out);
/* `text` with what XML gives a meaning escaped. */
void hrf_svg_text(struct hrf_strbuf *out, const char *text);

#endif
