/* container.c - the frame of binary records: magic, header, sections, checksum (container.h). */
#include "schema/record/container.h"

#include "base/hash.h"
#include "base/little_endian.h"
#include "base/strbuf.h"

#include <string.h>

static const char magic[8] = { 'H', 'R', 'F', 'R', 'E', 'C', '\r', '\n' };
enum { PREFIX_BYTES = 16, CHECKSUM_BYTES = 2 * HRF_HASH_BYTES };

void hrf_bytes_release(struct hrf_bytes *bytes)
{
    hrf_free(bytes->data);
    *bytes = (struct hrf_bytes){ NULL, 0 };
}

static const struct hrf_field identity_fields[] = {
#define FIELD(name) HRF_FIELD(struct hrf_record_identity, #name, name, HRF_FIELD_HASH)
    FIELD(task), FIELD(slide), FIELD(plan)
#undef FIELD
};

enum hrf_status hrf_container_encode(const char *kind, const struct hrf_record_identity *identity,
                                     json_t *header, const struct hrf_section *sections,
                                     size_t n_sections, struct hrf_bytes *out,
                                     struct hrf_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_sections; i++) {
        json_t *section = json_array();
        hrf_json_add(section, json_string(sections[i].name));
        hrf_json_add(section, json_integer((json_int_t)sections[i].n_bytes));
        hrf_json_add(list, section);
    }
    hrf_json_put_text(header, "kind", kind);
    hrf_json_put(header, "identity", hrf_fields_json(HRF_FIELDS(identity_fields), identity));
    hrf_json_put(header, "sections", list);
    HRF_AUTO_FREE char *text = hrf_json_text(header);
    HRF_AUTO_RELEASE(hrf_strbuf) buf = HRF_STRBUF_INIT;
    unsigned char prefix[PREFIX_BYTES];
    memcpy(prefix, magic, sizeof magic);
    hrf_put_u32(prefix + 8, HRF_FORMAT_VERSION);
    hrf_put_u32(prefix + 12, (uint32_t)strlen(text));
    hrf_strbuf_add(&buf, prefix, sizeof prefix);
    hrf_strbuf_adds(&buf, text);
    for (size_t i = 0; i < n_sections; i++)
        hrf_strbuf_add(&buf, sections[i].data, sections[i].n_bytes);
    char sha256[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_buffer(buf.text, buf.length, sha256, err));
    hrf_strbuf_add(&buf, sha256, CHECKSUM_BYTES);
    out->n_bytes = buf.length;
    out->data = (unsigned char *)hrf_strbuf_detach(&buf);
    return HRF_OK;
}

static enum hrf_status damaged(const char *where, const char *how, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "%s: damaged record: %s", where, how);
}

/* Checks magic, lengths and checksum; *header points to the JSON text inside `bytes`. */
static enum hrf_status check_frame(const unsigned char *bytes, size_t n_bytes, const char *where,
                                   const char **header, size_t *n_header, struct hrf_error *err)
{
    if (n_bytes < PREFIX_BYTES + CHECKSUM_BYTES)
        return damaged(where, "it is shorter than any record", err);
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return damaged(where, "it does not begin as a record does", err);
    HRF_TRY(hrf_format_check_version(hrf_get_u32(bytes + 8), "record", where, err));
    char sha256[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_buffer(bytes, n_bytes - CHECKSUM_BYTES, sha256, err));
    if (memcmp(sha256, bytes + n_bytes - CHECKSUM_BYTES, CHECKSUM_BYTES) != 0)
        return damaged(where, "its checksum does not fit (truncated or changed)", err);
    *n_header = hrf_get_u32(bytes + 12);
    if (*n_header > n_bytes - PREFIX_BYTES - CHECKSUM_BYTES)
        return damaged(where, "its header is longer than the record", err);
    *header = (const char *)bytes + PREFIX_BYTES;
    return HRF_OK;
}

static enum hrf_status take_sections(const char *data, size_t left, const char *where,
                                     struct hrf_container *out, struct hrf_error *err)
{
    json_t *list;
    HRF_TRY(hrf_json_get_array(out->header, "sections", where, &list, err));
    if (json_array_size(list) > HRF_RECORD_MAX_SECTIONS)
        return damaged(where, "it has too many sections", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const char *name = json_string_value(json_array_get(pair, 0));
        json_int_t n = json_integer_value(json_array_get(pair, 1));
        if (name == NULL || n < 0 || (uintmax_t)n > left)
            return damaged(where, "a section reaches beyond the record", err);
        out->sections[out->n_sections++] = (struct hrf_section){ .name = name,
                                                                 .data = data,
                                                                 .n_bytes = (size_t)n };
        data += n;
        left -= (size_t)n;
    }
    return left == 0 ? HRF_OK : damaged(where, "bytes are left over after its sections", err);
}

