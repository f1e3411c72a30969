/* What a node says beside its inputs, read with its type checked. */
#include "engine/onnx/convert_private.h"

#include "base/strbuf.h"
#include "engine/ir/op.h"

#include <onnx.pb-c.h>
#include <string.h>

enum hrf_status hrf_onnx_refuse(struct hrf_onnx_conversion *c, enum hrf_status status,
                                const char *format, ...)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&text, format, args);
    va_end(args);
    const Onnx__NodeProto *p = c->proto;
    const char *name = hrf_onnx_text(p->name);
    if (name[0] == '\0' && p->n_output > 0)
        name = hrf_onnx_text(p->output[0]);
    return hrf_error_set(c->reader->err, status, "node '%s' (%s, opset %lld): %s", name,
                         hrf_onnx_text(p->op_type), (long long)c->reader->opset, text.text);
}

const Onnx__AttributeProto *hrf_onnx_attribute(const struct hrf_onnx_conversion *c,
                                               const char *name)
{
    for (size_t i = 0; i < c->proto->n_attribute; i++)
        if (strcmp(hrf_onnx_text(c->proto->attribute[i]->name), name) == 0)
            return c->proto->attribute[i];
    return NULL;
}

enum hrf_status hrf_onnx_wrong_type(struct hrf_onnx_conversion *c, const char *name,
                                    const char *wanted)
{
    return hrf_onnx_refuse(c, HRF_E_USER, "attribute '%s' is not %s", name, wanted);
}

/* Files before IR version 2 leave the type out. */
static bool is_type(const Onnx__AttributeProto *a, Onnx__AttributeProto__AttributeType type)
{
    return !a->has_type || a->type == type;
}

enum hrf_status hrf_onnx_get_int(struct hrf_onnx_conversion *c, const char *name, int64_t *out)
{
    const Onnx__AttributeProto *a = hrf_onnx_attribute(c, name);
    if (a == NULL)
        return HRF_OK;
    if (!is_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT) || (!a->has_i && !a->has_type))
        return hrf_onnx_wrong_type(c, name, "an integer");
    *out = a->i;
    return HRF_OK;
}

enum hrf_status hrf_onnx_get_bool(struct hrf_onnx_conversion *c, const char *name, bool *out)
{
    int64_t value = *out;
    HRF_TRY(hrf_onnx_get_int(c, name, &value));
    if (value != 0 && value != 1)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute '%s' is %lld, neither 0 nor 1", name,
                               (long long)value);
    *out = value != 0;
    return HRF_OK;
}

enum hrf_status hrf_onnx_get_float(struct hrf_onnx_conversion *c, const char *name, float *out)
{
    const Onnx__AttributeProto *a = hrf_onnx_attribute(c, name);
    if (a == NULL)
        return HRF_OK;
    if (!is_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT) || (!a->has_f && !a->has_type))
        return hrf_onnx_wrong_type(c, name, "a number");
    *out = a->f;
    return HRF_OK;
}

enum hrf_status hrf_onnx_get_ints(struct hrf_onnx_conversion *c, const char *name, int64_t *out,
                                  int32_t max, int32_t *n)
{
    const Onnx__AttributeProto *a = hrf_onnx_attribute(c, name);
    *n = -1;
    if (a == NULL)
        return HRF_OK;
    if (!is_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS))
        return hrf_onnx_wrong_type(c, name, "a list of integers");
    if (a->n_ints > (size_t)max)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "attribute '%s' has %zu numbers; at most %d are "
                               "supported",
                               name, a->n_ints, (int)max);
    for (size_t i = 0; i < a->n_ints; i++)
        out[i] = a->ints[i];
    *n = (int32_t)a->n_ints;
    return HRF_OK;
}

static bool onnx_text_is(const Onnx__AttributeProto *a, const char *text)
{
    return a->has_s && a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

enum hrf_status hrf_onnx_add_integers(struct hrf_onnx_conversion *c, const char *what,
                                      const int64_t *values, int32_t n)
{
    struct hrf_shape shape = { .rank = 1, .dims = { n } };
    int32_t index;
    HRF_AUTO_FREE char *name = hrf_format("%s_%s", hrf_onnx_text(c->proto->output[0]), what);
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, HRF_S64, &shape, values, &index,
                                c->reader->err));
    c->inputs[c->n_inputs++] = index;
    return HRF_OK;
}

/* Of rows and columns. */
static enum hrf_status onnx_get_pair(struct hrf_onnx_conversion *c, const char *name,
                                     int64_t out[2])
{
    int32_t n;
    int64_t numbers[2];
    const Onnx__AttributeProto *a = hrf_onnx_attribute(c, name);
    if (a != NULL && a->n_ints != (c->is_1d ? 1 : 2))
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "attribute '%s' has %zu numbers: only windows over rows and columns "
                               "(2 numbers), or over one axis, are supported",
                               name, a->n_ints);
    HRF_TRY(hrf_onnx_get_ints(c, name, numbers, 2, &n));
    if (n == 1) { /* one row of columns */
        out[0] = strcmp(name, "output_padding") == 0 ? 0 : 1;
        out[1] = numbers[0];
    }
    if (n == 2) {
        out[0] = numbers[0];
        out[1] = numbers[1];
    }
    return HRF_OK;
}

enum hrf_status hrf_onnx_get_word(struct hrf_onnx_conversion *c, const char *name,
                                  const char *const *words, int *out)
{
    const Onnx__AttributeProto *a = hrf_onnx_attribute(c, name);
    if (a == NULL)
        return HRF_OK;
    for (int i = 0; words[i] != NULL; i++)
        if (onnx_text_is(a, words[i])) {
            *out = i;
            return HRF_OK;
        }
    return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "%s '%.*s' is not supported", name,
                           (int)(a->s.len < 40 ? a->s.len : 40),
                           a->s.len > 0 ? (const char *)a->s.data : "");
}

