/* prediction_print.h - predictions for people and for scripts. */
#ifndef HRF_ENGINE_PLANNING_PREDICTION_PRINT_H
#define HRF_ENGINE_PLANNING_PREDICTION_PRINT_H

#include "engine/plan/bands.h"
#include "engine/plan/predict.h"
#include "engine/planning/known_machine.h"

#include <stdio.h>

/* One predicted layout beside one rank of the same machine. */
struct hrf_outlook {
    const struct hrf_prediction *prediction;
    const struct hrf_graph *graph; /* of a micro-batch, prepared */
    double single_seconds;         /* of the batch on one rank */
    double operations;             /* of the batch */
    bool fits;
    /* One rank that does not fit runs in bands instead: NULL: they do not help, or are not asked
     * for; then `bands_refusal` may say why. */
    const struct hrf_bands_prediction *bands;
    const char *bands_refusal;
};

/* 1 = every rank as fast as one alone. */
double hrf_outlook_efficiency(const struct hrf_outlook *outlook);
/* What each rank computes, holds, sends and waits for. */
void hrf_outlook_print_ranks(const struct hrf_outlook *outlook, FILE *out);
/* A line of a table, and the table's head. */
void hrf_outlook_print_head(FILE *out);
void hrf_outlook_print_line(const struct hrf_outlook *outlook, FILE *out);
/* With "per_rank" when `with_ranks`. A new reference. */
json_t *hrf_outlook_json(const struct hrf_outlook *outlook, bool with_ranks);
/* On what the figures stand. */
void hrf_known_print(const struct hrf_known *known, FILE *out);
json_t *hrf_known_json(const struct hrf_known *known);

#endif
