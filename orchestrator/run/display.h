/* display.h - what a driver shows while it runs: its progress on the terminal, and the workflow's
 * file of metrics. */
#ifndef HRF_ORCHESTRATOR_RUN_DISPLAY_H
#define HRF_ORCHESTRATOR_RUN_DISPLAY_H

#include "orchestrator/run/progress.h"
#include "orchestrator/run/rate.h"

#include <stdint.h>

struct run;

struct run_display {
    struct hrf_progress *progress;
    struct hrf_rate rate; /* rate of scored patches */
    int64_t next_show_ms, next_metrics_ms;
    bool has_metrics_trouble; /* the file cannot be written, and that was said */
};

/* To be called once per loop iteration. */
void run_display_show(struct run *run);
/* Shows the last progress, and writes the last metrics, which say that no driver is left. */
void run_display_finish(struct run *run);
void run_display_end_metrics(struct run *run);
/* Counts the slides by their states into the summary. */
void run_count_slides(struct run *run);

#endif
