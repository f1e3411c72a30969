/* jpeg_errors.c - see jpeg_errors.h. */
#include "tiler/slide/jpeg_errors.h"

static void leave(j_common_ptr jpeg)
{
    struct hrf_jpeg_errors *errors = (struct hrf_jpeg_errors *)(void *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    if (errors->reason != NULL) {
        errors->base.format_message(jpeg, text);
        snprintf(errors->reason, 256, "%s", text);
    }
    longjmp(errors->failed, 1);
}

static void take_message(j_common_ptr jpeg, int level)
{
    if (level < 0)
        leave(jpeg);
}

static void say_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

struct jpeg_error_mgr *hrf_jpeg_errors_init(struct hrf_jpeg_errors *errors, char *reason)
{
    struct jpeg_error_mgr *base = jpeg_std_error(&errors->base);
    base->error_exit = leave;
    base->emit_message = take_message;
    base->output_message = say_nothing;
    errors->reason = reason;
    return base;
}
