/* einsum.c - Einsum of one or two inputs as transposes, a matrix product and a sum.
 *
 * Letters of two inputs are of four kinds: in both and in the result (batches), in both and not in
 * the result (contracted), and in one of them. Several letters of one kind are joined by reshapes,
 * whose sizes are taken from Shape at run time, so that open dimensions stay open.
 */
#include "engine/onnx/convert_private.h"

#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LETTERS = HRF_MAX_RANK };

struct term {
    char letters[MAX_LETTERS + 1];
};

static int32_t index_of(const char *letters, char letter)
{
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    return at != NULL ? (int32_t)(at - letters) : -1;
}

/* "ij,jk->ik" without blanks: the terms before the arrow and the one after it. */
static enum hrf_status read_equation(struct hrf_onnx_conversion *c, struct term *terms,
                                     struct term *result)
{
    const Onnx__AttributeProto *a = hrf_onnx_attribute(c, "equation");
    int32_t n_terms = 1;
    size_t n = 0;
    bool after = false;
    if (a == NULL || !a->has_s)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'equation' is missing");
    memset(terms, 0, 2 * sizeof *terms);
    memset(result, 0, sizeof *result);
    for (size_t i = 0; i < a->s.len; i++) {
        const char letter = (char)a->s.data[i];
        char *to = after ? result->letters : terms[n_terms - 1].letters;
        const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
        if (letter == ' ')
            continue;
        if (letter == ',' && !after && n_terms < 2) {
            n_terms++;
            n = 0;
        } else if (letter == '-' && !after && i + 1 < a->s.len && a->s.data[i + 1] == '>') {
            after = true;
            n = 0;
            i++;
        } else if (is_letter && n < MAX_LETTERS && index_of(to, letter) < 0) {
            to[n++] = letter;
        } else {
            after = false;
            break;
        }
    }
    if (!after || n_terms != c->n_inputs)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "the equation '%.*s' is not supported: one or two terms of distinct "
                               "letters and a result are: write it as matmul and transpose in the "
                               "model, and export again",
                               (int)(a->s.len < 60 ? a->s.len : 60), (const char *)a->s.data);
    return HRF_OK;
}

/* Letters of `from` that are (not) in `in`, in order. */
static void pick(const char *from, const char *in, bool are_in, const char *also, bool are_also,
                 char out[MAX_LETTERS + 1])
{
    size_t n = 0;
    for (; *from != '\0'; from++)
        if ((index_of(in, *from) >= 0) == are_in && (index_of(also, *from) >= 0) == are_also)
            out[n++] = *from;
    out[n] = '\0';
}

static enum hrf_status transpose(struct hrf_onnx_conversion *c, const char *from, const char *to,
                                 int32_t value, int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    *out = value;
    if (strcmp(from, to) == 0)
        return HRF_OK;
    a.n_axes = (int32_t)strlen(to);
    for (int32_t i = 0; i < a.n_axes; i++)
        a.axes[i] = index_of(from, to[i]);
    return hrf_onnx_put(c, HRF_OP_TRANSPOSE, &value, 1, &a, out);
}

/* Sums over the letters that only `from` has. */
static enum hrf_status sum_others(struct hrf_onnx_conversion *c, char letters[MAX_LETTERS + 1],
                                  const char *other, const char *result, int32_t *value)
{
    struct hrf_attributes a = hrf_attributes_default();
    char kept[MAX_LETTERS + 1];
    size_t n = 0;
    for (int32_t i = 0; letters[i] != '\0'; i++)
        if (index_of(other, letters[i]) < 0 && index_of(result, letters[i]) < 0)
            a.axes[a.n_axes++] = i;
        else
            kept[n++] = letters[i];
    kept[n] = '\0';
    if (a.n_axes == 0)
        return HRF_OK;
    snprintf(letters, MAX_LETTERS + 1, "%s", kept);
    return hrf_onnx_put(c, HRF_OP_REDUCE_SUM, value, 1, &a, value);
}

/* The sizes of the letters `of` of a value, as a list. */
static enum hrf_status sizes_of(struct hrf_onnx_conversion *c, int32_t value, const char *letters,
                                const char *of, int32_t *out)
{
    const struct hrf_attributes a = hrf_attributes_default();
    int64_t at[MAX_LETTERS];
    int32_t pair[2];
    const int32_t n = (int32_t)strlen(of);
    for (int32_t i = 0; i < n; i++)
        at[i] = index_of(letters, of[i]);
    HRF_TRY(hrf_onnx_put(c, HRF_OP_SHAPE, &value, 1, &a, &pair[0]));
    HRF_TRY(hrf_onnx_put_integers(c, at, n, &pair[1]));
    return hrf_onnx_put(c, HRF_OP_GATHER, pair, 2, &a, out);
}

