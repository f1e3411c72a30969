/* hires_flow.h - the stable C interface: load a model and score patches, open a slide and read it.
 *
 *   const char *const classes[] = { "normal", "tumor" };
 *   struct hires_flow_model_options options = { .size = sizeof options,
 *                                               .classes = classes, .n_classes = 2 };
 *   struct hires_flow_model *model = hires_flow_model_open("m.onnx", &options);
 *   int64_t n_scores;
 *   const float *scores = model == NULL ? NULL
 *                         : hires_flow_model_score(model, rgb, n_patches, 224, &n_scores);
 *   if (scores == NULL)
 *       fprintf(stderr, "%s\n", hires_flow_last_error());
 *
 * Compile with `pkg-config --cflags --libs hires-flow`. library/example/score_patch.c is a whole
 * program.
 *
 * Functions that return int return 0, or a number of enum hires_flow_error; those that return a
 * pointer return NULL on failure. hires_flow_last_error() then has the sentence. Texts are UTF-8.
 * Nothing is printed and the process goes on, with one exception: if memory runs out for something
 * small, the process ends with a line on stderr and exit code 5. For what a file or a call sizes
 * (weights, images, outputs) there is HIRES_FLOW_NO_MEMORY.
 *
 * Threads: a model is used by one thread at a time, a slide by any number at once. Memory that is
 * returned belongs to the model or slide and is valid until the next call that is named with it.
 *
 * Stability: within one number of HIRES_FLOW_API functions and members are only added, members at
 * the end of a struct whose first member is its size.
 */
#ifndef HIRES_FLOW_H
#define HIRES_FLOW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HIRES_FLOW_API      1
#define HIRES_FLOW_MAX_RANK 8

int hires_flow_api(void);             /* HIRES_FLOW_API of the library that runs */
const char *hires_flow_version(void); /* "0.2.0" */
/* Why the last call of this thread failed; "" before any failure. Valid until the next failure. */
const char *hires_flow_last_error(void);

enum hires_flow_error {
    HIRES_FLOW_OK = 0,
    HIRES_FLOW_WRONG = 1, /* what was given is wrong: the file, the shape, the precision */
    HIRES_FLOW_AGAIN = 2, /* may work later */
    HIRES_FLOW_NO_MEMORY = 3,
    HIRES_FLOW_NO_SPACE = 4,
    HIRES_FLOW_FAILED = 5,      /* a file, device or library failed */
    HIRES_FLOW_UNSUPPORTED = 6, /* understood, but this build or machine cannot do it */
    HIRES_FLOW_BUG = 7
};

/* Of an array; dims[0] is the outermost. */
struct hires_flow_shape {
    int rank;
    int64_t dims[HIRES_FLOW_MAX_RANK];
};

/* ---- models ---- */

struct hires_flow_model; /* opaque */

/* Set .size to sizeof; members that are zero have their defaults. */
struct hires_flow_model_options {
    size_t size;
    const char *precision; /* "fp32" (default), "tf32", "fp16", "bf16" or "int8" */
    const char *device;    /* "auto" (default), "cpu", "cuda" or "ref" */
    /* int8: a calibration file, as `hires-engine eval --save-scales` and `hires-flow calibrate
     * --export` write. Without one the first array that is run is calibrated on, and
     * hires_flow_model_notes() says so. A model that brings its own scales takes none. */
    const char *calibration;
    int threads;                /* 0: every core that the process may use */
    int64_t memory_limit_bytes; /* 0: none; above it, images are computed in row tiles */

    /* For hires_flow_model_score(): the workflow's `model`, by the same rules. */
    const char *const *classes; /* names, one for each number of the output; copied */
    int n_classes;
    /* "probabilities" (default: Softmax, or Sigmoid for one class, unless the model ends in it),
     * "softmax" or "sigmoid" (added to raw outputs), "none" (numbers as they are), "embedding". */
    const char *output;
    /* Of R, G and B scaled to 0..1. All 0: what the file says, else ImageNet's. */
    double input_mean[3], input_std[3];
    /* px of what the network is given, the middle of what a patch is resized to. 0: as the file
     * says, else patches go in as they are. */
    int64_t input_size, input_resize;
    const char *input_interpolation; /* "bilinear", ...; NULL: as the file says */
};