/* What `expected` leaves "" is not compared. */
static enum hrf_status check_identity(const struct hrf_record_identity *found,
                                      const struct hrf_record_identity *expected, const char *where,
                                      struct hrf_error *err)
{
    const struct {
        const char *found, *expected, *what;
    } parts[] = { { found->task, expected->task, "task" },
                  { found->plan, expected->plan, "tile plan" },
                  { found->slide, expected->slide, "slide" } };
    for (int i = 0; i < 3; i++)
        if (parts[i].expected[0] != '\0' && strcmp(parts[i].found, parts[i].expected) != 0)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: it is the record of another %s (%.12s..., expected %.12s...)",
                                 where, parts[i].what, parts[i].found, parts[i].expected);
    return HRF_OK;
}

static enum hrf_status decode(const void *bytes, size_t n_bytes, const char *kind,
                              const struct hrf_record_identity *expected, const char *where,
                              struct hrf_container *out, struct hrf_error *err)
{
    const char *header = NULL, *found;
    json_t *identity;
    size_t n_header = 0;
    HRF_TRY(check_frame(bytes, n_bytes, where, &header, &n_header, err));
    HRF_TRY(hrf_json_parse(header, n_header, where, &out->header, err));
    HRF_TRY(hrf_json_get_text(out->header, "kind", where, &found, err));
    if (strcmp(found, kind) != 0)
        return hrf_error_set(err, HRF_E_USER, "%s: a %s record where a %s record is expected",
                             where, found, kind);
    HRF_TRY(hrf_json_get_object(out->header, "identity", where, &identity, err));
    HRF_TRY(hrf_fields_read(HRF_FIELDS(identity_fields), identity, where, &out->identity, err));
    if (expected != NULL)
        HRF_TRY(check_identity(&out->identity, expected, where, err));
    return take_sections(header + n_header, n_bytes - PREFIX_BYTES - CHECKSUM_BYTES - n_header,
                         where, out, err);
}

enum hrf_status hrf_container_decode(const void *bytes, size_t n_bytes, const char *kind,
                                     const struct hrf_record_identity *expected, const char *where,
                                     struct hrf_container *out, struct hrf_error *err)
{
    *out = (struct hrf_container){ .where = where };
    enum hrf_status status = decode(bytes, n_bytes, kind, expected, where, out, err);
    if (status != HRF_OK)
        hrf_container_release(out);
    return status;
}

enum hrf_status hrf_record_check(const void *bytes, size_t n_bytes, const char *kind,
                                 const struct hrf_record_identity *expected, const char *where,
                                 struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    return hrf_container_decode(bytes, n_bytes, kind, expected, where, &container, err);
}

void hrf_container_release(struct hrf_container *container)
{
    json_decref(container->header);
    *container = (struct hrf_container){ .header = NULL };
}

enum hrf_status hrf_container_section(const struct hrf_container *container, const char *name,
                                      size_t n_bytes, struct hrf_section *out,
                                      struct hrf_error *err)
{
    for (size_t i = 0; i < container->n_sections; i++) {
        const struct hrf_section *section = &container->sections[i];
        if (strcmp(section->name, name) != 0)
            continue;
        if (n_bytes != SIZE_MAX && section->n_bytes != n_bytes)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: section '%s' has %zu bytes where its header needs %zu",
                                 container->where, name, section->n_bytes, n_bytes);
        *out = *section;
        return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_USER, "%s: it has no section '%s'", container->where, name);
}

enum hrf_status hrf_container_bytes(const struct hrf_container *container, const char *name,
                                    struct hrf_bytes *out, struct hrf_error *err)
{
    struct hrf_section section;
    HRF_TRY(hrf_container_section(container, name, SIZE_MAX, &section, err));
    out->data = hrf_try_alloc(section.n_bytes + 1);
    HRF_CHECK_MEMORY(out->data != NULL, err, "%s: no memory for its %s of %zu bytes",
                     container->where, name, section.n_bytes);
    memcpy(out->data, section.data, section.n_bytes);
    out->data[section.n_bytes] = '\0';
    out->n_bytes = section.n_bytes;
    return HRF_OK;
}

enum hrf_status hrf_container_copy(const struct hrf_container *container, const char *name,
                                   size_t n_bytes, void *out, struct hrf_error *err)
{
    struct hrf_section section;
    struct hrf_bytes copy;
    HRF_TRY(hrf_container_section(container, name, n_bytes, &section, err));
    HRF_TRY(hrf_container_bytes(container, name, &copy, err));
    memcpy(out, &copy.data, sizeof copy.data);
    return HRF_OK;
}

/* ---- records that are one text ---- */

enum hrf_status hrf_text_record_encode(const char *kind, const struct hrf_record_identity *identity,
                                       const char *text, struct hrf_bytes *out,
                                       struct hrf_error *err)
{
    HRF_AUTO_JSON header = json_object();
    const struct hrf_section section = { "text", text, strlen(text) };
    return hrf_container_encode(kind, identity, header, &section, 1, out, err);
}

enum hrf_status hrf_text_record_decode(const void *bytes, size_t n_bytes, const char *kind,
                                       const struct hrf_record_identity *expected,
                                       const char *where, const char **text, size_t *n_text,
                                       struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    struct hrf_section section;
    HRF_TRY(hrf_container_decode(bytes, n_bytes, kind, expected, where, &container, err));
    HRF_TRY(hrf_container_section(&container, "text", SIZE_MAX, &section, err));
    *text = section.data;
    *n_text = section.n_bytes;
    return HRF_OK;
}
