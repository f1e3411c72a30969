/* From bytes to protobuf messages, through our allocator and with bounded nesting. */
#include "engine/onnx/reader_private.h"

/* A legal model of ours nests 7 deep (model, graph, value, type, tensor, shape, dim); control
 * flow nests deeper and is refused later by name. The bound keeps the generated reader, which
 * recurses, far from the end of the stack. */
enum { MAX_DEPTH = 64 };

struct cursor {
    const uint8_t *at, *end;
};

static bool read_varint(struct cursor *c, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool nesting_is_sane(const ProtobufCMessageDescriptor *descriptor, struct cursor c,
                            int depth)
{
    if (depth > MAX_DEPTH)
        return false;
    while (c.at < c.end) {
        uint64_t key, n = 0;
        if (!read_varint(&c, &key))
            return false;
        switch (key & 7) {
        case 0:
            if (!read_varint(&c, &n))
                return false;
            n = 0;
            break;
        case 1:
            n = 8;
            break;
        case 5:
            n = 4;
            break;
        case 2:
            if (!read_varint(&c, &n))
                return false;
            break;
        default: /* groups: ONNX has none */
            return false;
        }
        if (n > (uint64_t)(c.end - c.at))
            return false;
        const ProtobufCFieldDescriptor *field = (key >> 3) > UINT32_MAX
                                                    ? NULL
                                                    : protobuf_c_message_descriptor_get_field(
                                                          descriptor, (unsigned)(key >> 3));
        if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE && (key & 7) == 2) {
            struct cursor inside = { .at = c.at, .end = c.at + n };
            if (!nesting_is_sane(field->descriptor, inside, depth + 1))
                return false;
        }
        c.at += n;
    }
    return true;
}

static void *allocate(void *failed, size_t n_bytes)
{
    void *memory = hrf_alloc(n_bytes);
    if (memory == NULL)
        *(bool *)failed = true;
    return memory;
}

static void release(void *failed, void *memory)
{
    (void)failed;
    hrf_free(memory);
}

enum hrf_status hrf_onnx_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes,
                                size_t n_bytes, ProtobufCMessage **out, struct hrf_error *err)
{
    struct cursor all = { .at = bytes };
    if (n_bytes == 0)
        return hrf_error_set(err, HRF_E_USER, "it is empty");
    all.end = all.at + n_bytes;
    if (!nesting_is_sane(descriptor, all, 0))
        return hrf_error_set(err, HRF_E_USER,
                             "not an ONNX file, or cut short (%zu bytes do not parse)", n_bytes);
    bool failed = false;
    ProtobufCAllocator allocator = { .alloc = allocate,
                                     .free = release,
                                     .allocator_data = &failed };
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, n_bytes, bytes);
    if (message == NULL && failed)
        return hrf_error_set(err, HRF_E_NOMEM, "out of memory for %zu bytes of ONNX", n_bytes);
    if (message == NULL)
        return hrf_error_set(err, HRF_E_USER, "not an ONNX file (%zu bytes do not parse)", n_bytes);
    *out = message;
    return HRF_OK;
}

void hrf_onnx_free_message(ProtobufCMessage *message)
{
    bool failed = false;
    ProtobufCAllocator allocator = { .alloc = allocate,
                                     .free = release,
                                     .allocator_data = &failed };
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, &allocator);
}
