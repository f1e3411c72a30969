/* viewer.h - a web server on this machine that shows a run: its state, its slides at any zoom, and
 * what was scored over them.
 *
 * It listens on 127.0.0.1 alone, and every address begins with a random token, so that other users
 * of the machine cannot read along. It only reads; a run may be under way. Requests are answered by
 * a few threads.
 */
#ifndef HRF_ORCHESTRATOR_VIEW_VIEWER_H
#define HRF_ORCHESTRATOR_VIEW_VIEWER_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

struct hrf_viewer; /* opaque */

struct hrf_viewer_config {
    const char *directory; /* the run's; borrowed for life */
    const char *leaflet;   /* folder of leaflet.js and leaflet.css; borrowed for life */
    int port;              /* 0: any that is free */
    /* The run's state as `status --json` has it; NULL: it cannot be read. New reference. */
    json_t *(*status)(const char *directory);
};

/* HRF_E_USER: there is no run, or the port is taken. */
HRF_CHECKED enum hrf_status hrf_viewer_start(const struct hrf_viewer_config *config,
                                             struct hrf_viewer **out, struct hrf_error *err);
/* The page's address with its token; belongs to the viewer. */
const char *hrf_viewer_url(const struct hrf_viewer *viewer);
int hrf_viewer_port(const struct hrf_viewer *viewer);
void hrf_viewer_destroy(struct hrf_viewer *viewer);
HRF_DEFINE_AUTO(hrf_viewer)

#endif
