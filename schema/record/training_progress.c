/* training_progress.c - see training_progress.h. */
#include "schema/record/training_progress.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

const char hrf_training_progress_name[] = "progress.json";

void hrf_training_progress_write(const char *folder, const struct hrf_training_progress *progress)
{
    HRF_AUTO_FREE char *path = hrf_path_join(folder, hrf_training_progress_name);
    HRF_AUTO_JSON json = json_object();
    hrf_json_put_int(json, "epoch", progress->epoch);
    hrf_json_put_int(json, "step", progress->step);
    hrf_json_put_int(json, "steps", progress->n_steps);
    hrf_json_put_number(json, "loss", progress->loss);
    HRF_AUTO_FREE char *text = hrf_json_text(json);
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    /* Only a hint: without it nobody sees the steps. */
    const ssize_t n = pwrite(fd, text, strlen(text), 0);
    const int cut = n > 0 ? ftruncate(fd, (off_t)n) : 0;
    (void)cut;
}

bool hrf_training_progress_parse(const char *text, size_t n_bytes,
                                 struct hrf_training_progress *progress)
{
    HRF_AUTO_JSON json = NULL;
    struct hrf_training_progress p = { .loss = NAN };
    if (hrf_json_parse(text, n_bytes, hrf_training_progress_name, &json, NULL) != HRF_OK ||
        hrf_json_get_int(json, "epoch", hrf_training_progress_name, &p.epoch, NULL) != HRF_OK ||
        hrf_json_get_int(json, "steps", hrf_training_progress_name, &p.n_steps, NULL) != HRF_OK ||
        hrf_json_get_int(json, "step", hrf_training_progress_name, &p.step, NULL) != HRF_OK ||
        p.epoch < 1 || p.step < 0 || p.step > p.n_steps)
        return false;
    const json_t *loss = json_object_get(json, "loss");
    if (json_is_number(loss))
        p.loss = json_number_value(loss);
    *progress = p;
    return true;
}
