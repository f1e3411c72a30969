/* What a node says beside its inputs, read with its type checked. */
#include "engine/onnx/convert_private.h"

#include "base/strbuf.h"

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

bool hrf_onnx_text_is(const Onnx__AttributeProto *a, const char *text)
{
    return a->has_s && a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

enum hrf_status hrf_onnx_get_auto_pad(struct hrf_onnx_conversion *c, enum hrf_auto_pad *out)
{
    static const char *const words[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const Onnx__AttributeProto *a = hrf_onnx_attribute(c, "auto_pad");
    *out = HRF_PAD_EXPLICIT;
    if (a == NULL)
        return HRF_OK;
    for (int i = 0; i < 4; i++)
        if (hrf_onnx_text_is(a, words[i])) {
            *out = (enum hrf_auto_pad)i;
            return HRF_OK;
        }
    return hrf_onnx_refuse(c, HRF_E_USER,
                           "auto_pad is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID");
}

enum hrf_status hrf_onnx_add_integers(struct hrf_onnx_conversion *c, const char *what,
                                      const int64_t *values, int32_t n)
{
    struct hrf_shape shape = { .rank = 1, .dims = { n } };
    int32_t index;
    HRF_AUTO_FREE char *name = hrf_format("%s_%s", hrf_onnx_text(c->proto->output[0]), what);
    if (name == NULL)
        return hrf_onnx_refuse(c, HRF_E_NOMEM, "out of memory");
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, HRF_S64, &shape, values, &index,
                                c->reader->err));
    c->inputs[c->n_inputs++] = index;
    return HRF_OK;
}

enum hrf_status hrf_onnx_get_pair(struct hrf_onnx_conversion *c, const char *name, int64_t out[2])
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
        if (hrf_onnx_text_is(a, words[i])) {
            *out = i;
            return HRF_OK;
        }
    return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "%s '%.*s' is not supported", name,
                           (int)(a->s.len < 40 ? a->s.len : 40),
                           a->s.len > 0 ? (const char *)a->s.data : "");
}
