/* safetensors_write.c - the length of the header, the header as JSON, the numbers. */
#include "training/loop/safetensors_write.h"

#include "base/file.h"
#include "base/json.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    const struct hrf_value *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static json_t *describe(const struct hrf_value *value, int64_t begin, int64_t n_bytes)
{
    const int64_t offsets[] = { begin, begin + n_bytes };
    json_t *object = json_object();
    hrf_json_put_text(object, "dtype", "F32");
    hrf_json_put(object, "shape", hrf_json_ints(value->shape.dims, (size_t)value->shape.rank));
    hrf_json_put(object, "data_offsets", hrf_json_ints(offsets, 2));
    return object;
}

/* The header with its length before it, padded with spaces so that the numbers are aligned. */
static void make_header(const struct hrf_value *const *weights, size_t n, struct hrf_strbuf *out)
{
    HRF_AUTO_JSON header = json_object();
    int64_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t n_bytes = hrf_value_bytes(weights[i]);
        hrf_json_put(header, weights[i]->name, describe(weights[i], begin, n_bytes));
        begin += n_bytes;
    }
    HRF_AUTO_FREE char *text = hrf_json_text(header);
    const size_t length = (strlen(text) + 7) / 8 * 8;
    for (int k = 0; k < 8; k++)
        hrf_strbuf_addc(out, (char)(unsigned char)((uint64_t)length >> (8 * k) & 255));
    hrf_strbuf_adds(out, text);
    while (out->length < 8 + length)
        hrf_strbuf_addc(out, ' ');
}

static enum hrf_status write_all(int fd, const struct hrf_value *const *weights, size_t n,
                                 const char *path, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) header = HRF_STRBUF_INIT;
    make_header(weights, n, &header);
    HRF_TRY(hrf_file_write_all(fd, header.text, header.length, path, err));
    for (size_t i = 0; i < n; i++)
        HRF_TRY(hrf_file_write_all(fd, weights[i]->data, (size_t)hrf_value_bytes(weights[i]), path,
                                   err));
    return HRF_OK;
}

enum hrf_status hrf_safetensors_write(const struct hrf_graph *graph, const char *path,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE const struct hrf_value **weights = hrf_alloc_array((size_t)graph->n_values + 1,
                                                                     sizeof *weights);
    HRF_AUTO_FREE char *temporary = NULL;
    size_t n = 0;
    int fd = -1;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const struct hrf_value *value = &graph->values[v];
        if (value->is_initializer && value->data != NULL && value->dtype == HRF_F32)
            weights[n++] = value;
    }
    qsort(weights, n, sizeof(const struct hrf_value *), by_name);
    HRF_TRY(hrf_file_temporary(path, &temporary, &fd, err));
    const enum hrf_status status = write_all(fd, weights, n, path, err);
    close(fd);
    if (status != HRF_OK) {
        unlink(temporary);
        return status;
    }
    return hrf_file_commit(temporary, path, err);
}
