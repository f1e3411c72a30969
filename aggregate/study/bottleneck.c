/* bottleneck.c - the longest phase, the longest part of it, and what can be done. */
#include "aggregate/study/bottleneck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "unknown", "queue",   "tiling",   "calibration",
                                     "reading", "compute", "starting", "writing" };

const char *hrf_bottleneck_name(enum hrf_bottleneck_kind kind)
{
    return names[kind];
}

/* ---- parts of inference ---- */

static int by_share(const void *a, const void *b)
{
    const struct hrf_job_part *x = a, *y = b;
    return x->share < y->share ? 1 : x->share > y->share ? -1 : (int)x->kind - (int)y->kind;
}

void hrf_job_parts(const struct hrf_timing *t, struct hrf_job_part parts[HRF_JOB_PARTS])
{
    const struct hrf_job_part seconds[HRF_JOB_PARTS] = { { HRF_BOTTLENECK_READING, t->wait },
                                                         { HRF_BOTTLENECK_COMPUTE, t->compute },
                                                         { HRF_BOTTLENECK_STARTING, t->build },
                                                         { HRF_BOTTLENECK_WRITING, t->write } };
    double sum = 0.0;
    for (size_t i = 0; i < HRF_JOB_PARTS; i++)
        sum += seconds[i].share;
    /* Ranks compute at the same time: their seconds together are more than the job's. */
    const double all = fmax(fmax(t->total, sum), 1e-9);
    for (size_t i = 0; i < HRF_JOB_PARTS; i++)
        parts[i] = (struct hrf_job_part){ seconds[i].kind, seconds[i].share / all };
    qsort(parts, HRF_JOB_PARTS, sizeof *parts, by_share);
}

enum hrf_bottleneck_kind hrf_gain_limit(const struct hrf_cohort_precision *p)
{
    const double network = p->speed.compute_speedup.value, job = p->speed.speedup.value;
    struct hrf_job_part parts[HRF_JOB_PARTS];
    if (isnan(network) || isnan(job) || job >= 0.9 * network)
        return HRF_BOTTLENECK_UNKNOWN;
    hrf_job_parts(&p->jobs.timing, parts);
    return parts[0].share > 0.0 ? parts[0].kind : HRF_BOTTLENECK_UNKNOWN;
}

static struct hrf_bottleneck of_inference(const struct hrf_cohort *cohort)
{
    struct hrf_timing sum = { .total = 0.0 };
    struct hrf_job_part parts[HRF_JOB_PARTS];
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_timing *t = &cohort->precisions[i].jobs.timing;
        sum.build += t->build;
        sum.wait += t->wait;
        sum.compute += t->compute;
        sum.write += t->write;
        sum.total += t->total;
    }
    hrf_job_parts(&sum, parts);
    return (struct hrf_bottleneck){ .kind = sum.total > 0.0 ? parts[0].kind
                                                            : HRF_BOTTLENECK_UNKNOWN,
                                    .share = parts[0].share,
                                    .of = "the time of its inference jobs" };
}

/* ---- the queue ---- */

/* Waits longer than their jobs ran; jobs whose start is not known are left out. */
static double queue_share(const struct hrf_cohort *cohort)
{
    double waited = 0.0, ran = 0.0;
    for (size_t i = 0; i < cohort->n_jobs; i++) {
        const struct hrf_cohort_job *job = &cohort->jobs[i];
        const struct hrf_job_usage *u = &job->usage;
        if (u->started_ms == 0 || u->finished_ms == 0)
            continue;
        waited += fmax(0.0, (double)(u->started_ms - job->submitted_ms));
        ran += fmax(0.0, (double)(u->finished_ms - u->started_ms));
    }
    return waited + ran > 0.0 ? waited / (waited + ran) : 0.0;
}

/* ---- all ---- */

