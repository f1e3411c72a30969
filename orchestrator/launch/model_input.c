/* model_input.c - reads the preprocessing that a model's metadata hold (model_input.h). */
#include "orchestrator/launch/model_input.h"

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/strbuf.h"
#include "orchestrator/launch/launch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char key[] = "hires_flow.input";
enum { KEY_BYTES = sizeof key - 1, BLOCK_BYTES = 1 << 20, PATIENCE_MS = 600000, MOST_SIDE = 8192 };

/* Whether the key is anywhere in the file. */
static enum hrf_status look_for_key(const char *path, bool *found, struct hrf_error *err)
{
    int fd;
    HRF_TRY(hrf_file_open(path, &fd, err));
    HRF_AUTO_FREE char *block = hrf_alloc(KEY_BYTES + BLOCK_BYTES);
    enum hrf_status status = block != NULL
                                 ? HRF_OK
                                 : hrf_error_set(err, HRF_E_NOMEM, "no memory to read '%s'", path);
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

static enum hrf_status read_triple(const json_t *object, const char *name, const char *where,
                                   double out[3], struct hrf_error *err)
{
    json_t *list;
    HRF_TRY(hrf_json_get_array(object, name, where, &list, err));
    for (size_t i = 0; i < 3; i++) {
        const json_t *number = json_array_get(list, i);
        out[i] = json_number_value(number);
        if (json_array_size(list) != 3 || !json_is_number(number) ||
            (strcmp(name, "std") == 0 && !(out[i] > 0)))
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: '%s' of the model's metadata is not three numbers%s", where,
                                 name, strcmp(name, "std") == 0 ? " above 0" : "");
    }
    return HRF_OK;
}

/* The entries that not every file has: they say what becomes of patches of another size. */
static enum hrf_status read_resize(const json_t *object, const char *path,
                                   struct hrf_model_input *input, struct hrf_error *err)
{
    const json_t *resize = json_object_get(object, "resize");
    const json_t *word = json_object_get(object, "interpolation");
    if (resize != NULL) {
        HRF_TRY(hrf_json_get_int(object, "resize", path, &input->resize, err));
        if (input->resize < input->size || input->resize > MOST_SIDE)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: its metadata ask for patches resized to %lld px, of which "
                                 "the network takes %lld",
                                 path, (long long)input->resize, (long long)input->size);
    }
    if (word == NULL)
        return HRF_OK;
    const char *name = json_is_string(word) ? json_string_value(word) : "";
    input->interpolation = hrf_interpolation_find(name);
    if (input->interpolation == HRF_N_INTERPOLATIONS ||
        input->interpolation == HRF_INTERPOLATION_AUTO)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: its metadata ask for the interpolation '%.40s'; nearest, box, "
                             "bilinear, bicubic and lanczos are known",
                             path, name);
    return HRF_OK;
}

static enum hrf_status understand(const char *text, size_t n, const char *path,
                                  struct hrf_model_input *out, struct hrf_error *err)
{
    HRF_AUTO_JSON object = NULL;
    struct hrf_model_input input = { .is_known = true };
    HRF_TRY(hrf_json_parse(text, n, path, &object, err));
    HRF_TRY(hrf_json_get_int(object, "size", path, &input.size, err));
    HRF_TRY(read_triple(object, "mean", path, input.mean, err));
    HRF_TRY(read_triple(object, "std", path, input.std, err));
    if (input.size < 16 || input.size > MOST_SIDE)
        return hrf_error_set(err, HRF_E_USER, "%s: its metadata ask for images of %lld px", path,
                             (long long)input.size);
    HRF_TRY(read_resize(object, path, &input, err));
    *out = input;
    return HRF_OK;
}

enum hrf_status hrf_model_input_read(const char *path, struct hrf_model_input *out,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *program = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT, wrong = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    bool found;
    *out = (struct hrf_model_input){ .is_known = false };
    HRF_TRY(look_for_key(path, &found, err));
    if (!found)
        return HRF_OK;
    HRF_TRY(hrf_launch_find_engine(&program, err));
    const char *const argv[] = { program, "model", "input", path, NULL };
    HRF_TRY(hrf_process_run(argv, NULL, NULL, PATIENCE_MS, 1 << 16, &said, &wrong, &result, err));
    if (!result.exited || result.exit_code != 0) {
        const char *why = wrong.length > 0 ? wrong.text : "the engine ended without a message";
        return hrf_error_set(err, HRF_E_USER, "%.*s", (int)strcspn(why, "\n"), why);
    }
    return said.length > 0 ? understand(said.text, said.length, path, out, err) : HRF_OK;
}
