#include "engine/input/npy.h"

#include "base/file.h"
#include "base/strbuf.h"

#include <string.h>

#define NPY_FILE_LIMIT    ((size_t)16 << 30)
#define NPY_ELEMENT_LIMIT ((int64_t)1 << 32)

static const char magic[6] = { '\x93', 'N', 'U', 'M', 'P', 'Y' };

/* The header is a Python dict; this reads the three keys that the format fixes. */
struct header {
    char descr[8];
    bool fortran_order;
    struct hrf_shape shape;
    bool has_descr, has_order, has_shape;
};

struct cursor {
    const char *at, *end;
    const char *where;
    struct hrf_error *err;
};

static enum hrf_status bad(const struct cursor *c, const char *what)
{
    return hrf_error_set(c->err, HRF_E_USER, "%s: not a NumPy array file: %s", c->where, what);
}

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool npy_accept(struct cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static enum hrf_status take_string(struct cursor *c, char *out, size_t size)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return bad(c, "the header has no quoted text where one must stand");
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n + 1 == size)
            return bad(c, "a text in the header is too long");
        out[n++] = *c->at++;
    }
    out[n] = '\0';
    return npy_accept(c, quote) ? HRF_OK : bad(c, "a text in the header is not closed");
}

static enum hrf_status take_bool(struct cursor *c, bool *out)
{
    skip_space(c);
    size_t left = (size_t)(c->end - c->at);
    *out = left >= 4 && memcmp(c->at, "True", 4) == 0;
    if (!*out && (left < 5 || memcmp(c->at, "False", 5) != 0))
        return bad(c, "'fortran_order' is neither True nor False");
    c->at += *out ? 4 : 5;
    return HRF_OK;
}

static enum hrf_status take_shape(struct cursor *c, struct hrf_shape *shape)
{
    if (!npy_accept(c, '('))
        return bad(c, "'shape' is not a tuple");
    int64_t count = 1;
    shape->rank = 0;
    while (!npy_accept(c, ')')) {
        int64_t dim = 0;
        const char *first = c->at;
        while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && dim <= NPY_ELEMENT_LIMIT)
            dim = dim * 10 + (*c->at++ - '0');
        if (c->at == first)
            return bad(c, "a dimension is not a number");
        if (shape->rank == HRF_MAX_RANK)
            return bad(c, "it has more dimensions than the 6 that are supported");
        if (dim > 0 && count > NPY_ELEMENT_LIMIT / dim)
            return bad(c, "it has more than 2^32 elements");
        count *= dim;
        shape->dims[shape->rank++] = dim;
        if (!npy_accept(c, ',') && (c->at == c->end || *c->at != ')'))
            return bad(c, "'shape' is not a tuple");
    }
    return HRF_OK;
}

static enum hrf_status take_entry(struct cursor *c, struct header *header)
{
    char key[32];
    HRF_TRY(take_string(c, key, sizeof key));
    if (!npy_accept(c, ':'))
        return bad(c, "a key of the header has no value");
    if (strcmp(key, "descr") == 0) {
        header->has_descr = true;
        return take_string(c, header->descr, sizeof header->descr);
    }
    if (strcmp(key, "fortran_order") == 0) {
        header->has_order = true;
        return take_bool(c, &header->fortran_order);
    }
    if (strcmp(key, "shape") == 0) {
        header->has_shape = true;
        return take_shape(c, &header->shape);
    }
    return bad(c, "the header has an unknown key");
}

static enum hrf_status take_header(struct cursor *c, struct header *header)
{
    if (!npy_accept(c, '{'))
        return bad(c, "the header is not a dictionary");
    while (!npy_accept(c, '}')) {
        HRF_TRY(take_entry(c, header));
        if (!npy_accept(c, ',')) {
            if (!npy_accept(c, '}'))
                return bad(c, "the header is not a dictionary");
            break;
        }
    }
    if (!header->has_descr || !header->has_order || !header->has_shape)
        return bad(c, "the header lacks 'descr', 'fortran_order' or 'shape'");
    return HRF_OK;
}

