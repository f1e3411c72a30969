/* label_kind.c - see label_kind.h. */
#include "training/cohort/label_kind.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char hrf_label_separator = ';';

size_t hrf_label_n_scores(enum hrf_label_kind kind, size_t n_classes)
{
    return kind == HRF_LABEL_PIXELS ? 2 * n_classes + 1 : n_classes;
}

char *hrf_label_score_title(enum hrf_label_kind kind, const struct hrf_text_list *classes, size_t i)
{
    const size_t n = classes->n_items;
    if (kind != HRF_LABEL_PIXELS)
        return hrf_format("score_%s", classes->items[i]);
    return i < 2 * n ? hrf_format(i < n ? "right_%s" : "called_%s", classes->items[i % n])
                     : hrf_strdup("loss");
}

static bool is_numbers(enum hrf_label_kind kind)
{
    return kind == HRF_LABEL_NUMBERS || kind == HRF_LABEL_PIXELS;
}

int64_t hrf_label_find_class(const struct hrf_text_list *classes, const char *word)
{
    for (size_t k = 0; k < classes->n_items; k++)
        if (strcmp(classes->items[k], word) == 0)
            return (int64_t)k;
    return -1;
}

bool hrf_label_number(const char *text, float *out)
{
    char *end = NULL;
    *out = strtof(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

/* The next word of a list, without blanks around it; heap. */
static char *take_word(const char **at)
{
    const char *begin = *at, *end = strchr(begin, hrf_label_separator);
    end = end != NULL ? end : begin + strlen(begin);
    *at = *end != '\0' ? end + 1 : end;
    while (begin < end && *begin == ' ')
        begin++;
    while (end > begin && end[-1] == ' ')
        end--;
    return hrf_strndup(begin, (size_t)(end - begin));
}

static enum hrf_status parse_word(enum hrf_label_kind kind, const char *word, size_t i,
                                  const struct hrf_text_list *classes, float *truth,
                                  struct hrf_error *err)
{
    if (is_numbers(kind))
        return i < classes->n_items && hrf_label_number(word, &truth[i])
                   ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "'%s' is no number of 'classes'", word);
    const int64_t k = hrf_label_find_class(classes, word);
    if (k < 0)
        return hrf_error_set(err, HRF_E_USER, "label '%s' is none of 'classes'", word);
    truth[k] = 1;
    return HRF_OK;
}

enum hrf_status hrf_label_parse(enum hrf_label_kind kind, const char *text,
                                const struct hrf_text_list *classes, float *truth,
                                struct hrf_error *err)
{
    size_t n = 0;
    memset(truth, 0, classes->n_items * sizeof *truth);
    if (kind == HRF_LABEL_CLASS)
        return parse_word(kind, text, 0, classes, truth, err);
    for (const char *at = text; *at != '\0'; n++) {
        HRF_AUTO_FREE char *word = take_word(&at);
        HRF_TRY(parse_word(kind, word, n, classes, truth, err));
    }
    return !is_numbers(kind) || n == classes->n_items
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER, "'%s' is not %zu numbers", text, classes->n_items);
}

void hrf_label_print(enum hrf_label_kind kind, const float *truth,
                     const struct hrf_text_list *classes, struct hrf_strbuf *out)
{
    bool is_first = true;
    for (size_t k = 0; k < classes->n_items; k++) {
        if (!is_numbers(kind) && !(truth[k] > 0.5F))
            continue;
        if (!is_first)
            hrf_strbuf_addc(out, hrf_label_separator);
        if (is_numbers(kind))
            hrf_strbuf_addf(out, "%.9g", (double)truth[k]);
        else
            hrf_strbuf_adds(out, classes->items[k]);
        is_first = false;
    }
}
