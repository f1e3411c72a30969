/* engine_program.c - where hires-engine is, and what it answers. */
#include "orchestrator/launch/launch.h"

#include "base/alloc.h"
#include "base/error_record.h"
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
    *path = found;
    return HRF_OK;
}

void hrf_launch_wait_quietly(void)
{
    if (getenv("OMP_WAIT_POLICY") == NULL)
        setenv("GOMP_SPINCOUNT", "2000", 0);
}

/* The key of an entry that names a file of external data, as a protobuf stores it: field 1, of 8
 * bytes. Weights may contain these bytes by chance; then the engine is asked without need. */
static const char location_key[] = "\n\x08location";
enum { KEY_BYTES = sizeof location_key - 1, BLOCK_BYTES = 1 << 20 };

/* Computes in one pass the file's hash, and whether the key is anywhere in it. */
static enum hrf_status hash_file(int fd, const char *path, char out[HRF_HASH_HEX], bool *has_key,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_AUTO_FREE char *block = hrf_alloc(KEY_BYTES + BLOCK_BYTES);
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

enum hrf_status hrf_engine_ask(const struct hrf_engine_question *question,
                               struct hrf_strbuf *answer, struct hrf_error *err)
{
    enum { PATIENCE_MS = 600000, MAX_BYTES = 16 << 20 }; /* weights of some GB on a slow disk */
    HRF_AUTO_FREE char *program = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) wrong = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    HRF_TRY(hrf_launch_find_engine(&program, err));
    const char *const first[] = { program, hrf_engine_commands[question->command].name,
                                  question->operands[0], question->operands[1], NULL };
    char **argv = hrf_args_write_request(first, question->options, question->request,
                                         question->initial, HRF_ASKED);
    const int64_t patience_ms = question->patience_ms > 0 ? question->patience_ms : PATIENCE_MS;
    const enum hrf_status status = hrf_process_run((const char *const *)argv, NULL, NULL,
                                                   patience_ms, MAX_BYTES, answer, &wrong, &result,
                                                   err);
    hrf_args_free_words(argv);
    if (status != HRF_OK) {
        if (err != NULL)
            err->id = HRF_ERROR_NO_ENGINE;
        return status;
    }
    if (result.exited && result.exit_code == 0)
        return HRF_OK;
    if (result.timed_out)
        return hrf_error_raise(err, HRF_ERROR_NO_ANSWER,
                               "hires-engine %s did not end within %lld s", first[1],
                               (long long)(patience_ms / 1000));
    if (result.exited && result.exit_code == HRF_EXIT_NO_MEMORY)
        return hrf_error_raise(err, HRF_ERROR_NO_MEMORY, "hires-engine %s had no memory left",
                               first[1]);
    return hrf_error_parse(wrong.text, "hires-engine", err);
}

enum hrf_status hrf_engine_ask_json(const struct hrf_engine_question *question, json_t **answer,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    HRF_TRY(hrf_engine_ask(question, &text, err));
    return hrf_json_parse(text.text, text.length, hrf_engine_commands[question->command].name,
                          answer, err);
}

static enum hrf_status ask_identity(const char *path, struct hrf_model_identity *out,
                                    struct hrf_error *err)
{
    HRF_AUTO_JSON answer = NULL;
    const struct hrf_engine_question question = { .command = HRF_ENGINE_MODEL,
                                                  .operands = { "hash", path } };
    HRF_TRY(hrf_engine_ask_json(&question, &answer, err));
    return hrf_model_identity_read(answer, out, err);
}

enum hrf_status hrf_launch_model_brings_scales(const char *path, bool *out, struct hrf_error *err)
{
    struct hrf_model_identity identity;
    HRF_TRY(ask_identity(path, &identity, err));
    *out = identity.brings_scales;
    return HRF_OK;
}

enum hrf_status hrf_launch_model_hash(const char *path, char out[HRF_HASH_HEX],
                                      struct hrf_error *err)
{
    HRF_AUTO_CLOSE int fd = -1;
    struct hrf_model_identity identity;
    bool has_external = false;
    HRF_TRY(hrf_file_open(path, &fd, err));
    HRF_TRY(hash_file(fd, path, out, &has_external, err));
    if (!has_external)
        return HRF_OK;
    HRF_TRY(ask_identity(path, &identity, err));
    memcpy(out, identity.sha256, HRF_HASH_HEX);
    return HRF_OK;
}
