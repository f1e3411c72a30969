/* cli.h - the subcommands of hires-engine, one file each, and what they share. */
#ifndef HRF_ENGINE_CLI_CLI_H
#define HRF_ENGINE_CLI_CLI_H

#include "base/args.h"
#include "base/error.h"
#include "engine/backend/backend.h"
#include "engine/ir/graph.h"
#include "schema/record/calibration.h"

/* What usage and errors call this program: "hires-engine", or what handed over to it. Set once. */
extern const char *hrf_engine_program;
#define HRF_ENGINE_PROGRAM hrf_engine_program

extern const struct hrf_command hrf_engine_eval, hrf_engine_infer, hrf_engine_observe,
    hrf_engine_model, hrf_engine_bench, hrf_engine_profile, hrf_engine_plan, hrf_engine_tune_comm,
    hrf_engine_version, hrf_engine_ranks, hrf_engine_sweep, hrf_engine_check;

/* Prints the error and gives the exit code: 2 when the request was wrong or is not in this
 * build, 4 when the environment lacks something, else 1. */
int hrf_engine_fail(const char *command, const struct hrf_error *err);

/* What a build can do of --device, --precision and --layout; the text names what was asked, what
 * there is, and the nearest word. */
HRF_CHECKED enum hrf_status hrf_engine_check_request(const char *device, const char *precision,
                                                     const char *layout, struct hrf_error *err);

/* Where tune-comm keeps what it has measured of this machine: a heap path. HRF_E_USER: other users
 * may write there. */
HRF_CHECKED enum hrf_status hrf_engine_machine_path(const char *cache, char **out,
                                                    struct hrf_error *err);

/* That the device is there: a job that needs another machine should not fail slide by slide. */
HRF_CHECKED enum hrf_status
hrf_engine_check_device(const char *device, struct hrf_device_identity *out, struct hrf_error *err);

/* Reads an ONNX file, or builds the named architecture when `name` is one of
 * hrf_model_names() and no such file exists. */
HRF_CHECKED enum hrf_status hrf_engine_load_model(const char *name, int64_t n_classes, int64_t size,
                                                  struct hrf_graph **out, struct hrf_error *err);

/* What the model may ask for (graph.h); 0: the default stays. */
void hrf_engine_set_bounds(struct hrf_graph *graph, int64_t memory_bytes, double operations);
/* Sets the shape of a model's only input to batch x 3 x size x size (channels as the model
 * says); size 0 keeps the model's own. Names what does not fit. */
HRF_CHECKED enum hrf_status hrf_engine_set_image_input(struct hrf_graph *graph, int64_t batch,
                                                       int64_t size, struct hrf_error *err);

/* Makes the graph's only output class probabilities: appends Softmax (or Sigmoid for one
 * output) unless it ends in one. HRF_E_USER when it has not `n_classes` outputs per image. */
HRF_CHECKED enum hrf_status hrf_engine_finish_with_probabilities(struct hrf_graph *graph,
                                                                 int64_t n_classes,
                                                                 struct hrf_error *err);

/* Writes a calibration, with what is not said of its origin yet filled in. */
HRF_CHECKED enum hrf_status hrf_engine_save_calibration(struct hrf_calibration *calibration,
                                                        const struct hrf_graph *graph,
                                                        const char *path, struct hrf_error *err);

#endif
