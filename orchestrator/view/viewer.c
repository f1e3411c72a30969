/* viewer.c - the viewer's web server: who may ask, and which address is answered by what. */
#include "orchestrator/view/viewer.h"

#include "base/embedded.h"
#include "base/file.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "orchestrator/view/slide_tiles.h"
#include "orchestrator/view/view_data.h"
#include "orchestrator/view/view_live.h"
#include "orchestrator/view/view_training.h"
#include "schema/settings/precision.h"
#include "schema/store/store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

extern const struct hrf_embedded hrf_view_files[]; /* the files of page/ */

enum { THREADS = HRF_VIEW_READERS, TOKEN_BYTES = 16 };
/* A connection that has not shown the token is closed soon: anybody on this machine may make more
 * than are accepted. A browser's stays open. */
enum { SILENT_S = 5, OWNER_S = 60 };

struct shown_slide {
    int64_t id;
    char *path; /* NULL: none */
};

struct hrf_viewer {
    struct hrf_viewer_config config;
    bool is_of_training;
    struct hrf_slide_tiles *tiles;
    pthread_mutex_t lock;
    /* The slide that was asked for last, because most requests are about one slide. */
    struct shown_slide last;
    struct MHD_Daemon *daemon;
    char token[2 * TOKEN_BYTES + 1];
    char *url;
    int port;
};

/* The answer to one request. */
struct answer {
    unsigned code;
    const char *type;
    struct hrf_strbuf text; /* used where bytes is NULL */
    unsigned char *bytes;   /* heap */
    size_t n_bytes;
    bool is_kept; /* it never changes: the browser may keep it */
};

static void answer_error(struct answer *a, enum hrf_status status, const struct hrf_error *err)
{
    a->code = status == HRF_E_USER || status == HRF_E_AGAIN ? MHD_HTTP_NOT_FOUND
                                                            : MHD_HTTP_INTERNAL_SERVER_ERROR;
    a->type = "text/plain; charset=utf-8";
    hrf_strbuf_clear(&a->text);
    hrf_strbuf_addf(&a->text, "%s\n", err->text);
    a->is_kept = false;
}

/* Reads the number at *at and moves *at behind it. */
static bool take_number(const char **at, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    const bool is_number = end != *at && errno == 0 &&
                           (**at == '-' || (**at >= '0' && **at <= '9'));
    *at = end;
    return is_number;
}

/* True if `text` stands at *at, which is then moved behind it. */
static bool take_text(const char **at, const char *text)
{
    const size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0)
        return false;
    *at += n;
    return true;
}

/* True for "tile/ZOOM/COLUMN/ROW.jpg"; place: the three numbers. */
static bool is_tile(const char *what, int64_t place[3])
{
    return take_text(&what, "tile/") && take_number(&what, &place[0]) && take_text(&what, "/") &&
           take_number(&what, &place[1]) && take_text(&what, "/") &&
           take_number(&what, &place[2]) && strcmp(what, ".jpg") == 0;
}

/* Returns the precision of "scores/PRECISION.json"; NULL: it is not such an address, or there is no
 * such precision. */
static const char *precision_of(const char *what, const char *folder, const char *suffix)
{
    if (!take_text(&what, folder))
        return NULL;
    for (size_t i = 0; hrf_precision_names[i] != NULL; i++) {
        const char *end = what;
        if (take_text(&end, hrf_precision_names[i]) && strcmp(end, suffix) == 0)
            return hrf_precision_names[i];
    }
    return NULL;
}

/* Forgets the last slide, because another cohort may be run in the directory. */
static void forget_slide(struct hrf_viewer *viewer)
{
    pthread_mutex_lock(&viewer->lock);
    hrf_free(viewer->last.path);
    viewer->last = (struct shown_slide){ .path = NULL };
    pthread_mutex_unlock(&viewer->lock);
}

