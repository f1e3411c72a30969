#include "tests/slurm/fake/fake.h"

#include "base/file.h"
#include "base/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(struct fake *, int, char **);
} commands[] = {
    { "sbatch", fake_sbatch }, { "squeue", fake_squeue },   { "scontrol", fake_scontrol },
    { "sacct", fake_sacct },   { "scancel", fake_scancel }, { "sinfo", fake_sinfo },
};

/* Adds the call to DIR/calls; its number among those of this command. */
static int count_call(const struct fake *fake, int argc, char **argv)
{
    HRF_AUTO_FREE char *path = hrf_path_join(fake->directory, "calls");
    HRF_AUTO_FREE char *text = NULL;
    struct hrf_strbuf line = HRF_STRBUF_INIT;
    size_t n_bytes, name = strlen(fake->command);
    int n = 1;
    HRF_AUTO_CLOSE int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_APPEND, 0600) : -1;
    if (fd < 0 || flock(fd, LOCK_EX) != 0 ||
        hrf_file_read(path, 1 << 28, &text, &n_bytes, NULL) != HRF_OK)
        return n;
    for (const char *at = text; at != NULL && *at != '\0'; at = strchr(at, '\n'), at += at != NULL)
        n += strncmp(at, fake->command, name) == 0 && at[name] == ' ';
    hrf_strbuf_addf(&line, "%s ", fake->command);
    for (int i = 1; i < argc; i++)
        hrf_strbuf_addf(&line, "%s%c", argv[i], i + 1 < argc ? ' ' : '\0');
    hrf_strbuf_addc(&line, '\n');
    for (size_t i = 0; i + 1 < line.length; i++)
        if (line.text[i] == '\n' || line.text[i] == '\0')
            line.text[i] = ' ';
    if (hrf_file_write_all(fd, line.text, line.length, path, NULL) != HRF_OK)
        n = 0;
    hrf_strbuf_release(&line);
    return n;
}

static int run_command(struct fake *fake, int argc, char **argv,
                       int (*run)(struct fake *, int, char **))
{
    char version[64];
    int code = 0;
    fake->call = count_call(fake, argc, argv);
    if (fake_faults_before(fake, &code) == FAKE_REFUSE)
        return code;
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
        hrf_strbuf_addf(&fake->out, "slurm %s\n",
                        fake_config(fake, "SLURM_VERSION", "22.05.8", version));
    else
        code = run(fake, argc, argv);
    fake_faults_after(fake, &code);
    return code;
}

int main(int argc, char **argv)
{
    struct fake fake = { .directory = getenv("HRF_FAKE_SLURM"),
                         .command = hrf_path_name(argv[0]),
                         .out = HRF_STRBUF_INIT,
                         .err = HRF_STRBUF_INIT };
    int code = 1;
    size_t i = 0;
    if (fake.directory == NULL || !fake_open(&fake)) {
        fprintf(stderr, "%s: HRF_FAKE_SLURM must name a folder\n", fake.command);
        return 1;
    }
    while (i < sizeof commands / sizeof *commands && strcmp(commands[i].name, fake.command) != 0)
        i++;
    if (i < sizeof commands / sizeof *commands)
        code = run_command(&fake, argc, argv, commands[i].run);
    else if (argc > 1 && strcmp(argv[1], "serve") == 0)
        code = fake_serve(&fake);
    else
        code = fake_verbs(&fake, argc, argv);
    fwrite(fake.err.text, 1, fake.err.length, stderr);
    fwrite(fake.out.text, 1, fake.out.length, stdout);
    fake_close(&fake);
    return code;
}
