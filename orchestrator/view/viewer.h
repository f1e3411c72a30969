/* viewer.h - a web server on this machine that shows a run: its state, its slides at any zoom, and
 * their scores; or the trainings of a recipe, with their curves.
 *
 * It listens on 127.0.0.1 only, and every address begins with a random token, so that other users
 * of the machine cannot read anything. It only reads, and the run or the trainings may be in
 * progress. A few threads answer requests.
 */
#ifndef HRF_ORCHESTRATOR_VIEW_VIEWER_H
#define HRF_ORCHESTRATOR_VIEW_VIEWER_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>

struct hrf_viewer; /* opaque */

struct hrf_viewer_config {
    const char *directory; /* of the run or the trainings; borrowed for life */
    const char *leaflet;   /* folder of leaflet.js and leaflet.css; borrowed for life */
    int port;              /* 0: any that is free */
    /* Returns the run's state as `status --json` prints it, or NULL if it cannot be read. New
     * reference. */
    json_t *(*status)(const char *directory);
};

/* True for a folder that holds folders of trainings, fold-F-seed-S. */
bool hrf_viewer_is_of_training(const char *directory);

/* HRF_E_USER: there is no run, or the port is taken. */
HRF_CHECKED enum hrf_status hrf_viewer_start(const struct hrf_viewer_config *config,
                                             struct hrf_viewer **out, struct hrf_error *err);
/* Returns the page's address with its token; the viewer owns it. */
const char *hrf_viewer_url(const struct hrf_viewer *viewer);
int hrf_viewer_port(const struct hrf_viewer *viewer);
void hrf_viewer_destroy(struct hrf_viewer *viewer);
HRF_DEFINE_AUTO(hrf_viewer)

#endif