/* An ONNX file with one input. `options` may be NULL. */
struct hires_flow_model *hires_flow_model_open(const char *path,
                                               const struct hires_flow_model_options *options);
void hires_flow_model_close(struct hires_flow_model *model); /* NULL is fine */

/* Scores n patches, rgb[n][size][size][3], pixels of 0 to 255, as a run scores them: resized and
 * normalised as the options or the file say. Gives [n][*n_scores]: a number for each class, or an
 * embedding; `n_scores` may be NULL. Valid until the next call with this model. Patches are
 * computed 32 at a time, and the network is made ready again for another number of them. */
const float *hires_flow_model_score(struct hires_flow_model *model, const uint8_t *rgb, int64_t n,
                                    int64_t size, int64_t *n_scores);
/* The name of the i-th number of a patch; NULL: it has none. Valid until close. */
const char *hires_flow_model_class(const struct hires_flow_model *model, int64_t i);
/* int8: takes the ranges of all tensors from a float32 run of such patches instead of a file. */
int hires_flow_model_calibrate(struct hires_flow_model *model, const uint8_t *rgb, int64_t n,
                               int64_t size);

/* ---- the network alone ---- */

/* Raw: computes `input` as it is, dense float32 in the layout of the ONNX file (N x C x H x W for
 * images), of what the network was trained on: nothing is scaled, normalised or resized, and no
 * Softmax is added to what comes out. The network is made ready for the shape of the first call,
 * and made again when the shape changes. */
int hires_flow_model_run_raw(struct hires_flow_model *model, const float *input,
                             const struct hires_flow_shape *shape);
/* int8: takes the ranges of all tensors from a float32 run of such an array. */
int hires_flow_model_calibrate_raw(struct hires_flow_model *model, const float *input,
                                   const struct hires_flow_shape *shape);
/* Of the file. */
int hires_flow_model_n_outputs(const struct hires_flow_model *model);
const char *hires_flow_model_output_name(const struct hires_flow_model *model, int i);
/* Output i of the last raw run in ONNX's layout, dense float32, and its shape. NULL: no such run
 * has succeeded since, or there is no such output. Valid until the next call with this model. */
const float *hires_flow_model_output(const struct hires_flow_model *model, int i,
                                     struct hires_flow_shape *shape);
/* What is not as was asked for, a line each: nodes that stay in float32, and the like. */
const char *hires_flow_model_notes(const struct hires_flow_model *model);

/* ---- slides ---- */

struct hires_flow_slide; /* opaque */

/* Set .size to sizeof before hires_flow_slide_describe(). */
struct hires_flow_slide_info {
    size_t size;
    int64_t width, height; /* px at level 0 */
    int n_levels;
    double mpp_x, mpp_y;    /* um/px at level 0; 0: the file does not say */
    const char *mpp_source; /* where they are from, e.g. "TIFF tags"; "" */
    const char *vendor;     /* as OpenSlide names it */
};

/* Slides are decoded in the caller's process, by OpenSlide and libtiff: a file that is damaged in a
 * way which they do not survive ends it. Who opens slides of strangers does it in a child. */
struct hires_flow_slide *hires_flow_slide_open(const char *path);
void hires_flow_slide_close(struct hires_flow_slide *slide); /* NULL is fine */
int hires_flow_slide_describe(struct hires_flow_slide *slide, struct hires_flow_slide_info *out);
/* Width and height of a level, and how many px of level 0 one px of it is. */
int hires_flow_slide_level(struct hires_flow_slide *slide, int level, int64_t *width,
                           int64_t *height, double *downsample);
/* rgb[height][width][3] from `level`; the top-left is (x, y) in px of level 0. Outside the slide is
 * white. */
int hires_flow_slide_read(struct hires_flow_slide *slide, int level, int64_t x, int64_t y,
                          int64_t width, int64_t height, uint8_t *rgb);
/* rgb[size][size][3] at `mpp` um/px, from the best level, resampled as a run does it. `slide_mpp`:
 * the slide's own resolution at level 0, for one that does not say; else 0. */
int hires_flow_slide_read_patch(struct hires_flow_slide *slide, int64_t x, int64_t y, int64_t size,
                                double mpp, double slide_mpp, uint8_t *rgb);

#ifdef __cplusplus
}
#endif

#endif
