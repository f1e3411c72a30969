/* container.c - the frame of binary records: magic, header, sections, checksum (container.h). */
#include "schema/record/container.h"

#include "base/hash.h"
#include "base/strbuf.h"

#include <string.h>

static const char magic[8] = { 'H', 'R', 'F', 'R', 'E', 'C', '\r', '\n' };
enum { CONTAINER_VERSION = 1, PREFIX_BYTES = 16, CHECKSUM_BYTES = 2 * HRF_HASH_BYTES };

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void hrf_bytes_release(struct hrf_bytes *bytes)
{
    hrf_free(bytes->data);
    *bytes = (struct hrf_bytes){ NULL, 0 };
}

static enum hrf_status finish_header(json_t *header, const char *kind, int64_t version,
                                     const struct hrf_record_identity *identity,
                                     const struct hrf_section *sections, size_t n_sections)
{
    json_t *list = json_array();
    bool failed = list == NULL || json_object_set_new(header, "kind", json_string(kind)) != 0 ||
                  json_object_set_new(header, "version", json_integer(version)) != 0 ||
                  json_object_set_new(header, "identity",
                                      json_pack("{ssssss}", "task", identity->task, "slide",
                                                identity->slide, "plan", identity->plan)) != 0;
    for (size_t i = 0; i < n_sections; i++)
        failed |= json_array_append_new(list, json_pack("[sI]", sections[i].name,
                                                        (json_int_t)sections[i].n_bytes)) != 0;
    failed |= json_object_set_new(header, "sections", list) != 0;
    return failed ? HRF_E_NOMEM : HRF_OK;
}

