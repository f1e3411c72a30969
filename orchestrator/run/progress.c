/* progress.c - formats and prints the progress of a run, on a terminal or line by line. */
#include "orchestrator/run/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_EVERY_MS = 10000, BLOCK_EVERY_MS = 200, BAR_WIDTH = 28 };

struct hrf_progress {
    bool quiet, is_terminal;
    int n_lines; /* of the block on the screen */
    int64_t next_ns;
    char last[512];
};

static void erase(struct hrf_progress *p)
{
    if (p->n_lines > 0)
        fprintf(stderr, "\033[%dA\033[J", p->n_lines);
    p->n_lines = 0;
}

/* Log lines go above the block. */
static void log_above(void *context, const char *line)
{
    erase(context);
    fprintf(stderr, "%s\n", line);
}

struct hrf_progress *hrf_progress_create(bool quiet)
{
    struct hrf_progress *p = hrf_calloc(1, sizeof *p);
    p->quiet = quiet;
    p->is_terminal = isatty(STDERR_FILENO) == 1;
    if (p->is_terminal && !quiet)
        hrf_log_set_hook(log_above, p);
    return p;
}

void hrf_progress_destroy(struct hrf_progress *p)
{
    if (p == NULL)
        return;
    if (p->is_terminal && !p->quiet)
        hrf_log_set_hook(NULL, NULL);
    hrf_free(p);
}

static void add_bar(struct hrf_strbuf *out, const char *name, int64_t done, int64_t total,
                    const char *unit)
{
    int filled = total > 0 ? (int)(done * BAR_WIDTH / total) : 0;
    hrf_strbuf_addf(out, "  %-9s ", name);
    for (int i = 0; i < BAR_WIDTH; i++)
        hrf_strbuf_adds(out, i < filled ? "\xe2\x96\x88" : "\xe2\x96\x91");
    hrf_strbuf_addf(out, " %lld/%lld %s\n", (long long)done, (long long)total, unit);
}

static void add_eta(struct hrf_strbuf *out, const struct hrf_progress_facts *f)
{
    if (f->patches_per_second <= 0)
        return;
    hrf_strbuf_addf(out, ", %.0f patches/s", f->patches_per_second);
    const int64_t n_left = f->infer_total - f->infer_done - f->infer_failed;
    if (n_left > 0)
        hrf_strbuf_addf(out, ", about %s left",
                        hrf_duration_text((double)n_left / f->patches_per_second).text);
}

static void add_trainings(struct hrf_strbuf *out, const struct hrf_progress_facts *f)
{
    hrf_strbuf_addf(out, "trained %lld/%lld", (long long)f->trainings_done,
                    (long long)f->n_trainings);
    if (f->n_failed > 0)
        hrf_strbuf_addf(out, ", %lld failed", (long long)f->n_failed);
    hrf_strbuf_addf(out, ", %.0f %% of all steps, %lld job%s", 100 * f->trainings_share,
                    (long long)f->n_jobs, f->n_jobs == 1 ? "" : "s");
}

static void draw_trainings(struct hrf_progress *p, const struct hrf_progress_facts *f)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    add_trainings(&out, f);
    erase(p);
    fprintf(stderr, "  %s\n", out.text);
    p->n_lines = 1;
}

static void draw_block(struct hrf_progress *p, const struct hrf_progress_facts *f)
{
    if (f->n_trainings > 0) {
        draw_trainings(p, f);
        return;
    }
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    add_bar(&out, "tile", f->tile_done, f->tile_total, "slides");
    const bool calibrates = f->calibrate_done < f->calibrate_total;
    if (calibrates)
        add_bar(&out, "calibrate", f->calibrate_done, f->calibrate_total, "slides");
    add_bar(&out, "infer", f->infer_done, f->infer_total, "patches");
    hrf_strbuf_addf(&out, "  %lld of %lld slides ended", (long long)f->n_ended,
                    (long long)f->n_slides);
    if (f->n_failed > 0)
        hrf_strbuf_addf(&out, ", %lld failed", (long long)f->n_failed);
    hrf_strbuf_addf(&out, ", %lld job%s", (long long)f->n_jobs, f->n_jobs == 1 ? "" : "s");
    if (f->infer_failed > 0)
        hrf_strbuf_addf(&out, ", %lld patches could not be scored", (long long)f->infer_failed);
    add_eta(&out, f);
    hrf_strbuf_addc(&out, '\n');
    erase(p);
    fputs(out.text, stderr);
    p->n_lines = 3 + calibrates;
}

static void add_slides(struct hrf_strbuf *out, const struct hrf_progress_facts *f)
{
    hrf_strbuf_addf(out, "tiled %lld/%lld slides", (long long)f->tile_done,
                    (long long)f->tile_total);
    if (f->calibrate_done < f->calibrate_total)
        hrf_strbuf_addf(out, ", calibrated on %lld/%lld", (long long)f->calibrate_done,
                        (long long)f->calibrate_total);
    hrf_strbuf_addf(out, ", scored %lld/%lld patches", (long long)f->infer_done,
                    (long long)f->infer_total);
    if (f->infer_failed > 0)
        hrf_strbuf_addf(out, " (%lld could not be)", (long long)f->infer_failed);
    hrf_strbuf_addf(out, ", ended %lld/%lld", (long long)f->n_ended, (long long)f->n_slides);
    if (f->n_failed > 0)
        hrf_strbuf_addf(out, ", %lld failed", (long long)f->n_failed);
    add_eta(out, f);
}

static void print_line(struct hrf_progress *p, const struct hrf_progress_facts *f)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    if (f->n_trainings > 0)
        add_trainings(&out, f);
    else
        add_slides(&out, f);
    if (strcmp(out.text, p->last) != 0)
        hrf_log_info("run", "%s", out.text);
    snprintf(p->last, sizeof p->last, "%s", out.text);
}

void hrf_progress_show(struct hrf_progress *p, const struct hrf_progress_facts *facts)
{
    if (p->quiet || hrf_clock_ns() < p->next_ns)
        return;
    int64_t every = p->is_terminal ? BLOCK_EVERY_MS : LINE_EVERY_MS;
    p->next_ns = hrf_clock_ns() + every * 1000000;
    if (p->is_terminal)
        draw_block(p, facts);
    else
        print_line(p, facts);
}

void hrf_progress_finish(struct hrf_progress *p, const struct hrf_progress_facts *facts)
{
    if (p->quiet)
        return;
    if (facts != NULL && p->is_terminal)
        draw_block(p, facts);
    else if (facts != NULL)
        print_line(p, facts);
    p->n_lines = 0; /* it stays on the screen */
}
