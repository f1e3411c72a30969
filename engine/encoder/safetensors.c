/* safetensors.c - reads and checks safetensors files (safetensors.h). */
#include "engine/encoder/safetensors.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/ir/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000, MAX_TENSORS = 1000000, MAX_SHARDS = 1000 };

void hrf_safetensors_destroy(struct hrf_safetensors *file)
{
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->n_items; i++)
        hrf_free(file->items[i].name);
    hrf_free(file->items);
    hrf_free(file->path);
    for (size_t i = 0; i < file->n_fds; i++)
        close(file->fds[i]);
    hrf_free(file->fds);
    hrf_free(file);
}

/* 0: no type of the format. */
static int64_t bytes_of(const char *dtype)
{
    static const struct {
        const char *name;
        int64_t n_bytes;
    } types[] = { { "F64", 8 }, { "I64", 8 }, { "U64", 8 },  { "F32", 4 },     { "I32", 4 },
                  { "U32", 4 }, { "F16", 2 }, { "BF16", 2 }, { "I16", 2 },     { "U16", 2 },
                  { "I8", 1 },  { "U8", 1 },  { "BOOL", 1 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 } };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].n_bytes;
    return 0;
}

static enum hrf_status read_shape(const json_t *list, const char *where, struct hrf_safetensor *t,
                                  int64_t *count, struct hrf_error *err)
{
    *count = 1;
    t->shape.rank = json_array_size(list) <= HRF_MAX_RANK ? (int32_t)json_array_size(list) : -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *dim = json_array_get(list, i);
        const json_int_t size = json_integer_value(dim);
        if (!json_is_integer(dim) || size < 0 || size > HRF_MAX_ELEMENTS ||
            (size > 0 && *count > HRF_MAX_ELEMENTS / size))
            return hrf_error_set(err, HRF_E_USER, "%s: tensor '%s' has a shape that is none", where,
                                 t->name);
        *count *= size;
        if (t->shape.rank >= 0)
            t->shape.dims[i] = size;
    }
    return HRF_OK;
}

static enum hrf_status read_entry(const char *name, const json_t *object, const char *where,
                                  int64_t n_data, struct hrf_safetensor *t, struct hrf_error *err)
{
    const char *dtype;
    json_t *shape, *offsets;
    int64_t count;
    t->fd = -1;
    t->name = hrf_strdup(name);
    HRF_TRY(hrf_json_get_text(object, "dtype", where, &dtype, err));
    HRF_TRY(hrf_json_get_array(object, "shape", where, &shape, err));
    HRF_TRY(hrf_json_get_array(object, "data_offsets", where, &offsets, err));
    const int64_t size = bytes_of(dtype);
    if (size == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: tensor '%s' is of type '%.16s', which the format "
                             "does not have",
                             where, name, dtype);
    memcpy(t->dtype, dtype, strlen(dtype) + 1);
    HRF_TRY(read_shape(shape, where, t, &count, err));
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    t->begin = json_integer_value(begin);
    t->end = json_integer_value(end);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        t->begin < 0 || t->end < t->begin || t->end > n_data)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: tensor '%s' is said to be at bytes %lld to %lld of %lld", where,
                             name, (long long)t->begin, (long long)t->end, (long long)n_data);
    if (t->end - t->begin != count * size)
        return hrf_error_set(
            err, HRF_E_USER,
            "%s: tensor '%s' is said to have %lld numbers of %lld bytes, and takes "
            "%lld bytes",
            where, name, (long long)count, (long long)size, (long long)(t->end - t->begin));
    return HRF_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct hrf_safetensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* One after the other, from the first byte to the last. */
static enum hrf_status check_places(struct hrf_safetensors *file, int64_t n_data,
                                    struct hrf_error *err)
{
    int64_t at = 0;
    qsort(file->items, file->n_items, sizeof *file->items, compare_places);
    for (size_t i = 0; i < file->n_items; i++) {
        if (file->items[i].begin != at)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: tensor '%s' begins at byte %lld, and the one before it ends "
                                 "at %lld",
                                 file->path, file->items[i].name, (long long)file->items[i].begin,
                                 (long long)at);
        at = file->items[i].end;
    }
    if (at != n_data)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: the tensors take %lld bytes, and there are %lld: the file is cut "
                             "short or has something behind it",
                             file->path, (long long)at, (long long)n_data);
    return HRF_OK;
}

static enum hrf_status read_header(struct hrf_safetensors *file, const json_t *root, int64_t n_data,
                                   struct hrf_error *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(root) || json_object_size(root) > MAX_TENSORS)
        return hrf_error_set(err, HRF_E_USER, "%s: the header is no list of tensors", file->path);
    file->items = hrf_calloc(json_object_size(root) + 1, sizeof *file->items);
    json_object_foreach((json_t *)(uintptr_t)root, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        file->n_items++;
        HRF_TRY(read_entry(name, value, file->path, n_data, &file->items[file->n_items - 1], err));
    }
    return check_places(file, n_data, err);
}

