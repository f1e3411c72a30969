/* export.h - writes a trained head as an ONNX file, and reads the metadata of one.
 *
 * Input "bag" [N][D] float32 with N open; outputs "scores" [1][K], the softmax, and, but for head
 * mean, "attention" [1 or K][N]. The model's metadata say what the classes are, what made the
 * features, and which slides the head has seen.
 */
#ifndef HRF_HEADS_EXPORT_EXPORT_H
#define HRF_HEADS_EXPORT_EXPORT_H

#include "heads/model/head.h"

/* What the metadata of an exported head say; all members are borrowed. */
struct hrf_head_labels {
    char *const *classes;
    int32_t n_classes;
    const char *origin;      /* hrf_bag_facts; NULL: `encoder` says it */
    const char *encoder;     /* SHA-256 of the encoder that it was trained together with, or NULL */
    const char *const *seen; /* slides of training and validation */
    size_t n_seen;
};
HRF_CHECKED enum hrf_status hrf_head_export(const struct hrf_head *head,
                                            const struct hrf_head_labels *labels, const char *path,
                                            struct hrf_error *err);

/* The metadata of a head's file. A file that was made elsewhere has none, and every member is
 * empty. */
struct hrf_head_card {
    char **classes, **seen; /* owned */
    size_t n_classes, n_seen;
    char *origin;       /* NULL: not known */
    bool is_of_encoder; /* the origin names the encoder alone */
};
HRF_CHECKED enum hrf_status hrf_head_card_read(const char *path, struct hrf_head_card **out,
                                               struct hrf_error *err);
void hrf_head_card_destroy(struct hrf_head_card *card);
HRF_DEFINE_AUTO(hrf_head_card)

/* What the user allows although it is otherwise refused, and the ends of the sentences that refuse
 * it. */
struct hrf_head_use {
    bool may_have_seen; /* slides that the head was trained on */
    bool may_mix;       /* features of another encoder, tiling or precision */
    bool any_precision; /* of another precision alone */
    const char *when_seen, *when_mixed;
};
/* Checks that a head may score a file of features, whose stem is the slide's name (`set` as in
 * hrf_bag_look()). HRF_E_USER: the head was trained on the slide, or on features of another origin.
 */
HRF_CHECKED enum hrf_status hrf_head_card_check(const struct hrf_head_card *card, const char *path,
                                                const char *set, const struct hrf_head_use *use,
                                                struct hrf_error *err);

#endif