/* Reads the path of the slide from the store; *out is heap. */
static enum hrf_status find_slide(const struct hrf_viewer *viewer, int64_t id, char **out,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    HRF_TRY(hrf_store_open_run(viewer->config.directory, &store, err));
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    for (size_t i = 0; i < slides.n_items && *out == NULL; i++)
        if (slides.items[i].id == id)
            *out = hrf_strdup(slides.items[i].path);
    return *out != NULL ? HRF_OK
                        : hrf_error_set(err, HRF_E_USER, "there is no slide %lld", (long long)id);
}

/* Finds the path of the slide; *out is heap. A map asks for dozens of tiles at once, and the rows
 * of a large cohort are not to be read for each. */
static enum hrf_status slide_path(struct hrf_viewer *viewer, int64_t id, char **out,
                                  struct hrf_error *err)
{
    enum hrf_status status = HRF_OK;
    pthread_mutex_lock(&viewer->lock);
    if (viewer->last.path == NULL || viewer->last.id != id) {
        char *path = NULL;
        status = find_slide(viewer, id, &path, err);
        if (status == HRF_OK) {
            hrf_free(viewer->last.path);
            viewer->last = (struct shown_slide){ id, path };
        }
    }
    if (status == HRF_OK)
        *out = hrf_strdup(viewer->last.path);
    pthread_mutex_unlock(&viewer->lock);
    return status;
}

static enum hrf_status answer_zoom(struct hrf_viewer *viewer, int64_t id, struct answer *a,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    struct hrf_zoom_range range;
    HRF_TRY(slide_path(viewer, id, &path, err));
    HRF_TRY(hrf_slide_tiles_range(viewer->tiles, path, &range, err));
    hrf_strbuf_addf(&a->text, "{\"width\":%lld,\"height\":%lld,\"highest\":%d,\"lowest\":%d}",
                    (long long)range.width, (long long)range.height, range.highest, range.lowest);
    return HRF_OK;
}

static enum hrf_status answer_tile(struct hrf_viewer *viewer, int64_t id, const int64_t place[3],
                                   struct answer *a, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    a->type = "image/jpeg";
    a->is_kept = true;
    HRF_TRY(slide_path(viewer, id, &path, err));
    return hrf_slide_tiles_read(viewer->tiles, path, place[0], place[1], place[2], &a->bytes,
                                &a->n_bytes, err);
}

/* Answers an address of a slide; `what` follows "slide/ID/". */
static enum hrf_status answer_slide(struct hrf_viewer *viewer, int64_t id, const char *what,
                                    struct answer *a, struct hrf_error *err)
{
    const char *directory = viewer->config.directory;
    int64_t place[3];
    const char *precision = precision_of(what, "scores/", ".json");
    const char *labels = precision_of(what, "labels/", ".png");
    if (is_tile(what, place))
        return answer_tile(viewer, id, place, a, err);
    a->type = "application/json";
    if (strcmp(what, "zoom.json") == 0)
        return answer_zoom(viewer, id, a, err);
    if (strcmp(what, "patches.json") == 0)
        return hrf_view_patches(directory, id, &a->text, err);
    if (strcmp(what, "outlines.json") == 0)
        return hrf_view_outlines(directory, id, &a->text, err);
    if (precision != NULL)
        return hrf_view_scores(directory, id, precision, &a->text, err);
    a->type = "image/png";
    if (strcmp(what, "tissue.png") == 0)
        return hrf_view_mask(directory, id, &a->bytes, &a->n_bytes, err);
    if (labels != NULL)
        return hrf_view_labels(directory, id, labels, &a->bytes, &a->n_bytes, err);
    return hrf_error_set(err, HRF_E_USER, "there is no '%s'", what);
}

static enum hrf_status answer_leaflet(const struct hrf_viewer *viewer, const char *name,
                                      struct answer *a, struct hrf_error *err)
{
    enum { MAX = 1 << 22 };
    HRF_AUTO_FREE char *path = hrf_path_join(viewer->config.leaflet, name);
    char *text = NULL;
    a->is_kept = true;
    HRF_TRY(hrf_file_read(path, MAX, &text, &a->n_bytes, err));
    a->bytes = (unsigned char *)text;
    return HRF_OK;
}