/* ---- by rows ---- */

enum hrf_status hrf_onnx_check_attributes(struct hrf_onnx_conversion *c, enum hrf_op op,
                                          const char *const *more)
{
    const struct hrf_op_info *info = op < HRF_N_OPS ? hrf_op_info(op) : NULL;
    for (size_t i = 0; i < c->proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = c->proto->attribute[i];
        const char *name = hrf_onnx_text(a->name);
        bool found = false;
        HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
        for (int32_t k = 0; info != NULL && k < info->n_attributes; k++) {
            const char *own = info->attributes[k].name;
            if (own == NULL)
                continue;
            found = found || strcmp(own, name) == 0;
            hrf_strbuf_addf(&list, "%s%s", list.length > 0 ? ", " : "", own);
        }
        for (int k = 0; k < HRF_ONNX_MAX_ATTRIBUTES && more[k] != NULL; k++) {
            found = found || strcmp(more[k], name) == 0;
            hrf_strbuf_addf(&list, "%s%s", list.length > 0 ? ", " : "", more[k]);
        }
        if (!found)
            return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "attribute '%s' is not supported; %s%s",
                                   name, list.length > 0 ? "supported: " : "it has none",
                                   list.text);
        if (a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0')
            return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                                   "attribute '%s' is that of a function around it: export the "
                                   "model without functions",
                                   name);
    }
    return HRF_OK;
}

static enum hrf_status read_type(struct hrf_onnx_conversion *c, const char *name,
                                 enum hrf_dtype *out)
{
    int64_t type = 0;
    HRF_TRY(hrf_onnx_get_int(c, name, &type));
    if (type == 0)
        return HRF_OK;
    if (type < 0 || type > INT32_MAX)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute '%s' is %lld", name, (long long)type);
    HRF_TRY(hrf_onnx_dtype((int32_t)type, hrf_onnx_text(c->proto->output[0]), out, c->reader->err));
    *out = hrf_onnx_graph_dtype(*out);
    return HRF_OK;
}

static enum hrf_status read_list(struct hrf_onnx_conversion *c, const struct hrf_attribute *row)
{
    int32_t n;
    HRF_TRY(
        hrf_onnx_get_ints(c, row->name, hrf_attribute_at(&c->a, row), row->n * HRF_MAX_RANK, &n));
    if (n > 0 && n % row->n != 0)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute '%s' is of odd length", row->name);
    if (n >= 0)
        c->a.n_axes = n / row->n;
    return HRF_OK;
}

static enum hrf_status read_pads(struct hrf_onnx_conversion *c, const struct hrf_attribute *row)
{
    int64_t *pads = hrf_attribute_at(&c->a, row); /* begins, ends */
    int32_t n;
    HRF_TRY(hrf_onnx_get_ints(c, row->name, pads, row->n, &n));
    if (c->is_1d && n == 2) {
        pads[3] = pads[1];
        pads[1] = pads[0];
        pads[0] = pads[2] = 0;
        n = row->n;
    }
    if (n >= 0 && n != row->n)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "attribute '%s' has %d numbers, not %d",
                               row->name, (int)n, (int)row->n);
    if ((pads[0] | pads[1] | pads[2] | pads[3]) != 0 && c->a.window.auto_pad != HRF_PAD_EXPLICIT)
        return hrf_onnx_refuse(c, HRF_E_USER, "both auto_pad and pads are given");
    if (c->a.window.auto_pad == HRF_PAD_VALID)
        c->a.window.auto_pad = HRF_PAD_EXPLICIT;
    return HRF_OK;
}

static enum hrf_status read_attribute(struct hrf_onnx_conversion *c,
                                      const struct hrf_attribute *row)
{
    void *at = hrf_attribute_at(&c->a, row);
    int word;
    switch (row->type) {
    case HRF_ATTRIBUTE_INT:
        return hrf_onnx_get_int(c, row->name, at);
    case HRF_ATTRIBUTE_PAIR:
        return onnx_get_pair(c, row->name, at);
    case HRF_ATTRIBUTE_PADS:
        return read_pads(c, row);
    case HRF_ATTRIBUTE_LIST:
        return read_list(c, row);
    case HRF_ATTRIBUTE_FLOAT:
        return hrf_onnx_get_float(c, row->name, at);
    case HRF_ATTRIBUTE_FLAG:
        if (row->words == NULL)
            return hrf_onnx_get_bool(c, row->name, at);
        word = *(bool *)at;
        HRF_TRY(hrf_onnx_get_word(c, row->name, row->words, &word));
        *(bool *)at = word != 0;
        return HRF_OK;
    case HRF_ATTRIBUTE_WORD:
        return hrf_onnx_get_word(c, row->name, row->words, at);
    case HRF_ATTRIBUTE_TYPE:
        return read_type(c, row->name, at);
    default: /* INTS are none of a file */
        return HRF_OK;
    }
}

enum hrf_status hrf_onnx_read_attributes(struct hrf_onnx_conversion *c, enum hrf_op op)
{
    const struct hrf_op_info *info = hrf_op_info(op);
    c->a = hrf_attributes_of(op);
    for (int32_t i = 0; i < info->n_attributes; i++) {
        const struct hrf_attribute *row = &info->attributes[i];
        if (row->name == NULL)
            continue;
        if (row->is_required && hrf_onnx_attribute(c, row->name) == NULL)
            return hrf_onnx_refuse(c, HRF_E_USER, "attribute '%s' is missing", row->name);
        HRF_TRY(read_attribute(c, row));
    }
    return HRF_OK;
}
