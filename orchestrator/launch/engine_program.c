/* engine_program.c - where hires-engine is, and what it says of a model. */
#include "orchestrator/launch/launch.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"
#include "base/strbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum hrf_status hrf_launch_find_engine(char **path, struct hrf_error *err)
{
    HRF_AUTO_FREE char *self = NULL, *directory = NULL;
    const char *named = getenv("HRF_ENGINE");
    HRF_TRY(hrf_process_self(&self, err));
    char *found = NULL;
    if (named != NULL && named[0] != '\0')
        found = hrf_strdup(named);
    else if ((directory = hrf_path_directory(self)) != NULL)
        found = hrf_path_join(directory, "hires-engine");
    HRF_CHECK_MEMORY(found != NULL, err, "no memory for a path");
    *path = found;
    return HRF_OK;
}

/* How a protobuf holds the key of an entry that says where external data lies: field 1, of 8 bytes.
 * Weights may hold these bytes by chance; then the engine is asked for nothing. */
static const char location_key[] = "\n\x08location";
enum { KEY_BYTES = sizeof location_key - 1, BLOCK_BYTES = 1 << 20 };

/* One pass over the file: its hash, and whether the key is anywhere in it. */
static enum hrf_status hash_file(int fd, const char *path, char out[HRF_HASH_HEX], bool *has_key,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_AUTO_FREE char *block = hrf_alloc(KEY_BYTES + BLOCK_BYTES);
    HRF_CHECK_MEMORY(block != NULL, err, "no memory to hash '%s'", path);
    size_t kept = 0; /* bytes of the block before, in which a key may have begun */
    *has_key = false;
    for (;;) {
        const ssize_t n = read(fd, block + kept, BLOCK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hrf_error_set_errno(err, errno, "cannot read '%s'", path);
        if (n == 0)
            break;
        hrf_hash_bytes(hash, block + kept, (size_t)n);
        const size_t all = kept + (size_t)n;
        for (size_t i = 0; i + KEY_BYTES <= all && !*has_key; i++)
            *has_key = memcmp(block + i, location_key, KEY_BYTES) == 0;
        kept = all < KEY_BYTES ? all : KEY_BYTES;
        memmove(block, block + all - kept, kept);
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* What `hires-engine model hash` prints: the hash, and whether the model has scales of its own. */
static enum hrf_status ask_engine(const char *path, char out[HRF_HASH_HEX], bool *brings_scales,
                                  struct hrf_error *err)
{
    enum { PATIENCE_MS = 600000 }; /* weights of some GB on a slow disk */
    HRF_AUTO_FREE char *program = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT, wrong = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    HRF_TRY(hrf_launch_find_engine(&program, err));
    const char *const argv[] = { program, "model", "hash", path, NULL };
    HRF_TRY(hrf_process_run(argv, NULL, NULL, PATIENCE_MS, 1 << 16, &said, &wrong, &result, err));
    if (!result.exited || result.exit_code != 0 || said.length < HRF_HASH_HEX) {
        const char *why = wrong.length > 0 ? wrong.text : "the engine ended without a message";
        return hrf_error_set(err, HRF_E_USER, "%.*s", (int)strcspn(why, "\n"), why);
    }
    memcpy(out, said.text, HRF_HASH_HEX - 1);
    out[HRF_HASH_HEX - 1] = '\0';
    *brings_scales = strstr(said.text, "own scales") != NULL;
    return HRF_OK;
}

enum hrf_status hrf_launch_model_brings_scales(const char *path, bool *out, struct hrf_error *err)
{
    char sha256[HRF_HASH_HEX];
    return ask_engine(path, sha256, out, err);
}

enum hrf_status hrf_launch_model_hash(const char *path, char out[HRF_HASH_HEX],
                                      struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    bool has_external = false, ignored;
    HRF_TRY(hrf_file_open(path, &fd, err));
    HRF_TRY(hash_file(fd, path, out, &has_external, err));
    return has_external ? ask_engine(path, out, &ignored, err) : HRF_OK;
}
