/* hash.c - SHA-256 by libcrypto, and FNV-1a (hash.h). */
#include "base/hash.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

struct hrf_hash {
    EVP_MD_CTX *context;
    bool failed; /* libcrypto ran out of memory: the hex is then empty, which matches nothing */
};

enum hrf_status hrf_hash_create(struct hrf_hash **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = hrf_calloc(1, sizeof *hash);
    if ((hash->context = EVP_MD_CTX_new()) == NULL ||
        EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1)
        return hrf_error_set(err, HRF_E_NOMEM, "cannot start a SHA-256");
    HRF_MOVE(*out, hash);
    return HRF_OK;
}

void hrf_hash_destroy(struct hrf_hash *hash)
{
    if (hash == NULL)
        return;
    EVP_MD_CTX_free(hash->context);
    hrf_free(hash);
}

void hrf_hash_bytes(struct hrf_hash *hash, const void *bytes, size_t n_bytes)
{
    if (n_bytes > 0 && EVP_DigestUpdate(hash->context, bytes, n_bytes) != 1)
        hash->failed = true;
}

static void add_u64(struct hrf_hash *hash, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    hrf_hash_bytes(hash, bytes, sizeof bytes);
}

void hrf_hash_field(struct hrf_hash *hash, const void *bytes, size_t n_bytes)
{
    add_u64(hash, (uint64_t)n_bytes);
    hrf_hash_bytes(hash, bytes, n_bytes);
}

void hrf_hash_text(struct hrf_hash *hash, const char *text)
{
    if (text == NULL)
        add_u64(hash, UINT64_MAX);
    else
        hrf_hash_field(hash, text, strlen(text));
}

void hrf_hash_int(struct hrf_hash *hash, int64_t value)
{
    add_u64(hash, (uint64_t)value);
}

void hrf_hash_double(struct hrf_hash *hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_u64(hash, bits);
}

void hrf_hash_hex(struct hrf_hash *hash, char out[HRF_HASH_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    if (EVP_DigestFinal_ex(hash->context, bytes, &n) != 1 || n != HRF_HASH_BYTES)
        hash->failed = true;
    if (hash->failed) {
        out[0] = '\0';
        return;
    }
    for (unsigned int i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

enum hrf_status hrf_hash_buffer(const void *bytes, size_t n_bytes, char out[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_bytes(hash, bytes, n_bytes);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

enum hrf_status hrf_hash_file(const char *path, char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    HRF_TRY(hrf_file_open(path, &fd, err));
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_AUTO_FREE unsigned char *block = hrf_try_alloc(1 << 20);
    HRF_CHECK_MEMORY(block != NULL, err, "no memory to hash '%s'", path);
    for (;;) {
        ssize_t n = read(fd, block, 1 << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hrf_error_set_errno(err, errno, "cannot read '%s'", path);
        if (n == 0)
            break;
        hrf_hash_bytes(hash, block, (size_t)n);
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

uint64_t hrf_hash_fnv(const void *bytes, size_t n_bytes)
{
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211U;
    return hash;
}