enum hrf_status hrf_container_encode(const char *kind, int64_t version,
                                     const struct hrf_record_identity *identity, json_t *header,
                                     const struct hrf_section *sections, size_t n_sections,
                                     struct hrf_bytes *out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    if (header == NULL ||
        finish_header(header, kind, version, identity, sections, n_sections) != HRF_OK ||
        (text = hrf_json_text(header)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a %s record", kind);
    struct hrf_strbuf buf = HRF_STRBUF_INIT;
    unsigned char prefix[PREFIX_BYTES];
    memcpy(prefix, magic, sizeof magic);
    put_u32(prefix + 8, CONTAINER_VERSION);
    put_u32(prefix + 12, (uint32_t)strlen(text));
    hrf_strbuf_add(&buf, prefix, sizeof prefix);
    hrf_strbuf_adds(&buf, text);
    for (size_t i = 0; i < n_sections; i++)
        hrf_strbuf_add(&buf, sections[i].data, sections[i].n_bytes);
    char sha256[HRF_HASH_HEX];
    enum hrf_status status = hrf_strbuf_status(&buf, err);
    if (status == HRF_OK)
        status = hrf_hash_buffer(buf.text, buf.length, sha256, err);
    if (status == HRF_OK)
        hrf_strbuf_add(&buf, sha256, CHECKSUM_BYTES);
    if (status == HRF_OK)
        status = hrf_strbuf_status(&buf, err);
    if (status != HRF_OK) {
        hrf_strbuf_release(&buf);
        return status;
    }
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
    uint32_t version = get_u32(bytes + 8);
    if (version > CONTAINER_VERSION)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: written by a newer hires-flow (record form %u, this one reads "
                             "up to %d)",
                             where, version, CONTAINER_VERSION);
    char sha256[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_buffer(bytes, n_bytes - CHECKSUM_BYTES, sha256, err));
    if (memcmp(sha256, bytes + n_bytes - CHECKSUM_BYTES, CHECKSUM_BYTES) != 0)
        return damaged(where, "its checksum does not fit (truncated or changed)", err);
    *n_header = get_u32(bytes + 12);
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

/* A record of version 1 has no identity: scores name their task and tile plan, and a tile plan
 * names itself. */
static enum hrf_status read_identity(const json_t *header, const char *where,
                                     struct hrf_record_identity *out, struct hrf_error *err)
{
    json_t *identity = json_object_get(header, "identity");
    if (identity != NULL) {
        HRF_TRY(hrf_json_get_hash(identity, "task", where, out->task, err));
        HRF_TRY(hrf_json_get_hash(identity, "slide", where, out->slide, err));
        return hrf_json_get_hash(identity, "plan", where, out->plan, err);
    }
    if (json_object_get(header, "task_key") != NULL)
        HRF_TRY(hrf_json_get_hash(header, "task_key", where, out->task, err));
    const char *plan = json_object_get(header, "tile_plan") != NULL ? "tile_plan" : "hash";
    return json_object_get(header, plan) != NULL
               ? hrf_json_get_hash(header, plan, where, out->plan, err)
               : HRF_OK;
}

static enum hrf_status check_kind(const json_t *header, const char *kind, int64_t max_version,
                                  const char *where, struct hrf_error *err)
{
    const char *found;
    int64_t version;
    HRF_TRY(hrf_json_get_text(header, "kind", where, &found, err));
    HRF_TRY(hrf_json_get_int(header, "version", where, &version, err));
    if (strcmp(found, kind) != 0)
        return hrf_error_set(err, HRF_E_USER, "%s: a %s record where a %s record is expected",
                             where, found, kind);
    if (version > max_version)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: written by a newer hires-flow (%s version %lld, this one reads "
                             "up to %lld)",
                             where, kind, (long long)version, (long long)max_version);
    if (version > 1 && json_object_get(header, "identity") == NULL)
        return damaged(where, "it does not say which task it answers", err);
    return HRF_OK;
}

static enum hrf_status decode(const void *bytes, size_t n_bytes, const char *kind,
                              int64_t max_version, const struct hrf_record_identity *expected,
                              const char *where, struct hrf_container *out, struct hrf_error *err)
{
    const char *header = NULL;
    size_t n_header = 0;
    HRF_TRY(check_frame(bytes, n_bytes, where, &header, &n_header, err));
    HRF_TRY(hrf_json_parse(header, n_header, where, &out->header, err));
    HRF_TRY(check_kind(out->header, kind, max_version, where, err));
    HRF_TRY(read_identity(out->header, where, &out->identity, err));
    if (expected != NULL)
        HRF_TRY(hrf_record_identity_check(&out->identity, expected, where, err));
    return take_sections(header + n_header, n_bytes - PREFIX_BYTES - CHECKSUM_BYTES - n_header,
                         where, out, err);
}

enum hrf_status hrf_container_decode(const void *bytes, size_t n_bytes, const char *kind,
                                     int64_t max_version,
                                     const struct hrf_record_identity *expected, const char *where,
                                     struct hrf_container *out, struct hrf_error *err)
{
    *out = (struct hrf_container){ .header = NULL };
    enum hrf_status status = decode(bytes, n_bytes, kind, max_version, expected, where, out, err);
    if (status != HRF_OK)
        hrf_container_release(out);
    return status;
}

enum hrf_status hrf_record_check(const void *bytes, size_t n_bytes, const char *kind,
                                 const struct hrf_record_identity *expected, const char *where,
                                 struct hrf_error *err)
{
    struct hrf_container container;
    HRF_TRY(
        hrf_container_decode(bytes, n_bytes, kind, INT64_MAX, expected, where, &container, err));
    hrf_container_release(&container);
    return HRF_OK;
}

void hrf_container_release(struct hrf_container *container)
{
    json_decref(container->header);
    *container = (struct hrf_container){ .header = NULL };
}

enum hrf_status hrf_container_section(const struct hrf_container *container, const char *name,
                                      size_t n_bytes, const char *where, struct hrf_section *out,
                                      struct hrf_error *err)
{
    for (size_t i = 0; i < container->n_sections; i++) {
        const struct hrf_section *section = &container->sections[i];
        if (strcmp(section->name, name) != 0)
            continue;
        if (n_bytes != SIZE_MAX && section->n_bytes != n_bytes)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: section '%s' has %zu bytes where its header needs %zu", where,
                                 name, section->n_bytes, n_bytes);
        *out = *section;
        return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_USER, "%s: it has no section '%s'", where, name);
}

json_t *hrf_json_bytes(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *value = json_string(text); /* NULL when it is not UTF-8 */
    if (value != NULL)
        return value;
    struct hrf_strbuf hex = HRF_STRBUF_INIT;
    for (const char *s = text; *s != '\0'; s++)
        hrf_strbuf_addf(&hex, "%02x", (unsigned char)*s);
    value = json_pack("{ss}", "base16", hex.text);
    hrf_strbuf_release(&hex);
    return value;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum hrf_status from_base16(const char *hex, const char *key, const char *where, char *out,
                                   struct hrf_error *err)
{
    size_t n = strlen(hex);
    for (size_t i = 0; i < n; i += 2) {
        int high = hex_digit(hex[i]), low = high >= 0 ? hex_digit(hex[i + 1]) : -1;
        if (low < 0 || (high | low) == 0)
            return hrf_error_set(err, HRF_E_USER, "%s: '%s' is not base 16", where, key);
        out[i / 2] = (char)(high * 16 + low);
    }
    out[n / 2] = '\0';
    return HRF_OK;
}

enum hrf_status hrf_json_get_bytes(const json_t *object, const char *key, const char *where,
                                   char **out, struct hrf_error *err)
{
    const json_t *value = json_object_get(object, key);
    const char *hex = json_string_value(json_object_get(value, "base16"));
    if (json_is_null(value)) {
        *out = NULL;
        return HRF_OK;
    }
    const char *text = hex;
    if (hex == NULL)
        HRF_TRY(hrf_json_get_text(object, key, where, &text, err));
    HRF_AUTO_FREE char *copy = hrf_strdup(text);
    HRF_CHECK_MEMORY(copy != NULL, err, "%s: no memory for '%s'", where, key);
    if (hex != NULL)
        HRF_TRY(from_base16(hex, key, where, copy, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

enum hrf_status hrf_json_get_hash(const json_t *object, const char *key, const char *where,
                                  char out[HRF_HASH_HEX], struct hrf_error *err)
{
    const char *text;
    HRF_TRY(hrf_json_get_text(object, key, where, &text, err));
    if (strlen(text) >= HRF_HASH_HEX)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' is longer than a hash", where, key);
    memcpy(out, text, strlen(text) + 1);
    return HRF_OK;
}

enum { TEXT_VERSION = 2 }; /* version 1 was the text alone, without an identity */

enum hrf_status hrf_text_record_encode(const char *kind, const struct hrf_record_identity *identity,
                                       const char *text, struct hrf_bytes *out,
                                       struct hrf_error *err)
{
    HRF_AUTO_JSON header = json_object();
    const struct hrf_section section = { "text", text, strlen(text) };
    return hrf_container_encode(kind, TEXT_VERSION, identity, header, &section, 1, out, err);
}

enum hrf_status hrf_text_record_decode(const void *bytes, size_t n_bytes, const char *kind,
                                       const struct hrf_record_identity *expected,
                                       const char *where, const char **text, size_t *n_text,
                                       struct hrf_error *err)
{
    struct hrf_container container;
    struct hrf_section section;
    HRF_TRY(
        hrf_container_decode(bytes, n_bytes, kind, TEXT_VERSION, expected, where, &container, err));
    const enum hrf_status status = hrf_container_section(&container, "text", SIZE_MAX, where,
                                                         &section, err);
    hrf_container_release(&container);
    HRF_TRY(status);
    *text = section.data;
    *n_text = section.n_bytes;
    return HRF_OK;
}
