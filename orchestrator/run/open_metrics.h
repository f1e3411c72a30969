/* open_metrics.h - the current figures of a run as an OpenMetrics text, for a node exporter's
 * textfile collector. Pure. Every metric is a gauge, so that the text is also valid in Prometheus'
 * older format, which that collector reads. */
#ifndef HRF_ORCHESTRATOR_RUN_OPEN_METRICS_H
#define HRF_ORCHESTRATOR_RUN_OPEN_METRICS_H

#include "base/strbuf.h"
#include "schema/store/tasks.h"

struct hrf_metrics {
    const char *name, *directory;       /* the run's; the labels "run" and "directory" */
    int64_t slides[HRF_N_SLIDE_STATES]; /* number of slides in each state */
    int64_t tasks[HRF_N_TASK_KINDS][HRF_N_TASK_STATES];
    int64_t n_jobs; /* waiting or running */
    int64_t patches_scored, patches_known;
    double patches_per_second;
    bool is_driven; /* the driver lives: false in the last text that it writes */
    int64_t now_ms; /* wall clock */
};

void hrf_metrics_render(const struct hrf_metrics *metrics, struct hrf_strbuf *out);

#endif
