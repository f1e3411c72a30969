/* Tensors: types, raw and typed elements. Little-endian machines only, as ONNX's raw data is. */
#include "engine/onnx/reader_private.h"

#include "base/file.h"
#include "engine/ir/number.h"

#include <limits.h>
#include <onnx.pb-c.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "raw_data is little-endian; this reader copies it"
#endif

enum hrf_status hrf_onnx_dtype(int32_t type, const char *what, enum hrf_dtype *out,
                               struct hrf_error *err)
{
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        *out = HRF_F32;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        *out = HRF_F64;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        *out = HRF_F16;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        *out = HRF_B16;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
        *out = HRF_S8;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
        *out = HRF_U8;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        *out = HRF_S32;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        *out = HRF_S64;
        return HRF_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        *out = HRF_BOOL;
        return HRF_OK;
    default:
        break;
    }
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
        &onnx__tensor_proto__data_type__descriptor, type);
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "'%s' has the element type %s (%d), which is not supported", what,
                         value != NULL ? value->name : "unknown", (int)type);
}

static enum hrf_status read_shape(const Onnx__TensorProto *tensor, const char *name,
                                  struct hrf_shape *shape, struct hrf_error *err)
{
    if (tensor->n_dims > HRF_MAX_RANK)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "tensor '%s' has %zu dimensions; at most %d are supported", name,
                             tensor->n_dims, HRF_MAX_RANK);
    *shape = (struct hrf_shape){ .rank = (int32_t)tensor->n_dims };
    for (size_t i = 0; i < tensor->n_dims; i++) {
        shape->dims[i] = tensor->dims[i];
        if (tensor->dims[i] < 0)
            return hrf_error_set(err, HRF_E_USER, "tensor '%s' has the negative dimension %lld",
                                 name, (long long)tensor->dims[i]);
    }
    if (hrf_shape_count(shape) < 0)
        return hrf_error_set(err, HRF_E_USER, "tensor '%s' is impossibly large", name);
    return HRF_OK;
}

/* int32_data holds every type of 32 bits or less, one element in each number. */
static void narrow(enum hrf_dtype dtype, const int32_t *from, size_t n, void *to)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)from[i];
        switch (hrf_dtype_size(dtype)) {
        case 4:
            ((uint32_t *)to)[i] = x;
            break;
        case 2:
            ((uint16_t *)to)[i] = (uint16_t)x;
            break;
        default:
            ((uint8_t *)to)[i] = dtype == HRF_BOOL ? x != 0 : (uint8_t)x;
        }
    }
}

/* How many elements the typed field for `dtype` holds, and where. */
static size_t typed_count(const Onnx__TensorProto *tensor, enum hrf_dtype dtype,
                          const void **elements)
{
    switch (dtype) {
    case HRF_F32:
        *elements = tensor->float_data;
        return tensor->n_float_data;
    case HRF_F64:
        *elements = tensor->double_data;
        return tensor->n_double_data;
    case HRF_S64:
        *elements = tensor->int64_data;
        return tensor->n_int64_data;
    default:
        *elements = NULL;
        return tensor->n_int32_data;
    }
}

static bool is_external(const Onnx__TensorProto *tensor)
{
    return (tensor->has_data_location &&
            tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) ||
           tensor->n_external_data > 0;
}

static enum hrf_status check_storage(const Onnx__TensorProto *tensor, const char *name,
                                     struct hrf_error *err)
{
    if (tensor->segment != NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "tensor '%s' is stored in segments, which is not supported", name);
    return HRF_OK;
}

/* What the tensor is, and that it has as many elements as it says. */
static enum hrf_status check_tensor(const Onnx__TensorProto *tensor, const char *name,
                                    enum hrf_dtype *dtype, struct hrf_shape *shape,
                                    struct hrf_error *err)
{
    HRF_TRY(check_storage(tensor, name, err));
    HRF_TRY(hrf_onnx_dtype(tensor->has_data_type ? tensor->data_type : 0, name, dtype, err));
    HRF_TRY(read_shape(tensor, name, shape, err));
    const size_t count = (size_t)hrf_shape_count(shape), size = hrf_dtype_size(*dtype);
    const void *elements = NULL;
    if (is_external(tensor))
        return HRF_OK; /* external.c holds it against the file */
    uint64_t at, n_bytes = 0;
    if (tensor->has_raw_data)
        (void)hrf_onnx_raw(&tensor->raw_data, &at, &n_bytes);
    const uint64_t have = tensor->has_raw_data ? n_bytes / size
                                               : typed_count(tensor, *dtype, &elements);
    if (have != count || n_bytes % size != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "tensor '%s' should hold %zu elements of %s but has data for %llu",
                             name, count, hrf_dtype_name(*dtype), (unsigned long long)have);
    return HRF_OK;
}

