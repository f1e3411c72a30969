/* trained_head.c - the record of a train task (trained_head.h). */
#include "schema/record/trained_head.h"

#include "base/file.h"
#include "base/path.h"

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
    size_t n = 0;
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++)
        if (head->files[i].data != NULL)
            sections[n++] = (struct hrf_section){ hrf_trained_files[i], head->files[i].data,
                                                  head->files[i].n_bytes };
    return hrf_container_encode(HRF_TRAINED_HEAD_KIND, &head->identity, header, sections, n, out,
                                err);
}

enum hrf_status hrf_trained_network_encode(const struct hrf_record_identity *identity,
                                           const char *folder, struct hrf_bytes *out,
                                           struct hrf_error *err)
{
    enum { MAX_BYTES = 1 << 24 };
    HRF_AUTO(hrf_trained_head) network = hrf_calloc(1, sizeof *network);
    HRF_AUTO_FREE char *path = hrf_path_join(folder, hrf_trained_files[HRF_TRAINED_RESULT]);
    struct hrf_bytes *result = &network->files[HRF_TRAINED_RESULT];
    char *bytes = NULL;
    network->identity = *identity;
    HRF_TRY(hrf_file_read(path, MAX_BYTES, &bytes, &result->n_bytes, err));
    result->data = (unsigned char *)bytes;
    return hrf_trained_head_encode(network, out, err);
}

enum hrf_status hrf_trained_head_decode(const void *bytes, size_t n_bytes,
                                        const struct hrf_record_identity *expected,
                                        const char *where, struct hrf_trained_head **out,
                                        struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_container) container = { .header = NULL };
    HRF_AUTO(hrf_trained_head) head = hrf_calloc(1, sizeof *head);
    HRF_TRY(hrf_container_decode(bytes, n_bytes, HRF_TRAINED_HEAD_KIND, expected, where, &container,
                                 err));
    head->identity = container.identity;
    for (int i = 0; i < HRF_N_TRAINED_FILES; i++)
        HRF_TRY(hrf_container_bytes(&container, hrf_trained_files[i], &head->files[i], err));
    HRF_MOVE(*out, head);
    return HRF_OK;
}