static enum hrf_status answer_status(const struct hrf_viewer *viewer, struct answer *a,
                                     struct hrf_error *err)
{
    HRF_AUTO_JSON state = viewer->config.status(viewer->config.directory);
    HRF_AUTO_FREE char *text = state != NULL ? hrf_json_text(state) : NULL;
    if (text == NULL)
        return hrf_error_set(err, HRF_E_AGAIN, "the run's state cannot be read just now");
    hrf_strbuf_addf(&a->text, "%s", text);
    return HRF_OK;
}

/* Answers "JOB/log.txt", the rest of an address. */
static enum hrf_status answer_log(const struct hrf_viewer *viewer, const char *what,
                                  struct answer *a, struct hrf_error *err)
{
    char job[64];
    const size_t n = strcspn(what, "/");
    if (n == 0 || n >= sizeof job || strcmp(what + n, "/log.txt") != 0)
        return hrf_error_set(err, HRF_E_USER, "there is no 'job/%s'", what);
    memcpy(job, what, n);
    job[n] = '\0';
    a->type = "text/plain; charset=utf-8";
    return hrf_view_log(viewer->config.directory, job, &a->text, err);
}

static const char *type_of(const char *name)
{
    const char *ending = strrchr(name, '.');
    return strcmp(ending, ".html") == 0  ? "text/html; charset=utf-8"
           : strcmp(ending, ".css") == 0 ? "text/css; charset=utf-8"
                                         : "text/javascript; charset=utf-8";
}

static enum hrf_status answer_training(const struct hrf_viewer *viewer, const char *path,
                                       struct answer *a, struct hrf_error *err)
{
    if (strcmp(path, "training.json") == 0)
        return hrf_view_training(viewer->config.directory, &a->text, err);
    a->type = "text/html; charset=utf-8";
    if (strcmp(path, "report.html") == 0)
        return hrf_view_training_report(viewer->config.directory, &a->bytes, &a->n_bytes, err);
    return hrf_error_set(err, HRF_E_USER, "there is no '%s'", path);
}

/* Answers an address; `path` follows the token. */
static enum hrf_status answer_path(struct hrf_viewer *viewer, const char *path, struct answer *a,
                                   struct hrf_error *err)
{
    int64_t id;
    const char *at = path;
    const char *page = viewer->is_of_training ? "training_view.html" : "view.html";
    const struct hrf_embedded *file = hrf_embedded_find(hrf_view_files,
                                                        *path != '\0' ? path : page);
    if (file != NULL) {
        a->type = type_of(file->name);
        hrf_strbuf_add(&a->text, file->text, file->n_bytes);
        return HRF_OK;
    }
    if (strcmp(path, "leaflet.js") == 0 || strcmp(path, "leaflet.css") == 0) {
        a->type = type_of(path);
        return answer_leaflet(viewer, path, a, err);
    }
    a->type = "application/json";
    if (viewer->is_of_training)
        return answer_training(viewer, path, a, err);
    if (strcmp(path, "run.json") == 0) {
        forget_slide(viewer);
        return hrf_view_run(viewer->config.directory, &a->text, err);
    }
    if (strcmp(path, "status.json") == 0)
        return answer_status(viewer, a, err);
    if (strcmp(path, "events.json") == 0)
        return hrf_view_events(viewer->config.directory, &a->text, err);
    if (take_text(&at, "job/"))
        return answer_log(viewer, at, a, err);
    if (take_text(&at, "slide/") && take_number(&at, &id) && take_text(&at, "/"))
        return answer_slide(viewer, id, at, a, err);
    return hrf_error_set(err, HRF_E_USER, "there is no '%s'", path);
}

/* Compares in a time that does not depend on how many characters are right. */
static bool has_token(const struct hrf_viewer *viewer, const char *url)
{
    unsigned char differs = 0;
    const size_t n = strlen(viewer->token);
    if (strlen(url) < n + 2 || url[0] != '/' || url[n + 1] != '/')
        return false;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(url[i + 1] ^ viewer->token[i]);
    return differs == 0;
}

/* True if the Host is this machine. A foreign page that reaches this server by DNS rebinding has
 * another Host. */
