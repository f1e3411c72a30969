/* error_record.c - errors as JSON objects (error_record.h). */
#include "base/error_record.h"

#include "base/message.h"

#include <stdio.h>
#include <string.h>

static bool is_record_wanted;

json_t *hrf_error_to_json(const struct hrf_error *err)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "id", hrf_error_row(err->id)->name);
    hrf_json_put_text(object, "status", hrf_status_row(err->status)->name);
    hrf_json_put_text(object, "setting", err->setting);
    hrf_json_put_text(object, "domain", err->domain != NULL ? err->domain : "");
    hrf_json_put_int(object, "native", err->native);
    hrf_json_put(object, "text", hrf_json_bytes(err->text));
    return object;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* The domains of this program; an error keeps a static string. */
static const char *find_domain(const char *name)
{
    static const char *const domains[] = { "errno", "sqlite", "onednn", "cuda", "cudnn",  "nccl",
                                           "mpi",   "nvml",   "nvjpeg", "zlib", "xgboost" };
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++)
        if (strcmp(domains[i], name) == 0)
            return domains[i];
    return NULL;
}

bool hrf_error_from_json(const json_t *value, struct hrf_error *out)
{
    HRF_AUTO_FREE char *text = NULL;
    if (!json_is_string(json_object_get(value, "status")) ||
        hrf_json_get_bytes(value, "text", "an error", &text, NULL) != HRF_OK || text == NULL)
        return false;
    *out = (struct hrf_error){ .status = HRF_E_EXTERNAL,
                               .id = hrf_error_id_find(text_at(value, "id")),
                               .domain = find_domain(text_at(value, "domain")),
                               .native = (int)json_integer_value(
                                   json_object_get(value, "native")) };
    for (int s = HRF_E_USER; s < HRF_N_STATUSES; s++)
        if (strcmp(hrf_status_row((enum hrf_status)s)->name, text_at(value, "status")) == 0)
            out->status = (enum hrf_status)s;
    snprintf(out->setting, sizeof out->setting, "%s", text_at(value, "setting"));
    snprintf(out->text, sizeof out->text, "%s", text);
    return true;
}

void hrf_error_report_as_record(void)
{
    is_record_wanted = true;
}

int hrf_error_report(const char *program, const char *command, const struct hrf_error *err)
{
    const char *hint = hrf_error_row(err->id)->hint;
    if (is_record_wanted) {
        HRF_AUTO_JSON record = hrf_error_to_json(err);
        HRF_AUTO_FREE char *text = hrf_json_text(record);
        fprintf(stderr, "%s\n", text);
    } else {
        fprintf(stderr, "%s %s: %s\n", program, command, err->text);
    }
    char name[128], takes[512], way_out[512];
    if (!is_record_wanted && hrf_message_describe(err->setting, takes, sizeof takes)) {
        hrf_message_name(err->setting, name, sizeof name);
        fprintf(stderr, "%s: %s\n", name, takes);
    }
    if (!is_record_wanted && hint != NULL) {
        hrf_message_expand(hint, way_out, sizeof way_out);
        fprintf(stderr, "what helps: %s\n", way_out);
    }
    return hrf_status_row(err->status)->exit_code;
}

enum hrf_status hrf_error_parse(const char *standard_error, const char *program,
                                struct hrf_error *err)
{
    size_t n = strlen(standard_error);
    while (n > 0 && standard_error[n - 1] == '\n')
        n--;
    const char *line = standard_error + n;
    while (line > standard_error && line[-1] != '\n')
        line--;
    n -= (size_t)(line - standard_error);
    struct hrf_error found;
    HRF_AUTO_JSON value = json_loadb(line, n, 0, NULL);
    if (hrf_error_from_json(value, &found))
        return hrf_error_pass(err, &found);
    if (n == 0)
        return hrf_error_raise(err, HRF_ERROR_NO_ANSWER, "%s ended without a message", program);
    return hrf_error_raise(err, HRF_ERROR_NO_ANSWER, "%.*s", (int)n, line);
}
