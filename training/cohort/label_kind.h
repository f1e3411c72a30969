/* label_kind.h - what the truth of an item is: one of the classes, several of them, numbers, or a
 * class of each pixel; and such truths as text. Pure. */
#ifndef HRF_TRAINING_COHORT_LABEL_KIND_H
#define HRF_TRAINING_COHORT_LABEL_KIND_H

#include "base/strbuf.h"
#include "base/text.h"

enum hrf_label_kind {
    HRF_LABEL_CLASS,   /* one of the classes */
    HRF_LABEL_SEVERAL, /* each of the classes is there or is not */
    HRF_LABEL_NUMBERS, /* a number for each of the classes */
    HRF_LABEL_PIXELS,  /* each pixel is of one of the classes: how many are of each */
    HRF_N_LABEL_KINDS
};

/* A truth is a number for each class: 1 for those that an item is of, else 0; or its numbers. Text:
 * the class, or a list with `separator`: "er;pr", "0.25;3". HRF_E_USER: a word is none of the
 * classes, or there are not as many finite numbers as classes. */
extern const char hrf_label_separator;
HRF_CHECKED enum hrf_status hrf_label_parse(enum hrf_label_kind kind, const char *text,
                                            const struct hrf_text_list *classes, float *truth,
                                            struct hrf_error *err);
/* Appends the text. */
void hrf_label_print(enum hrf_label_kind kind, const float *truth,
                     const struct hrf_text_list *classes, struct hrf_strbuf *out);
/* A number of a table; false: the text is no finite number. */
bool hrf_label_number(const char *text, float *out);
/* What a network gives an item to be compared with its truth is a score for each class; of pixels
 * how many are rightly called of each class, how many are called so, and their mean loss. */
size_t hrf_label_n_scores(enum hrf_label_kind kind, size_t n_classes);
/* The title of the i-th in a table; heap. */
char *hrf_label_score_title(enum hrf_label_kind kind, const struct hrf_text_list *classes,
                            size_t i);
/* The class of that word; -1: there is none. */
int64_t hrf_label_find_class(const struct hrf_text_list *classes, const char *word);

#endif
