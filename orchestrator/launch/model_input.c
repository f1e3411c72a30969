/* model_input.c - asks the engine what a model's metadata say of its images (model_input.h). */
#include "orchestrator/launch/model_input.h"

#include "base/file.h"
#include "base/strbuf.h"
#include "orchestrator/launch/launch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char key[] = HRF_MODEL_INPUT_KEY;
enum { KEY_BYTES = sizeof key - 1, BLOCK_BYTES = 1 << 20 };

/* Finds out whether the key is anywhere in the file. */
static enum hrf_status look_for_key(const char *path, bool *found, struct hrf_error *err)
{
    int fd;
    HRF_TRY(hrf_file_open(path, &fd, err));
    HRF_AUTO_FREE char *block = hrf_alloc(KEY_BYTES + BLOCK_BYTES);
    enum hrf_status status = HRF_OK;
    size_t kept = 0; /* bytes of the block before, in which the key may have begun */
    *found = false;
    while (status == HRF_OK && !*found) {
        const ssize_t n = read(fd, block + kept, BLOCK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = hrf_error_set_errno(err, errno, "cannot read '%s'", path);
        if (n <= 0)
            break;
        const size_t all = kept + (size_t)n;
        for (const char *at = block; !*found && at != NULL && at + KEY_BYTES <= block + all; at++) {
            at = memchr(at, key[0], (size_t)(block + all - at));
            if (at == NULL)
                break;
            *found = at + KEY_BYTES <= block + all && memcmp(at, key, KEY_BYTES) == 0;
        }
        kept = all < KEY_BYTES ? all : KEY_BYTES;
        memmove(block, block + all - kept, kept);
    }
    close(fd);
    return status;
}

enum hrf_status hrf_model_input_read(const char *path, bool wants_size, struct hrf_model_input *out,
                                     struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT;
    const struct hrf_engine_question question = { .command = HRF_ENGINE_MODEL,
                                                  .operands = { "input", path } };
    bool found;
    *out = (struct hrf_model_input){ .is_known = false };
    HRF_TRY(look_for_key(path, &found, err));
    if (!found && !wants_size)
        return HRF_OK;
    HRF_TRY(hrf_engine_ask(&question, &said, err));
    return said.length > 0 ? hrf_model_input_parse(said.text, said.length, path, out, err) : HRF_OK;
}
