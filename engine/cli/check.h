/* check.h - what the parts of `hires-engine check` share; for this folder only. */
#ifndef HRF_ENGINE_CLI_CHECK_H
#define HRF_ENGINE_CLI_CHECK_H

#include "base/json.h"
#include "engine/backend/backend.h"
#include "engine/ir/graph.h"

struct hrf_check {
    const char *device, *save;
    bool quick, json;
    bool small;      /* the program itself is tried: every row, on small images */
    int64_t seconds; /* 0: as long as it takes */
    double start;
    struct hrf_device_identity identity;
    bool good;
    json_t *all; /* what was found so far */
};

/* Whether a row would begin too late; it is then left out by name. */
bool hrf_check_leaves_out(const struct hrf_check *check, const char *model, const char *what);
/* A row as it is there: into `rows` of check->all, which is saved at once. */
void hrf_check_keep(struct hrf_check *check, const char *rows, json_t *row, bool good);
HRF_CHECKED enum hrf_status hrf_check_make_graph(const char *model, int64_t size, int64_t batch,
                                                 struct hrf_graph **out, struct hrf_error *err);
/* check_speed.c */
void hrf_check_speeds(struct hrf_check *check);

#endif
