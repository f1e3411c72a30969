#define _XOPEN_SOURCE 700 /* realpath() */
#include "engine/onnx/external.h"

#include "engine/onnx/reader_private.h"

#include "base/file.h"
#include "base/path.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <onnx.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hrf_onnx_external_release(struct hrf_onnx_external *external)
{
    if (external->location != NULL)
        close(external->fd);
    hrf_free(external->location);
    external->location = NULL;
}

/* Where a tensor's data is, as the model says. */
struct extent {
    const char *location;
    int64_t offset, length; /* length -1: not given */
};

static enum hrf_status read_number(const char *text, const char *what, const char *name,
                                   int64_t *out, struct hrf_error *err)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s': the %s '%s' of its external data is no "
                             "number of bytes",
                             name, what, text);
    *out = number;
    return HRF_OK;
}

static enum hrf_status read_extent(const Onnx__TensorProto *tensor, const char *name,
                                   struct extent *out, struct hrf_error *err)
{
    *out = (struct extent){ .location = NULL, .length = -1 };
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const char *key = hrf_onnx_text(tensor->external_data[i]->key);
        const char *value = hrf_onnx_text(tensor->external_data[i]->value);
        if (strcmp(key, "location") == 0)
            out->location = value;
        else if (strcmp(key, "offset") == 0)
            HRF_TRY(read_number(value, "offset", name, &out->offset, err));
        else if (strcmp(key, "length") == 0)
            HRF_TRY(read_number(value, "length", name, &out->length, err));
    }
    if (out->location == NULL || out->location[0] == '\0')
        return hrf_error_set(err, HRF_E_USER, "tensor '%s' has external data without a location",
                             name);
    return HRF_OK;
}

static bool has_parent_part(const char *path)
{
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return true;
    }
    return false;
}

/* The file's path without links, which must lie in the folder. */
static enum hrf_status resolve(const char *folder, const char *location, const char *name,
                               char **out, struct hrf_error *err)
{
    if (location[0] == '/' || has_parent_part(location))
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s' keeps its data in '%s': only files beside the model are "
                             "read (no absolute path, no '..')",
                             name, location);
    HRF_AUTO_FREE char *path = hrf_path_join(folder, location);
    char root[PATH_MAX], real[PATH_MAX];
    if (realpath(folder, root) == NULL || realpath(path, real) == NULL)
        return hrf_error_set_errno(err, errno,
                                   "tensor '%s' keeps its data in '%s', which cannot be opened: "
                                   "copy that file into the model's folder, under that name",
                                   name, path);
    const size_t n = strlen(root);
    const bool is_inside = strncmp(real, root, n) == 0 && (real[n] == '/' || n == 1);
    if (!is_inside)
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s' keeps its data in '%s', a link that leads out of the "
                             "model's folder",
                             name, path);
    *out = hrf_strdup(real);
    return HRF_OK;
}

static enum hrf_status open_file(struct hrf_onnx_external *external, const char *location,
                                 const char *name, struct hrf_error *err)
{
    struct stat info;
    if (external->location != NULL && strcmp(external->location, location) == 0)
        return HRF_OK;
    hrf_onnx_external_release(external);
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(resolve(external->folder, location, name, &path, err));
    HRF_TRY(hrf_file_open(path, &external->fd, err));
    external->location = hrf_strdup(location);
    if (fstat(external->fd, &info) != 0)
        return hrf_error_set_errno(err, errno, "'%s'", path);
    external->file_bytes = (int64_t)info.st_size;
    return HRF_OK;
}

static enum hrf_status external_find(struct hrf_onnx_external *external,
                                     const Onnx__TensorProto *tensor, const char *name,
                                     size_t n_bytes, struct extent *extent, struct hrf_error *err)
{
    if (external->folder == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "tensor '%s' keeps its data in another file, and these bytes have "
                             "no folder to look for it in: save the model as one file "
                             "(torch.onnx.export: external_data=False)",
                             name);
    HRF_TRY(read_extent(tensor, name, extent, err));
    HRF_TRY(open_file(external, extent->location, name, err));
    const int64_t rest = external->file_bytes - extent->offset;
    const int64_t have = extent->length >= 0 ? extent->length : rest;
    if (rest < 0 || have > rest || (uint64_t)have != n_bytes)
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s' needs %zu bytes; the model puts %" PRId64
                             " bytes from %" PRId64 " of '%s' there, which has %" PRId64,
                             name, n_bytes, have, extent->offset, extent->location,
                             external->file_bytes);
    return HRF_OK;
}

enum hrf_status hrf_onnx_external_check(struct hrf_onnx_external *external,
                                        const Onnx__TensorProto *tensor, const char *name,
                                        size_t n_bytes, struct hrf_error *err)
{
    struct extent extent;
    HRF_TRY(external_find(external, tensor, name, n_bytes, &extent, err));
    if (n_bytes > (uint64_t)(external->max_bytes - external->read_bytes))
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s': the weights up to it take more than the %" PRId64
                             " bytes that a model may",
                             name, external->max_bytes);
    external->read_bytes += (int64_t)n_bytes;
    return HRF_OK;
}

enum hrf_status hrf_onnx_external_read(struct hrf_onnx_external *external,
                                       const Onnx__TensorProto *tensor, const char *name, void *out,
                                       size_t n_bytes, struct hrf_error *err)
{
    struct extent extent;
    HRF_TRY(external_find(external, tensor, name, n_bytes, &extent, err));
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = pread(external->fd, (char *)out + done, n_bytes - done,
                                (off_t)(extent.offset + (int64_t)done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hrf_error_set_errno(err, errno, "tensor '%s': '%s' cannot be read", name,
                                       extent.location);
        if (n == 0)
            return hrf_error_set(err, HRF_E_EXTERNAL, "tensor '%s': '%s' became shorter", name,
                                 extent.location);
        done += (size_t)n;
    }
    if (external->hash != NULL)
        hrf_hash_bytes(external->hash, out, n_bytes);
    return HRF_OK;
}
