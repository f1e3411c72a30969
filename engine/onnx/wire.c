/* From bytes to protobuf messages, through our allocator, with bounded nesting, and without the
 * weights: protobuf-c would copy them.
 *
 * A first walk over the wire format copies the message, but for the raw_data of tensors, in place
 * of which it puts where they are (hrf_onnx_raw). Nothing becomes longer by that: a message's
 * length keeps the bytes that it has in the file, so the copy is at most as long as the file. */
#include "engine/onnx/reader_private.h"

#include "base/strbuf.h"

#include <onnx.pb-c.h>
#include <string.h>

/* A legal model of ours nests 7 deep (model, graph, value, type, tensor, shape, dim); control
 * flow nests deeper and is refused later by name. The bound keeps this walk and the generated
 * reader, which recurse, far from the end of the stack. */
enum { MAX_DEPTH = 64 };

/* Raw data of fewer bytes stay in the message, but those of as many as a range of the file takes.
 */
enum { FEWEST_BYTES = 64, RANGE_BYTES = 16, RAW_DATA = 9 };

struct walk {
    struct hrf_onnx_source *source;
    uint64_t at;             /* in the source */
    struct hrf_strbuf *copy; /* of what came before */
    struct hrf_error *err;
};

static enum hrf_status wire_refuse(const struct walk *w)
{
    return hrf_error_set(w->err, HRF_E_USER,
                         "not an ONNX file, or cut short (%llu bytes do not "
                         "parse)",
                         (unsigned long long)w->source->n_bytes);
}

static enum hrf_status copy_varint(struct walk *w, uint64_t end, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && w->at < end; shift += 7) {
        const uint8_t *bytes;
        size_t have;
        HRF_TRY(hrf_onnx_source_see(w->source, w->at, &bytes, &have, w->err));
        w->at++;
        hrf_strbuf_addc(w->copy, (char)bytes[0]);
        value |= (uint64_t)(bytes[0] & 0x7f) << shift;
        if ((bytes[0] & 0x80) == 0) {
            *out = value;
            return HRF_OK;
        }
    }
    return wire_refuse(w);
}

static enum hrf_status copy_bytes(struct walk *w, uint64_t end, uint64_t n)
{
    if (n > end - w->at)
        return wire_refuse(w);
    for (const uint64_t stop = w->at + n; w->at < stop;) {
        const uint8_t *bytes;
        size_t have;
        HRF_TRY(hrf_onnx_source_see(w->source, w->at, &bytes, &have, w->err));
        have = have < stop - w->at ? have : (size_t)(stop - w->at);
        hrf_strbuf_add(w->copy, bytes, have);
        w->at += have;
    }
    return HRF_OK;
}

/* Writes `n` over the length in the copy's bytes from `begin` to before `end`: a varint may have
 * more bytes than it needs. `n` is at most the length that was there. */
static void put_length(struct walk *w, size_t begin, size_t end, uint64_t n)
{
    for (size_t i = begin; i < end; i++) {
        w->copy->text[i] = (char)((n & 0x7f) | (i + 1 < end ? 0x80 : 0));
        n >>= 7;
    }
}

static enum hrf_status walk_message(struct walk *w, const ProtobufCMessageDescriptor *descriptor,
                                    uint64_t end, int depth);

