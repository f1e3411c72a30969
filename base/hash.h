/* hash.h - SHA-256 (libcrypto) for identity and integrity; FNV-1a to compare and to look up.
 *
 * Content keys hash fields, not concatenated text: hrf_hash_field() feeds a length before
 * the bytes, so ("ab","c") and ("a","bc") differ. Not thread-safe per object.
 */
#ifndef HRF_BASE_HASH_H
#define HRF_BASE_HASH_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define HRF_HASH_BYTES 32
#define HRF_HASH_HEX   (2 * HRF_HASH_BYTES + 1) /* with the NUL */

struct hrf_hash; /* opaque; created empty */

HRF_CHECKED enum hrf_status hrf_hash_create(struct hrf_hash **out, struct hrf_error *err);
void hrf_hash_destroy(struct hrf_hash *hash);
void hrf_hash_bytes(struct hrf_hash *hash, const void *bytes, size_t n_bytes);
void hrf_hash_field(struct hrf_hash *hash, const void *bytes, size_t n_bytes); /* length first */
void hrf_hash_text(struct hrf_hash *hash, const char *text); /* a field; NULL differs from "" */
void hrf_hash_int(struct hrf_hash *hash, int64_t value);
void hrf_hash_double(struct hrf_hash *hash, double value);        /* bit pattern */
void hrf_hash_hex(struct hrf_hash *hash, char out[HRF_HASH_HEX]); /* ends the hash */
HRF_DEFINE_AUTO(hrf_hash)

HRF_CHECKED enum hrf_status hrf_hash_buffer(const void *bytes, size_t n_bytes,
                                            char out[HRF_HASH_HEX], struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_hash_file(const char *path, char out[HRF_HASH_HEX],
                                          struct hrf_error *err);

/* Returns the 64-bit FNV-1a hash (Fowler, Noll, Vo): it is fast, but anybody can make two texts
 * with the same hash. */
uint64_t hrf_hash_fnv(const void *bytes, size_t n_bytes);

#endif
