/* write_external.c - weights in a second file (write_external.h). Source: ONNX, "External Data". */
#include "engine/onnx/write_external.h"

#include "base/alloc.h"
#include "base/file.h"

#include <inttypes.h>
#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SMALL = 1024,     /* bytes that stay in the model: shapes, among others */
    ALIGNMENT = 4096, /* of offsets, so that the file can be mapped into memory */
    N_ENTRIES = 3,    /* location, offset, length */
    DIGITS = 24
};

/* What one initializer names. */
struct reference {
    Onnx__StringStringEntryProto entries[N_ENTRIES];
    Onnx__StringStringEntryProto *list[N_ENTRIES];
    char offset[DIGITS], length[DIGITS];
};

static void refer(Onnx__TensorProto *t, struct reference *r, char *location, int64_t offset)
{
    static char keys[N_ENTRIES][16] = { "location", "offset", "length" };
    char *values[N_ENTRIES] = { location, r->offset, r->length };
    snprintf(r->offset, sizeof r->offset, "%" PRId64, offset);
    snprintf(r->length, sizeof r->length, "%zu", t->raw_data.len);
    for (int i = 0; i < N_ENTRIES; i++) {
        onnx__string_string_entry_proto__init(&r->entries[i]);
        r->entries[i].key = keys[i];
        r->entries[i].value = values[i];
        r->list[i] = &r->entries[i];
    }
    t->has_raw_data = false;
    t->has_data_location = true;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->external_data = r->list;
    t->n_external_data = N_ENTRIES;
}

static enum hrf_status write_all(const Onnx__GraphProto *graph, struct reference *references,
                                 char *location, int fd, const char *path, struct hrf_error *err)
{
    static const char zeros[ALIGNMENT];
    int64_t at = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        Onnx__TensorProto *t = graph->initializer[i];
        const int64_t gap = (ALIGNMENT - at % ALIGNMENT) % ALIGNMENT;
        if (t == NULL || !t->has_raw_data || t->raw_data.len < SMALL)
            continue;
        HRF_TRY(hrf_file_write_all(fd, zeros, (size_t)gap, path, err));
        HRF_TRY(hrf_file_write_all(fd, t->raw_data.data, t->raw_data.len, path, err));
        refer(t, &references[i], location, at + gap);
        at += gap + (int64_t)t->raw_data.len;
    }
    return HRF_OK;
}

enum hrf_status hrf_onnx_write_external(Onnx__GraphProto *graph, const char *path, void **memory,
                                        struct hrf_error *err)
{
    int fd = -1;
    HRF_AUTO_FREE char *data = hrf_format("%s.data", path);
    HRF_AUTO_FREE char *temporary = NULL;
    const char *slash = strrchr(data, '/'), *location = slash != NULL ? slash + 1 : data;
    const size_t n_text = strlen(location) + 1;
    struct reference *references = hrf_calloc(1, graph->n_initializer * sizeof *references +
                                                     n_text + 1);
    char *text = (char *)(references + graph->n_initializer);
    memcpy(text, location, n_text);
    *memory = references;
    HRF_TRY(hrf_file_temporary(data, &temporary, &fd, err));
    enum hrf_status status = write_all(graph, references, text, fd, data, err);
    if (status == HRF_OK && fsync(fd) != 0)
        status = hrf_error_set(err, HRF_E_EXTERNAL, "'%s' cannot be written", data);
    close(fd);
    if (status == HRF_OK)
        status = hrf_file_commit(temporary, data, err);
    else
        unlink(temporary);
    return status;
}
