/* bag_ahead.c - one read ahead in a thread. */
#include "heads/bags/bag_ahead.h"

#include <string.h>

static void *read_bag(void *context)
{
    struct hrf_bag_ahead *ahead = context;
    ahead->status = (ahead->is_again ? hrf_bag_read_again : hrf_bag_read)(
        ahead->path, ahead->set, ahead->width, &ahead->bag, &ahead->err);
    return NULL;
}

void hrf_bag_ahead_start(struct hrf_bag_ahead *ahead, const char *path, const char *set,
                         int64_t width, bool is_again, struct hrf_bag *spare)
{
    hrf_bag_ahead_release(ahead);
    *ahead = (struct hrf_bag_ahead){
        .path = path, .set = set, .width = width, .is_again = is_again, .bag = spare
    };
    if (pthread_create(&ahead->thread, NULL, read_bag, ahead) == 0)
        return;
    hrf_bag_destroy(spare);
    ahead->bag = NULL;
    ahead->path = NULL;
}

static void wait(struct hrf_bag_ahead *ahead)
{
    if (ahead->path != NULL)
        pthread_join(ahead->thread, NULL);
}

enum hrf_status hrf_bag_ahead_take(struct hrf_bag_ahead *ahead, const char *path, const char *set,
                                   int64_t width, struct hrf_bag **out, struct hrf_error *err)
{
    if (ahead->path == NULL || strcmp(ahead->path, path) != 0) {
        hrf_bag_ahead_release(ahead);
        return hrf_bag_read(path, set, width, out, err);
    }
    wait(ahead);
    ahead->path = NULL;
    if (ahead->status != HRF_OK) {
        if (err != NULL)
            *err = ahead->err;
        return ahead->status;
    }
    HRF_MOVE(*out, ahead->bag);
    return HRF_OK;
}

void hrf_bag_ahead_release(struct hrf_bag_ahead *ahead)
{
    wait(ahead);
    if (ahead->path != NULL)
        hrf_bag_destroy(ahead->bag);
    ahead->path = NULL;
    ahead->bag = NULL;
}