/* Finds the text of the header by the length field, whose size depends on the version. */
static enum hrf_status find_header(const unsigned char *bytes, size_t n_bytes, struct cursor *c)
{
    if (n_bytes < 10 || memcmp(bytes, magic, sizeof magic) != 0)
        return bad(c, "it does not begin with \\x93NUMPY");
    size_t start = bytes[6] == 1 ? 10 : 12;
    if (bytes[6] < 1 || bytes[6] > 3)
        return bad(c, "its format version is not 1, 2 or 3");
    if (n_bytes < start)
        return bad(c, "it ends inside the header");
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > n_bytes - start)
        return bad(c, "it ends inside the header");
    c->at = (const char *)bytes + start;
    c->end = c->at + length;
    return HRF_OK;
}

static void convert(const char *in, bool wide, int64_t count, float *out)
{
    if (!wide) {
        memcpy(out, in, (size_t)count * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, in + i * 8, sizeof value);
        out[i] = (float)value;
    }
}

enum hrf_status hrf_npy_parse(const void *bytes, size_t n_bytes, const char *where,
                              struct hrf_shape *shape, float **data, struct hrf_error *err)
{
    struct cursor c = { .where = where, .err = err };
    struct header header = { .fortran_order = false };
    HRF_TRY(find_header(bytes, n_bytes, &c));
    HRF_TRY(take_header(&c, &header));
    bool wide = strcmp(header.descr, "<f8") == 0;
    if (!wide && strcmp(header.descr, "<f4") != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: elements of type '%s' are not read; save it as float32 "
                             "(array.astype('<f4'))",
                             where, header.descr);
    if (header.fortran_order)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: it is in Fortran order; save it with numpy.ascontiguousarray",
                             where);
    int64_t count = hrf_shape_count(&header.shape);
    size_t left = n_bytes - (size_t)(c.end - (const char *)bytes);
    if ((size_t)count * (wide ? 8 : 4) != left)
        return hrf_error_set(err, HRF_E_USER, "%s: %zu bytes of data where its shape needs %zu",
                             where, left, (size_t)count * (wide ? 8 : 4));
    float *out = hrf_try_alloc_array((size_t)count, sizeof *out);
    HRF_CHECK_MEMORY(out != NULL, err, "%s: no memory for %lld elements", where, (long long)count);
    convert(c.end, wide, count, out);
    *shape = header.shape;
    *data = out;
    return HRF_OK;
}

enum hrf_status hrf_npy_read(const char *path, struct hrf_shape *shape, float **data,
                             struct hrf_error *err)
{
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, NPY_FILE_LIMIT, &bytes, &n_bytes, err));
    return hrf_npy_parse(bytes, n_bytes, path, shape, data, err);
}

enum hrf_status hrf_npy_write(const char *path, enum hrf_dtype dtype, const struct hrf_shape *shape,
                              const void *data, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    const char *type = dtype == HRF_F32  ? "<f4"
                       : dtype == HRF_U8 ? "|u1"
                       : dtype == HRF_S8 ? "|i1"
                                         : NULL;
    if (type == NULL)
        return hrf_error_set(err, HRF_E_BUG, "%s: an array of %s is not written", path,
                             hrf_dtype_name(dtype));
    hrf_strbuf_add(&out, magic, sizeof magic);
    hrf_strbuf_add(&out, "\x01\x00\x00\x00", 4); /* version 1.0, length set below */
    hrf_strbuf_addf(&out, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int32_t i = 0; i < shape->rank; i++)
        hrf_strbuf_addf(&out, "%lld,%s", (long long)shape->dims[i], i + 1 < shape->rank ? " " : "");
    hrf_strbuf_adds(&out, "), }");
    while ((out.length + 1) % 64 != 0) /* the data is aligned to 64 bytes */
        hrf_strbuf_addc(&out, ' ');
    hrf_strbuf_addc(&out, '\n');
    out.text[8] = (char)((out.length - 10) & 0xff);
    out.text[9] = (char)((out.length - 10) >> 8);
    hrf_strbuf_add(&out, data, (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype));
    return hrf_file_write_atomic(path, out.text, out.length, err);
}