/* The elements into `out`, which has their size; the tensor has been checked. */
static enum hrf_status read_elements(const struct hrf_onnx_source *source,
                                     const Onnx__TensorProto *tensor, enum hrf_dtype dtype,
                                     size_t count, void *out, struct hrf_error *err)
{
    const size_t n_bytes = count * hrf_dtype_size(dtype);
    const void *elements = NULL;
    uint64_t at, n_raw;
    if (count == 0)
        return HRF_OK;
    if (!tensor->has_raw_data)
        (void)typed_count(tensor, dtype, &elements);
    else if (hrf_onnx_raw(&tensor->raw_data, &at, &n_raw))
        return hrf_onnx_source_read(source, at, out, n_bytes, err);
    else
        elements = tensor->raw_data.data;
    if (elements != NULL)
        memcpy(out, elements, n_bytes);
    else
        narrow(dtype, tensor->int32_data, count, out);
    return HRF_OK;
}

static enum hrf_status tensor_data(const struct hrf_onnx_source *source,
                                   struct hrf_onnx_external *external,
                                   const Onnx__TensorProto *tensor, const char *name,
                                   enum hrf_dtype *dtype, struct hrf_shape *shape, void **data,
                                   struct hrf_error *err)
{
    const bool is_beside = is_external(tensor);
    if (is_beside && external == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "tensor '%s' keeps its data in another file; only weights may", name);
    /* The file has as many bytes as we ask for below. */
    HRF_TRY(check_tensor(tensor, name, dtype, shape, err));
    const size_t count = (size_t)hrf_shape_count(shape), n_bytes = count * hrf_dtype_size(*dtype);
    if (is_beside)
        HRF_TRY(hrf_onnx_external_check(external, tensor, name, n_bytes, err));
    HRF_AUTO_FREE void *memory = hrf_alloc_aligned(n_bytes, sizeof(void *));
    HRF_CHECK_MEMORY(memory != NULL, err, "out of memory for the %zu bytes of '%s'", n_bytes, name);
    HRF_TRY(is_beside ? hrf_onnx_external_read(external, tensor, name, memory, n_bytes, err)
                      : read_elements(source, tensor, *dtype, count, memory, err));
    HRF_MOVE(*data, memory);
    return HRF_OK;
}

enum hrf_status hrf_onnx_constant(struct hrf_onnx_reader *reader, const Onnx__TensorProto *tensor,
                                  const char *name, enum hrf_dtype *dtype, struct hrf_shape *shape,
                                  void **data)
{
    HRF_AUTO_FREE void *own = NULL;
    enum hrf_dtype type;
    HRF_TRY(tensor_data(reader->source, &reader->external, tensor, name, &type, shape, &own,
                        reader->err));
    *dtype = hrf_onnx_graph_dtype(type);
    if (*dtype == type) {
        HRF_MOVE(*data, own);
        return HRF_OK;
    }
    const int64_t count = hrf_shape_count(shape);
    float *floats = hrf_try_alloc_array((size_t)count, sizeof *floats);
    HRF_CHECK_MEMORY(floats != NULL, reader->err, "out of memory for '%s'", name);
    if (type != HRF_F64)
        hrf_floats_from(type, own, floats, count);
    for (int64_t i = 0; i < count && type == HRF_F64; i++)
        floats[i] = (float)((const double *)own)[i];
    *data = floats;
    return HRF_OK;
}

static enum hrf_status parse_tensor(const char *bytes, size_t n_bytes, struct hrf_onnx_tensor *out,
                                    struct hrf_error *err)
{
    ProtobufCMessage *message = NULL;
    struct hrf_onnx_source source;
    hrf_onnx_source_of_bytes(bytes, n_bytes, &source);
    HRF_TRY(hrf_onnx_unpack(&onnx__tensor_proto__descriptor, &source, &message, err));
    const Onnx__TensorProto *tensor = (const Onnx__TensorProto *)message;
    struct hrf_onnx_tensor result = { .name = hrf_strdup(hrf_onnx_text(tensor->name)) };
    const enum hrf_status status = tensor_data(&source, NULL, tensor, result.name, &result.dtype,
                                               &result.shape, &result.data, err);
    hrf_onnx_free_message(message);
    if (status == HRF_OK)
        *out = result;
    else
        hrf_free(result.name);
    return status;
}

enum hrf_status hrf_onnx_read_tensor(const char *path, struct hrf_onnx_tensor *out,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, INT_MAX, &bytes, &n_bytes, err));
    enum hrf_status status = parse_tensor(bytes, n_bytes, out, err);
    return status == HRF_OK ? HRF_OK : hrf_error_wrap(err, status, "tensor file '%s'", path);
}

void hrf_onnx_tensor_release(struct hrf_onnx_tensor *tensor)
{
    hrf_free(tensor->name);
    hrf_free(tensor->data);
    *tensor = (struct hrf_onnx_tensor){ 0 };
}