enum hrf_status hrf_safetensors_parse(const char *header, size_t n_bytes, int64_t n_data,
                                      const char *where, struct hrf_safetensors **out,
                                      struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    HRF_AUTO(hrf_safetensors) file = hrf_calloc(1, sizeof *file);
    file->path = hrf_strdup(where);
    HRF_TRY(hrf_json_parse(header, n_bytes, where, &root, err));
    HRF_TRY(read_header(file, root, n_data, err));
    HRF_MOVE(*out, file);
    return HRF_OK;
}

static enum hrf_status read_at(int fd, int64_t offset, void *out, int64_t n_bytes, const char *path,
                               struct hrf_error *err)
{
    for (int64_t done = 0; done < n_bytes;) {
        const ssize_t n = pread(fd, (char *)out + done, (size_t)(n_bytes - done), offset + done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return hrf_error_set(err, HRF_E_EXTERNAL, "'%s' cannot be read at byte %lld", path,
                                 (long long)(offset + done));
        done += n;
    }
    return HRF_OK;
}

static enum hrf_status read_length(int fd, const char *path, int64_t file_bytes, int64_t *out,
                                   struct hrf_error *err)
{
    uint8_t bytes[LENGTH_BYTES] = { 0 };
    uint64_t length = 0;
    if (file_bytes >= LENGTH_BYTES)
        HRF_TRY(read_at(fd, 0, bytes, LENGTH_BYTES, path, err));
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | bytes[i];
    const bool is_zip = memcmp(bytes, "PK", 2) == 0 || bytes[0] == 0x80;
    if (file_bytes < LENGTH_BYTES || length < 2 || length > MAX_HEADER ||
        (int64_t)length > file_bytes - LENGTH_BYTES)
        return hrf_error_set(err, HRF_E_USER, "%s is no safetensors file%s", path,
                             is_zip ? ": it looks like PyTorch's own form, which runs code when it "
                                      "is loaded; save it with safetensors.torch.save_file()"
                                    : "");
    *out = (int64_t)length;
    return HRF_OK;
}

static enum hrf_status open_one(const char *path, struct hrf_safetensors **out,
                                struct hrf_error *err)
{
    int fd;
    int64_t length = 0;
    struct stat info;
    HRF_AUTO(hrf_safetensors) file = NULL;
    HRF_TRY(hrf_file_open(path, &fd, err));
    enum hrf_status status = fstat(fd, &info) == 0
                                 ? read_length(fd, path, info.st_size, &length, err)
                                 : hrf_error_set(err, HRF_E_EXTERNAL, "cannot look at '%s'", path);
    HRF_AUTO_FREE char *header = status == HRF_OK ? hrf_try_alloc((size_t)length) : NULL;
    if (status == HRF_OK && header == NULL)
        status = hrf_error_set(err, HRF_E_NOMEM, "no memory for the header of '%s'", path);
    if (status == HRF_OK)
        status = read_at(fd, LENGTH_BYTES, header, length, path, err);
    if (status == HRF_OK)
        status = hrf_safetensors_parse(header, (size_t)length, info.st_size - LENGTH_BYTES - length,
                                       path, &file, err);
    if (status != HRF_OK) {
        close(fd);
        return status;
    }
    file->fds = hrf_alloc_array(1, sizeof *file->fds);
    file->fds[file->n_fds++] = fd;
    for (size_t i = 0; i < file->n_items; i++) {
        file->items[i].fd = fd;
        file->items[i].begin += LENGTH_BYTES + length;
        file->items[i].end += LENGTH_BYTES + length;
    }
    HRF_MOVE(*out, file);
    return HRF_OK;
}

/* Adds the tensors of a file of the index that the index places there. */
static enum hrf_status take_shard(struct hrf_safetensors *all, struct hrf_safetensors *shard,
                                  const json_t *weight_map, const char *name, struct hrf_error *err)
{
    size_t n_fds = all->n_fds, n_items = all->n_items;
    HRF_RESERVE(all->fds, n_fds, all->n_fds + 1);
    HRF_RESERVE(all->items, n_items, all->n_items + shard->n_items + 1);
    all->fds[all->n_fds++] = shard->fds[0];
    shard->n_fds = 0;
    for (size_t i = 0; i < shard->n_items; i++) {
        const char *file = json_string_value(json_object_get(weight_map, shard->items[i].name));
        if (file == NULL || strcmp(file, name) != 0)
            return hrf_error_set(
                err, HRF_E_USER,
                "%s: tensor '%s' is in '%s', and the index does not place it there", all->path,
                shard->items[i].name, name);
        all->items[all->n_items++] = shard->items[i];
        shard->items[i].name = NULL;
    }
    return HRF_OK;
}

static enum hrf_status open_shards(struct hrf_safetensors *all, const json_t *weight_map,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *folder = hrf_path_directory(all->path);
    HRF_AUTO_JSON files = json_object();
    const char *tensor;
    json_t *value;
    HRF_CHECK_MEMORY(files != NULL, err, "no memory for '%s'", all->path);
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor, value)
    {
        const char *name = json_string_value(value);
        HRF_AUTO(hrf_safetensors) shard = NULL;
        if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL || name[0] == '.')
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: tensor '%s' is in '%s', which is no file beside the index",
                                 all->path, tensor, name != NULL ? name : "");
        if (json_object_get(files, name) != NULL)
            continue;
        if (json_object_size(files) >= MAX_SHARDS)
            return hrf_error_set(err, HRF_E_USER, "%s names more than %d files", all->path,
                                 MAX_SHARDS);
        HRF_AUTO_FREE char *path = hrf_path_join(folder, name);
        hrf_json_put_bool(files, name, true);
        HRF_TRY(open_one(path, &shard, err));
        HRF_TRY(take_shard(all, shard, weight_map, name, err));
    }
    return HRF_OK;
}