static bool is_local_host(const char *host)
{
    static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };
    for (size_t i = 0; host != NULL && i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
            return true;
    }
    return false;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *a)
{
    const void *bytes = a->bytes != NULL ? (const void *)a->bytes : a->text.text;
    const size_t n = a->bytes != NULL ? a->n_bytes : a->text.length;
    struct MHD_Response *response = MHD_create_response_from_buffer(n, (void *)(uintptr_t)bytes,
                                                                    MHD_RESPMEM_MUST_COPY);
    hrf_strbuf_release(&a->text);
    hrf_free(a->bytes);
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", a->type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control",
                            a->is_kept ? "private, max-age=3600" : "no-store");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self' "
                            "'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
                            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    const enum MHD_Result result = MHD_queue_response(connection, a->code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *http_version, const char *upload,
                              size_t *upload_bytes, void **request)
{
    struct hrf_viewer *viewer = context;
    struct answer a = { .code = MHD_HTTP_OK, .type = "text/plain", .text = HRF_STRBUF_INIT };
    struct hrf_error err = { .status = HRF_OK };
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                   MHD_HTTP_HEADER_HOST);
    (void)http_version, (void)upload, (void)upload_bytes, (void)request;
    enum hrf_status status = HRF_OK;
    if (strcmp(method, "GET") != 0) {
        a.code = MHD_HTTP_METHOD_NOT_ALLOWED;
    } else if (!is_local_host(host) || !has_token(viewer, url)) {
        a.code = MHD_HTTP_FORBIDDEN;
        hrf_strbuf_addf(&a.text, "the address lacks the token that 'hires-flow view' printed\n");
    } else {
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)OWNER_S);
        status = answer_path(viewer, url + strlen(viewer->token) + 2, &a, &err);
        if (status != HRF_OK)
            answer_error(&a, status, &err);
    }
    return send_answer(connection, &a);
}

static enum hrf_status make_token(char *out, struct hrf_error *err)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return hrf_error_set(err, HRF_E_EXTERNAL, "the system gives no random numbers");
    for (int i = 0; i < TOKEN_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return HRF_OK;
}

static enum hrf_status listen_on(struct hrf_viewer *viewer, struct hrf_error *err)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)viewer->config.port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    viewer->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, (uint16_t)viewer->config.port, NULL, NULL,
        handle, viewer, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SILENT_S, MHD_OPTION_END);
    if (viewer->daemon == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "port %d of this machine cannot be listened on; --port names another",
                             viewer->config.port);
    viewer->port = MHD_get_daemon_info(viewer->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    viewer->url = hrf_format("http://127.0.0.1:%d/%s/", viewer->port, viewer->token);
    return HRF_OK;
}

enum hrf_status hrf_viewer_start(const struct hrf_viewer_config *config, struct hrf_viewer **out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO(hrf_viewer) viewer = hrf_calloc(1, sizeof *viewer);
    viewer->config = *config;
    pthread_mutex_init(&viewer->lock, NULL);
    viewer->is_of_training = hrf_viewer_is_of_training(config->directory);
    if (!viewer->is_of_training)
        HRF_TRY(hrf_store_open_run(config->directory, &store, err));
    HRF_TRY(make_token(viewer->token, err));
    HRF_TRY(hrf_slide_tiles_create(&viewer->tiles, err));
    HRF_TRY(listen_on(viewer, err));
    HRF_MOVE(*out, viewer);
    return HRF_OK;
}

const char *hrf_viewer_url(const struct hrf_viewer *viewer)
{
    return viewer->url;
}

int hrf_viewer_port(const struct hrf_viewer *viewer)
{
    return viewer->port;
}

void hrf_viewer_destroy(struct hrf_viewer *viewer)
{
    if (viewer == NULL)
        return;
    if (viewer->daemon != NULL)
        MHD_stop_daemon(viewer->daemon);
    hrf_slide_tiles_destroy(viewer->tiles);
    pthread_mutex_destroy(&viewer->lock);
    hrf_free(viewer->last.path);
    hrf_free(viewer->url);
    hrf_free(viewer);
}
