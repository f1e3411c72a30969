/* view.c - `hires-flow view DIR`: a run and its slides, or trainings, in the browser
 * (orchestrator/view). */
#include "orchestrator/view/viewer.h"

#include "base/path.h"
#include "orchestrator/cli/cli.h"

#include <signal.h>
#include <stdio.h>

static const char details[] =
    "Prints an address to open in a browser on this machine, and serves it until Ctrl-C. The\n"
    "address has a random token; without it nothing is answered, and nothing but this machine can\n"
    "connect. From another computer: the line with `ssh -L` that is printed, then the same\n"
    "address there. The run, or the trainings, may still be under way. Nothing is written.";

#define LEAFLET "/usr/share/javascript/leaflet"

static enum hrf_status check_leaflet(const char *folder, struct hrf_error *err)
{
    HRF_AUTO_FREE char *script = hrf_path_join(folder, "leaflet.js");
    if (hrf_path_exists(script))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_EXTERNAL,
                         "the map library Leaflet is not in '%s': install Debian's libjs-leaflet, "
                         "or name the folder of leaflet.js with --leaflet",
                         folder);
}

static void print_address(const struct hrf_viewer *viewer, bool json)
{
    const char *url = hrf_viewer_url(viewer);
    const int port = hrf_viewer_port(viewer);
    if (json) {
        HRF_AUTO_JSON value = hrf_json_document();
        hrf_json_put_text(value, "url", url);
        hrf_json_put_int(value, "port", port);
        hrf_json_print(value);
    } else {
        hrf_cli_printf("open: %s\nfrom another computer first: ssh -N -L %d:127.0.0.1:%d "
                       "THIS-MACHINE\nCtrl-C ends it\n",
                       url, port, port);
    }
    fflush(stdout);
}

/* Serves until SIGINT or SIGTERM. They are blocked before any thread is made, so that sigwait()
 * gets them. */
static int serve(const struct hrf_command *command, const struct hrf_viewer_config *config,
                 bool json)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_viewer) viewer = NULL;
    sigset_t ends;
    int ended = 0;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    if (hrf_viewer_start(config, &viewer, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    hrf_cli_warn_of_full_disk(config->directory);
    print_address(viewer, json);
    sigwait(&ends, &ended);
    return 0;
}

static int view_main(const struct hrf_command *command, int argc, char **argv)
{
    int64_t port = 0;
    bool json = false;
    struct hrf_viewer_config config = { .leaflet = LEAFLET, .status = hrf_cli_status_json };
    const struct hrf_option options[] = {
        { "port", "N", "port to listen on; 0, the default: any that is free",
          HRF_OPTION_NUMBER(&port, 0, 65535) },
        { "leaflet", "DIR", "folder of leaflet.js", HRF_OPTION(&config.leaflet) },
        { "json", NULL, "print the address as JSON", HRF_OPTION(&json) },
        { NULL },
    };
    const struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    if (!hrf_viewer_is_of_training(args.operands[0]) &&
        check_leaflet(config.leaflet, &err) != HRF_OK) {
        hrf_cli_fail(command->name, &err);
        return HRF_EXIT_LACKS;
    }
    config.directory = args.operands[0];
    config.port = (int)port;
    return serve(command, &config, json);
}

const struct hrf_command hrf_cli_view = {
    .name = "view",
    .operands = "DIR",
    .summary = "show a run and its slides, or trainings, in the browser",
    .details = details,
    .min_operands = 1,
    .max_operands = 1,
    .run = view_main,
};
