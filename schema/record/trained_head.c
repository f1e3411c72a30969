/* trained_head.c - the record of a train task (trained_head.h). */
#include "schema/record/trained_head.h"

#include <string.h>

enum { VERSION = 2 };

const char *const hrf_trained_files[HRF_N_TRAINED_FILES] = {
    [HRF_TRAINED_ONNX] = "head.onnx",
    [HRF_TRAINED_RESULT] = "result.json",
    [HRF_TRAINED_PREDICTIONS] = "predictions.csv",
    [HRF_TRAINED_HISTORY] = "history.csv"
};

void hrf_trained_head_destroy(struct hrf_trained_head *head)
{
    if (head == NULL)
        return;
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++)
        hrf_bytes_release(&head->files[i]);
    hrf_free(head);
}

enum hrf_status hrf_trained_head_encode(const struct hrf_trained_head *head, struct hrf_bytes *out,
                                        struct hrf_error *err)
{
    struct hrf_section sections[HRF_N_TRAINED_FILES];
    HRF_AUTO_JSON header = json_object();
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++)
        sections[i] = (struct hrf_section){ hrf_trained_files[i], head->files[i].data,
                                            head->files[i].n_bytes };
    HRF_CHECK_MEMORY(header != NULL, err, "no memory for a slide head");
    return hrf_container_encode(HRF_TRAINED_HEAD_KIND, VERSION, &head->identity, header, sections,
                                HRF_N_TRAINED_FILES, out, err);
}

static enum hrf_status copy_files(const struct hrf_container *container, const char *where,
                                  struct hrf_trained_head *head, struct hrf_error *err)
{
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++) {
        struct hrf_section section;
        HRF_TRY(
            hrf_container_section(container, hrf_trained_files[i], SIZE_MAX, where, &section, err));
        head->files[i].data = hrf_alloc(section.n_bytes + 1);
        HRF_CHECK_MEMORY(head->files[i].data != NULL, err, "%s: no memory for its files", where);
        memcpy(head->files[i].data, section.data, section.n_bytes);
        head->files[i].data[section.n_bytes] = '\0'; /* for those that are texts */
        head->files[i].n_bytes = section.n_bytes;
    }
    return HRF_OK;
}

enum hrf_status hrf_trained_head_decode(const void *bytes, size_t n_bytes,
                                        const struct hrf_record_identity *expected,
                                        const char *where, struct hrf_trained_head **out,
                                        struct hrf_error *err)
{
    struct hrf_container container;
    HRF_AUTO(hrf_trained_head) head = hrf_calloc(1, sizeof *head);
    HRF_CHECK_MEMORY(head != NULL, err, "%s: no memory for a slide head", where);
    HRF_TRY(hrf_container_decode(bytes, n_bytes, HRF_TRAINED_HEAD_KIND, VERSION, expected, where,
                                 &container, err));
    head->identity = container.identity;
    const enum hrf_status status = copy_files(&container, where, head, err);
    hrf_container_release(&container);
    HRF_TRY(status);
    HRF_MOVE(*out, head);
    return HRF_OK;
}