/* A field of n bytes, the length of which stands in the copy from `length_at` on. */
static enum hrf_status walk_field(struct walk *w, const ProtobufCMessageDescriptor *descriptor,
                                  uint64_t number, size_t length_at, uint64_t n, int depth)
{
    const size_t begin = w->copy->length;
    const ProtobufCFieldDescriptor *field = number <= UINT32_MAX
                                                ? protobuf_c_message_descriptor_get_field(
                                                      descriptor, (unsigned)number)
                                                : NULL;
    if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE) {
        HRF_TRY(walk_message(w, field->descriptor, w->at + n, depth + 1));
        put_length(w, length_at, begin, w->copy->length - begin);
        return HRF_OK;
    }
    if (descriptor == &onnx__tensor_proto__descriptor && number == RAW_DATA &&
        (n >= FEWEST_BYTES || n == RANGE_BYTES)) {
        const uint64_t range[2] = { w->at, n };
        _Static_assert(sizeof range == RANGE_BYTES, "a range has as many bytes");
        put_length(w, length_at, begin, RANGE_BYTES);
        hrf_strbuf_add(w->copy, range, sizeof range);
        w->at += n;
        return HRF_OK;
    }
    return copy_bytes(w, w->at + n, n);
}

static enum hrf_status walk_message(struct walk *w, const ProtobufCMessageDescriptor *descriptor,
                                    uint64_t end, int depth)
{
    if (depth > MAX_DEPTH)
        return wire_refuse(w);
    while (w->at < end) {
        uint64_t key, n;
        HRF_TRY(copy_varint(w, end, &key));
        const size_t length_at = w->copy->length;
        switch (key & 7) {
        case 0:
            HRF_TRY(copy_varint(w, end, &n));
            break;
        case 1:
            HRF_TRY(copy_bytes(w, end, 8));
            break;
        case 2:
            HRF_TRY(copy_varint(w, end, &n));
            if (n > end - w->at)
                return wire_refuse(w);
            HRF_TRY(walk_field(w, descriptor, key >> 3, length_at, n, depth));
            break;
        case 5:
            HRF_TRY(copy_bytes(w, end, 4));
            break;
        default: /* groups: ONNX has none */
            return wire_refuse(w);
        }
    }
    return HRF_OK;
}

bool hrf_onnx_raw(const ProtobufCBinaryData *data, uint64_t *at, uint64_t *n_bytes)
{
    uint64_t range[2];
    *n_bytes = data->len;
    if (data->len != RANGE_BYTES)
        return false;
    memcpy(range, data->data, sizeof range);
    *at = range[0];
    *n_bytes = range[1];
    return true;
}

/* Weights in large pages. */
static void *wire_allocate(void *failed, size_t n_bytes)
{
    enum { LARGE = 4 << 20 };
    void *memory = n_bytes < LARGE ? hrf_try_alloc(n_bytes)
                                   : hrf_alloc_aligned(n_bytes, sizeof(void *));
    if (memory == NULL)
        *(bool *)failed = true;
    return memory;
}

static void wire_release(void *failed, void *memory)
{
    (void)failed;
    hrf_free(memory);
}

enum hrf_status hrf_onnx_unpack(const ProtobufCMessageDescriptor *descriptor,
                                struct hrf_onnx_source *source, ProtobufCMessage **out,
                                struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) copy = HRF_STRBUF_INIT;
    struct walk walk = { .source = source, .copy = &copy, .err = err };
    if (source->n_bytes == 0)
        return hrf_error_set(err, HRF_E_USER, "it is empty");
    HRF_TRY(walk_message(&walk, descriptor, source->n_bytes, 0));
    bool failed = false;
    ProtobufCAllocator allocator = { .alloc = wire_allocate,
                                     .free = wire_release,
                                     .allocator_data = &failed };
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, copy.length,
                                                          (const uint8_t *)copy.text);
    if (message == NULL && failed)
        return hrf_error_set(err, HRF_E_NOMEM, "out of memory for %zu bytes of ONNX", copy.length);
    if (message == NULL)
        return hrf_error_set(err, HRF_E_USER, "not an ONNX file (%llu bytes do not parse)",
                             (unsigned long long)source->n_bytes);
    *out = message;
    return HRF_OK;
}

void hrf_onnx_free_message(ProtobufCMessage *message)
{
    bool failed = false;
    ProtobufCAllocator allocator = { .alloc = wire_allocate,
                                     .free = wire_release,
                                     .allocator_data = &failed };
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, &allocator);
}
