/* request.h - what a subcommand or a job asks of the engine: device, precision and layout checked,
 * the model loaded and given its input and its output. */
#ifndef HRF_ENGINE_PLANNING_REQUEST_H
#define HRF_ENGINE_PLANNING_REQUEST_H

#include "engine/backend/device.h"
#include "engine/ir/graph.h"
#include "schema/record/calibration.h"

/* What a build can do of --device and --layout; the text names what was asked, what
 * there is, and the nearest word. */
HRF_CHECKED enum hrf_status hrf_engine_check_request(const char *device, const char *layout,
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
 * says); size 0 keeps the model's own. A model whose file fixes the batch and that cannot be run
 * with another one (engine/ir/fixed_input.h) gets the file's: look at the graph's input afterwards.
 * Names what does not fit. */
HRF_CHECKED enum hrf_status hrf_engine_set_image_input(struct hrf_graph *graph, int64_t batch,
                                                       int64_t size, struct hrf_error *err);
/* Both. *size 0: that of the model's file, HRF_ENGINE_SIZE where it leaves it open. *size and
 * *batch become what the graph has. */
enum { HRF_ENGINE_SIZE = 256 };
HRF_CHECKED enum hrf_status hrf_engine_load_image_model(const char *name, int64_t n_classes,
                                                        int64_t *size, int64_t *batch,
                                                        struct hrf_graph **out,
                                                        struct hrf_error *err);

/* Appends "softmax" or "sigmoid" to the only output, whatever its batch. */
HRF_CHECKED enum hrf_status hrf_engine_append_activation(struct hrf_graph *graph, const char *word,
                                                         struct hrf_error *err);

/* Makes the graph's only output the scores of classes. `activation` NULL: appends Softmax (or
 * Sigmoid for one output) unless it ends in one; "softmax", "sigmoid": appends that; "none":
 * nothing. "segmentation": the output is [batch][n_classes][S][S], where S is the input's height
 * divided by a whole number; Sigmoid is appended for one class unless it ends in one. HRF_E_USER
 * when it has not `n_classes` outputs per image, or ends in what is to be appended or in the other
 * one. */
HRF_CHECKED enum hrf_status hrf_engine_finish_scores(struct hrf_graph *graph, int64_t n_classes,
                                                     const char *activation, struct hrf_error *err);

/* Checks that the model has one float32 output. `wanted`: what it should be, for the message. */
HRF_CHECKED enum hrf_status hrf_engine_check_output(const struct hrf_graph *graph,
                                                    const char *wanted, struct hrf_error *err);
/* True if the graph's first output has passed a Softmax or Sigmoid, and since then only what leaves
 * probabilities as they are, such as Reshape or Resize. */
bool hrf_engine_ends_in_probabilities(const struct hrf_graph *graph);

/* Checks that the graph's only output is one vector per image, [batch][width] or
 * [batch][width][1][1], and gives its width. HRF_E_USER, with what it is and the way out, when it
 * is not. */
HRF_CHECKED enum hrf_status hrf_engine_check_embedding(const struct hrf_graph *graph,
                                                       int64_t *width, struct hrf_error *err);

/* Fills in what a calibration by `eval` does not say of its origin yet, which it needs to be
 * written. */
HRF_CHECKED enum hrf_status hrf_engine_sign_calibration(struct hrf_calibration *calibration,
                                                        const struct hrf_graph *graph,
                                                        struct hrf_error *err);

#endif
