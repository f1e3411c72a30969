/* head.h - slide heads: networks from a bag of embeddings to the scores of classes.
 *
 * With D numbers an embedding, N patches and K classes:
 *
 * - mean: logits = C mean(x).
 * - abmil: h = ReLU(W x); a = w (tanh(V h) * sigmoid(U h)); A = softmax of a over the patches;
 *   z = A h; logits = C z. Source: Ilse et al. 2018, gated attention.
 * - clam_sb: abmil, and an instance classifier for each class that learns from the `samples`
 *   patches of highest and of lowest attention. Source: Lu et al. 2021 (CLAM), cross entropy.
 * - clam_mb: clam_sb with one attention and one classifier for each class.
 * - dsmil: the patches' logits are c = F x; q = tanh(Q2 ReLU(Q1 x)); the attention of class k is
 *   the softmax of q . q(patch where c_k is highest) / sqrt(width of q); logits = G (A x). The loss
 *   is the mean of the losses of these logits and of the highest c. Source: Li et al. 2021.
 * - transmil: two layers of Nystroem attention over the patches laid out as a square, with
 *   convolutions between them. Source: Shao et al. 2021.
 *
 * A head is a graph, with which the engine does what it does with any network. The loss of a bag is
 * its class weight times the cross entropy. Names of parameters are those of the sources' PyTorch
 * code. Stateless but for the parameters.
 */
#ifndef HRF_HEADS_MODEL_HEAD_H
#define HRF_HEADS_MODEL_HEAD_H

#include "engine/ir/graph.h"

enum hrf_head_kind {
    HRF_HEAD_MEAN,
    HRF_HEAD_ABMIL,
    HRF_HEAD_CLAM_SB,
    HRF_HEAD_CLAM_MB,
    HRF_HEAD_DSMIL,
    HRF_HEAD_TRANSMIL,
    HRF_N_HEADS
};
extern const char *const hrf_head_kind_names[HRF_N_HEADS + 1]; /* "mean", "abmil" ..., NULL */

struct hrf_head_form {
    enum hrf_head_kind kind;
    int64_t width;          /* D */
    int64_t n_classes;      /* K, at least 2 */
    int64_t hidden;         /* width of h: 512 */
    int64_t attention;      /* rows of V and U: 256; dsmil's q: 128 */
    int64_t landmarks;      /* transmil: 256 */
    int64_t heads;          /* transmil: 8 */
    int64_t samples;        /* clam: 8 */
    double dropout;         /* 0.25; transmil: 0.1, after each attention */
    double instance_weight; /* clam: share of the instance loss, 0.3 */
};

/* How the numbers of a parameter are drawn. */
enum hrf_head_start {
    HRF_START_UNIFORM, /* up to 1 / sqrt(fan-in) on both sides */
    HRF_START_NORMAL,
    HRF_START_ZERO,
    HRF_START_ONE
};
enum { HRF_HEAD_MAX_PARAMETERS = 64, HRF_HEAD_NAME = 48 };
struct hrf_head_parameter {
    char name[HRF_HEAD_NAME];
    struct hrf_shape shape;
    enum hrf_head_start start;
    int64_t fan_in;
    float *numbers; /* of hrf_head.values */
};
struct hrf_head {
    struct hrf_head_form form;
    int32_t n_parameters;
    struct hrf_head_parameter parameters[HRF_HEAD_MAX_PARAMETERS];
    int64_t n_values; /* of all parameters together */
    float *values;    /* [n_values], of one parameter after the other */
};

/* Creates a head with the initial weights that PyTorch's layers draw, from `seed`. HRF_E_USER: the
 * sizes do not fit together. */
HRF_CHECKED enum hrf_status hrf_head_create(const struct hrf_head_form *form, uint64_t seed,
                                            struct hrf_head **out, struct hrf_error *err);
void hrf_head_destroy(struct hrf_head *head);
HRF_DEFINE_AUTO(hrf_head)

/* The network as a file holds it: input "bag" [N][D] with N open, outputs "scores" [1][K], the
 * softmax, and, but for head mean, "attention" [1 or K][N], whose rows have the sum 1 (not
 * transmil's). */
HRF_CHECKED enum hrf_status hrf_head_network(const struct hrf_head *head, struct hrf_graph **out,
                                             struct hrf_error *err);

/* ---- a step of training ---- */

struct hrf_head_step {
    int64_t n;     /* patches */
    int64_t label; /* only its class's instance classifier takes part; -1: all do */
};
/* The network whose output is the terms of the loss, [1][..] logarithms of probabilities. Its
 * inputs are the bag [n][D] and, where there is dropout, a matrix that hrf_head_draw_dropout()
 * fills. The values of parameters come first, in their order. */
HRF_CHECKED enum hrf_status hrf_head_step_network(const struct hrf_head *head,
                                                  const struct hrf_head_step *step,
                                                  struct hrf_graph **out, struct hrf_error *err);
/* Writes the factors of these terms: their sum by these factors is the loss (HRF_LOSS_LINEAR). */
void hrf_head_step_factors(const struct hrf_head *head, const struct hrf_head_step *step,
                           double class_weight, float *out);
/* 0 for the share of numbers that dropout leaves out, 1 / (1 - share) for the others. A number is a
 * function of `key`, its row and its column alone. */
void hrf_head_draw_dropout(double share, uint64_t key, int64_t n_rows, int64_t n_columns,
                           float *out);

#endif