static struct hrf_bottleneck find(const struct hrf_cohort *cohort)
{
    const struct hrf_phase_row *longest = NULL;
    double sum = 0.0;
    for (size_t i = 0; i < cohort->n_phases; i++) {
        const struct hrf_phase_row *phase = &cohort->phases[i];
        sum += phase->seconds;
        if (longest == NULL || phase->seconds > longest->seconds)
            longest = phase;
    }
    const double in_queue = cohort->is_slurm ? queue_share(cohort) : 0.0;
    if (in_queue > 0.5)
        return (struct hrf_bottleneck){ HRF_BOTTLENECK_QUEUE, in_queue,
                                        "the time from submission to end of its jobs", NULL, "" };
    if (longest == NULL || !(longest->seconds > 0.0))
        return of_inference(cohort);
    struct hrf_bottleneck out = { .share = longest->seconds / sum, .of = "the time of its phases" };
    if (strcmp(longest->name, "tile") == 0)
        out.kind = HRF_BOTTLENECK_TILING;
    else if (strcmp(longest->name, "calibrate") == 0)
        out.kind = HRF_BOTTLENECK_CALIBRATION;
    else
        return of_inference(cohort);
    return out;
}

/* What happened, what may be done, and the key. */
struct advice {
    const char *what, *advice, *key;
};

static struct advice advise(const struct hrf_cohort *cohort, enum hrf_bottleneck_kind kind)
{
    const struct advice table[] = {
        [HRF_BOTTLENECK_QUEUE] = { "waiting for the scheduler",
                                   "fewer, larger jobs wait less often",
                                   "executor.patches_per_job" },
        [HRF_BOTTLENECK_TILING] = { "tiling slides", "more jobs tile more slides at once",
                                    "executor.max_jobs" },
        [HRF_BOTTLENECK_CALIBRATION] = { "calibrating", "fewer samples take less time",
                                         "calibrate.samples" },
        [HRF_BOTTLENECK_READING] = { "reading: the network waited for patches",
                                     cohort->is_slurm ? "more processors give a job more readers"
                                                      : "more jobs read at once, and a resolution "
                                                        "that the slides have (tiler.patch.mpp) "
                                                        "spares the shrinking",
                                     cohort->is_slurm ? "executor.slurm.cpus_per_rank"
                                                      : "executor.max_jobs" },
        [HRF_BOTTLENECK_COMPUTE] = { "computing the network",
                                     "a lower precision or a GPU (engine.device) computes faster",
                                     "precision" },
        [HRF_BOTTLENECK_STARTING] = { "starting: models were loaded and kernels made",
                                      "larger jobs start less often", "executor.patches_per_job" },
        [HRF_BOTTLENECK_WRITING] = { "writing results", "a faster disk below --out helps", NULL }
    };
    return table[kind];
}

struct hrf_bottleneck hrf_cohort_bottleneck(const struct hrf_cohort *cohort)
{
    struct hrf_bottleneck out = find(cohort);
    if (out.kind == HRF_BOTTLENECK_UNKNOWN)
        return out;
    const struct advice a = advise(cohort, out.kind);
    out.key = a.key;
    snprintf(out.sentence, sizeof out.sentence, "%.0f %% of %s went into %s; %s%s%s.",
             100.0 * out.share, out.of, a.what, a.advice, a.key != NULL ? ": " : "",
             a.key != NULL ? a.key : "");
    return out;
}

/* ---- reading ---- */

static double rate_of(double n, double seconds)
{
    return n > 0.0 && seconds > 0.0 ? n / seconds : NAN;
}

struct hrf_reading hrf_cohort_reading(const struct hrf_cohort *cohort)
{
    struct hrf_reading out = { .n_scored = 0 };
    struct hrf_timing sum = { .build = 0 };
    int32_t n_readers = 0;
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        hrf_timing_add(&sum, &p->jobs.timing);
        out.n_scored += p->jobs.n_patches;
        n_readers = p->jobs.n_readers > n_readers ? p->jobs.n_readers : n_readers;
    }
    out.n_read = llrint(sum.reads); /* of shares: 1/3 for each of three networks */
    out.compute = sum.compute;
    out.decode = sum.decode;
    out.prepare = sum.prepare;
    out.wait = sum.wait;
    out.readers_rate = rate_of(sum.fed * n_readers, sum.decode + sum.prepare);
    out.network_rate = isnan(sum.fed) ? NAN : rate_of(sum.reads, sum.compute);
    if (!isnan(out.readers_rate) && !isnan(out.network_rate))
        out.waiter = out.readers_rate < out.network_rate ? "network" : "readers";
    return out;
}