static enum hrf_status open_index(const char *path, struct hrf_safetensors **out,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO_JSON root = NULL;
    HRF_AUTO(hrf_safetensors) all = hrf_calloc(1, sizeof *all);
    size_t n = 0;
    const char *tensor;
    json_t *value;
    all->path = hrf_strdup(path);
    HRF_TRY(hrf_file_read(path, MAX_HEADER, &text, &n, err));
    HRF_TRY(hrf_json_parse(text, n, path, &root, err));
    json_t *weight_map = json_object_get(root, "weight_map");
    if (!json_is_object(weight_map) || json_object_size(weight_map) == 0)
        return hrf_error_set(err, HRF_E_USER, "%s is no index of safetensors files", path);
    HRF_TRY(open_shards(all, weight_map, err));
    json_object_foreach(weight_map, tensor, value)
    {
        if (hrf_safetensors_find(all, tensor) == NULL)
            return hrf_error_set(err, HRF_E_USER, "%s: '%s' does not hold tensor '%s'", path,
                                 json_string_value(value), tensor);
    }
    HRF_MOVE(*out, all);
    return HRF_OK;
}

enum hrf_status hrf_safetensors_open(const char *path, struct hrf_safetensors **out,
                                     struct hrf_error *err)
{
    static const char index[] = ".json";
    const size_t n = strlen(path);
    const bool is_index = n >= sizeof index && strcmp(path + n - (sizeof index - 1), index) == 0;
    return is_index ? open_index(path, out, err) : open_one(path, out, err);
}

struct hrf_safetensor *hrf_safetensors_find(struct hrf_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->n_items; i++)
        if (strcmp(file->items[i].name, name) == 0)
            return &file->items[i];
    return NULL;
}

static void safetensors_widen(const char *dtype, const void *from, float *to, int64_t n)
{
    if (strcmp(dtype, "F64") == 0)
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)((const double *)from)[i];
    else
        hrf_floats_from(strcmp(dtype, "F16") == 0    ? HRF_F16
                        : strcmp(dtype, "BF16") == 0 ? HRF_B16
                                                     : HRF_F32,
                        from, to, n);
}

enum hrf_status hrf_safetensors_read(struct hrf_safetensors *file, struct hrf_safetensor *tensor,
                                     float **out, struct hrf_error *err)
{
    const int64_t n = hrf_shape_count(&tensor->shape), n_bytes = tensor->end - tensor->begin;
    const char *dtype = tensor->dtype;
    if (strcmp(dtype, "F32") != 0 && strcmp(dtype, "F16") != 0 && strcmp(dtype, "BF16") != 0 &&
        strcmp(dtype, "F64") != 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "%s: tensor '%s' is of type %s; weights are F32, F16, BF16 or F64",
                             file->path, tensor->name, dtype);
    if (n < 0 || tensor->shape.rank < 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "%s: tensor '%s' has more than %d axes",
                             file->path, tensor->name, HRF_MAX_RANK);
    HRF_AUTO_FREE void *raw = hrf_try_alloc((size_t)n_bytes + 1);
    HRF_AUTO_FREE float *numbers = hrf_try_alloc_array((size_t)n + 1, sizeof *numbers);
    HRF_CHECK_MEMORY(raw != NULL && numbers != NULL, err, "no memory for tensor '%s'",
                     tensor->name);
    HRF_TRY(read_at(tensor->fd, tensor->begin, raw, n_bytes, file->path, err));
    safetensors_widen(dtype, raw, numbers, n);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(numbers[i]))
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: tensor '%s' holds %g at place %lld: such weights give no "
                                 "embeddings; get the file again",
                                 file->path, tensor->name, (double)numbers[i], (long long)i);
    tensor->is_used = true;
    HRF_MOVE(*out, numbers);
    return HRF_OK;
}