/* [batches][first letters][second letters] to [batches][one axis][one axis]. */
static enum hrf_status einsum_join(struct hrf_onnx_conversion *c, const char *letters,
                                   const char *batches, const char *first, const char *second,
                                   int32_t *value)
{
    const struct hrf_attributes a = hrf_attributes_default();
    char order[3 * MAX_LETTERS + 1];
    int32_t parts[3], pair[2], n_parts = 0, product = *value;
    struct hrf_attributes keep = hrf_attributes_default();
    snprintf(order, sizeof order, "%s%s%s", batches, first, second); /* the term's letters */
    HRF_TRY(transpose(c, letters, order, *value, value));
    if (strlen(first) == 1 && strlen(second) == 1)
        return HRF_OK;
    keep.keep_dims = true;
    if (batches[0] != '\0')
        HRF_TRY(sizes_of(c, *value, order, batches, &parts[n_parts++]));
    for (int side = 0; side < 2; side++) {
        const char *of = side == 0 ? first : second;
        if (of[0] == '\0') {
            const int64_t one = 1;
            HRF_TRY(hrf_onnx_put_integers(c, &one, 1, &parts[n_parts++]));
            continue;
        }
        HRF_TRY(sizes_of(c, *value, order, of, &product));
        HRF_TRY(hrf_onnx_put(c, HRF_OP_REDUCE_PROD, &product, 1, &keep, &parts[n_parts++]));
    }
    pair[0] = *value;
    HRF_TRY(hrf_onnx_put(c, HRF_OP_CONCAT, parts, n_parts, &a, &pair[1]));
    return hrf_onnx_put(c, HRF_OP_RESHAPE, pair, 2, &a, value);
}

static enum hrf_status of_two(struct hrf_onnx_conversion *c, struct term *terms,
                              const struct term *result)
{
    const struct hrf_attributes a = hrf_attributes_default();
    char batches[MAX_LETTERS + 1], inner[MAX_LETTERS + 1], left[MAX_LETTERS + 1],
        right[MAX_LETTERS + 1], order[3 * MAX_LETTERS + 1];
    char *x = terms[0].letters, *y = terms[1].letters;
    int32_t values[2] = { c->inputs[0], c->inputs[1] }, sizes[3], n = 0, product, pair[2];
    HRF_TRY(sum_others(c, x, y, result->letters, &values[0]));
    HRF_TRY(sum_others(c, y, x, result->letters, &values[1]));
    pick(x, y, true, result->letters, true, batches);
    pick(x, y, true, result->letters, false, inner);
    pick(x, y, false, result->letters, true, left);
    pick(y, x, false, result->letters, true, right);
    if (strlen(batches) + strlen(left) + strlen(right) != strlen(result->letters))
        return hrf_onnx_refuse(c, HRF_E_USER,
                               "the equation's result has a letter that no input has");
    snprintf(order, sizeof order, "%s%s%s", batches, left, right);
    if (batches[0] != '\0')
        HRF_TRY(sizes_of(c, values[0], x, batches, &sizes[n++]));
    if (left[0] != '\0')
        HRF_TRY(sizes_of(c, values[0], x, left, &sizes[n++]));
    if (right[0] != '\0')
        HRF_TRY(sizes_of(c, values[1], y, right, &sizes[n++]));
    HRF_TRY(einsum_join(c, x, batches, left, inner, &values[0]));
    HRF_TRY(einsum_join(c, y, batches, inner, right, &values[1]));
    HRF_TRY(hrf_onnx_put(c, HRF_OP_MATMUL, values, 2, &a, &product));
    pair[0] = product;
    if (strlen(left) != 1 || strlen(right) != 1) {
        if (n == 0)
            return hrf_onnx_refuse(
                c, HRF_E_UNSUPPORTED,
                "a result without letters is not supported: write it as a sum in "
                "the model, and export again");
        HRF_TRY(hrf_onnx_put(c, HRF_OP_CONCAT, sizes, n, &a, &pair[1]));
        HRF_TRY(hrf_onnx_put(c, HRF_OP_RESHAPE, pair, 2, &a, &product));
    }
    HRF_TRY(transpose(c, order, result->letters, product, &product));
    return hrf_onnx_put_output(c, 0, HRF_OP_IDENTITY, &product, 1, &a);
}

enum hrf_status hrf_onnx_convert_einsum(struct hrf_onnx_conversion *c)
{
    struct term terms[2], result;
    const struct hrf_attributes a = hrf_attributes_default();
    int32_t value = c->inputs[0];
    HRF_TRY(read_equation(c, terms, &result));
    if (c->n_inputs == 2)
        return of_two(c, terms, &result);
    HRF_TRY(sum_others(c, terms[0].letters, "", result.letters, &value));
    if (strlen(terms[0].letters) != strlen(result.letters))
        return hrf_onnx_refuse(c, HRF_E_USER,
                               "the equation's result has a letter that no input has");
    for (const char *letter = result.letters; *letter != '\0'; letter++)
        if (index_of(terms[0].letters, *letter) < 0)
            return hrf_onnx_refuse(c, HRF_E_USER,
                                   "the equation's result has a letter that no input has");
    HRF_TRY(transpose(c, terms[0].letters, result.letters, value, &value));
    return hrf_onnx_put_output(c, 0, HRF_OP_IDENTITY, &value, 1, &a);
}
