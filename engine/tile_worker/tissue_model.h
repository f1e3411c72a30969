/* tissue_model.h - an ONNX model that tells tissue from background, ready to run on the CPU in
 * float32.
 *
 * It takes RGB images N x 3 x H x W and gives for each of them either a map, N x C x h x w or
 * N x h x w (any h and w: the map is stretched over the image, each pixel taking the nearest
 * number), or one number for each class, N x C: then the whole image is tissue or not. With one
 * class the number is the probability of tissue, and Sigmoid is added unless the model ends in it;
 * with several, Softmax over the classes is.
 */
#ifndef HRF_ENGINE_TILE_WORKER_TISSUE_MODEL_H
#define HRF_ENGINE_TILE_WORKER_TISSUE_MODEL_H

#include "engine/ir/graph.h"
#include "schema/record/job.h"
#include "tiler/tissue/tissue_network.h"

struct hrf_tissue_output {
    int64_t batch, side;              /* of the input: images, and px */
    int64_t height, width, n_classes; /* of an image's output; height and width 1: no map */
    int64_t class;                    /* that is tissue */
    bool is_probability;              /* else Sigmoid or Softmax is still to be applied */
};

/* The model with the shapes of its input set. model_sha256: of its file; NULL: any. HRF_E_USER: no
 * such file, not ONNX, or it does not give what tissue can be told from; the text names the shape
 * and the key to change. */
HRF_CHECKED enum hrf_status hrf_tissue_model_read(const struct hrf_workflow_tissue *settings,
                                                  const char *model_sha256, struct hrf_graph **out,
                                                  struct hrf_tissue_output *output,
                                                  struct hrf_error *err);

struct hrf_tissue_model; /* opaque; used by one thread at a time */

/* HRF_E_USER also if the file has another hash. n_threads: 0 = all that the process may use. */
HRF_CHECKED enum hrf_status hrf_tissue_model_create(const struct hrf_workflow_tissue *settings,
                                                    const char *model_sha256, int64_t n_threads,
                                                    struct hrf_tissue_model **out,
                                                    struct hrf_error *err);
void hrf_tissue_model_destroy(struct hrf_tissue_model *model);
HRF_DEFINE_AUTO(hrf_tissue_model)
/* Valid as long as the model. find() fails with HRF_E_USER if the model gives what is not a number
 * or no probability. */
struct hrf_tissue_network hrf_tissue_model_network(struct hrf_tissue_model *model);

#endif
