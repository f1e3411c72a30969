/* version.c - `hires-engine version`: what this build is and what it runs on. */
#include "base/module.h"
#include "base/own_process.h"
#include "engine/backend/backend.h"
#include "engine/cli/cli.h"
#include "engine/comm/mpi/mpi.h"
#include "engine/comm/nccl/nccl.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

static const char *int8_path(dnnl_cpu_isa_t isa)
{
    switch (isa) {
    case dnnl_cpu_isa_avx512_core_amx:
        return "AMX";
    case dnnl_cpu_isa_avx2_vnni:
    case dnnl_cpu_isa_avx512_core_vnni:
    case dnnl_cpu_isa_avx512_core_bf16:
        return "VNNI";
    default:
        return "plain loops, slow: this processor has no exact 8-bit products";
    }
}

static const char *bf16_path(dnnl_cpu_isa_t isa)
{
    if (isa == dnnl_cpu_isa_avx512_core_amx)
        return "AMX";
    return isa == dnnl_cpu_isa_avx512_core_bf16 ? "AVX-512 BF16" : "stored; computed in fp32";
}

/* Describes the GPU, or says what is missing. */
static void print_cuda(void)
{
    const struct hrf_backend_ops *ops = NULL;
    struct hrf_device_identity identity;
    struct hrf_error why = { .text = "" };
    char words[512] = "";
    enum hrf_status status = hrf_backend_open("cuda", &ops, &why);
    if (status == HRF_OK)
        status = ops->identify(&identity, &why);
    if (status != HRF_OK) {
        printf("cuda: missing: %s\n", why.text);
        return;
    }
    hrf_device_identity_words(&identity, words, sizeof words);
    printf("cuda: %s\n", words);
}

/* What decodes tiles on a GPU; nothing where the GPU's back end cannot be loaded. */
static void print_nvjpeg(void)
{
    const struct hrf_backend_ops *ops = NULL;
    struct hrf_error why = { .text = "" };
    char words[64] = "";
    if (hrf_backend_open("cuda", &ops, &why) != HRF_OK || ops->device->decoding == NULL)
        return;
    if (ops->device->decoding->library(words, &why) == HRF_OK)
        printf("nvjpeg: %s\n", words);
    else
        printf("nvjpeg: missing: %s\n", why.text);
}

static void print_nccl(void)
{
    const void *operations = NULL;
    struct hrf_error why = { .text = "" };
    int header = 0, library = 0;
    enum hrf_status status = hrf_module_load("nccl", HRF_VERSION, &operations, &why);
    if (status == HRF_OK) {
        const struct hrf_nccl_module *nccl = operations;
        status = nccl->versions(&header, &library, &why);
    }
    if (status == HRF_OK)
        printf("nccl: %d.%d.%d, built with %d.%d.%d\n", library / 10000, library / 100 % 100,
               library % 100, header / 10000, header / 100 % 100, header % 100);
    else
        printf("nccl: missing: %s\n", why.text);
}

static void print_mpi(void)
{
    const void *operations = NULL;
    struct hrf_error why = { .text = "" };
    char version[128];
    if (hrf_module_load("mpi", HRF_VERSION, &operations, &why) != HRF_OK) {
        printf("mpi: missing: %s\n", why.text);
        return;
    }
    ((const struct hrf_mpi_module *)operations)->version(version, sizeof version);
    printf("mpi: %s\n", version);
}

/* What this machine lacks for device cpu; "": nothing. */
static void print_lack(const struct hrf_backend_ops *cpu)
{
    const struct hrf_backend_config config = { .n_threads = 1 };
    struct hrf_backend *backend = NULL;
    struct hrf_error why = { .text = "" };
    if (cpu->create(&config, &backend, &why) == HRF_OK)
        cpu->destroy(backend);
    else
        printf("cpu: missing: %s\n", why.text);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    const struct hrf_backend_ops *cpu = NULL;
    struct hrf_device_identity identity;
    struct hrf_error err = { .text = "" };
    if (hrf_backend_open("cpu", &cpu, &err) != HRF_OK || cpu->identify(&identity, &err) != HRF_OK)
        return hrf_engine_fail(command->name, &err);
    printf("hires-engine %s\n%s on %d cores with %s\n", HRF_VERSION, identity.libraries,
           hrf_process_cpu_count(), identity.path);
    if (identity.model[0] != '\0')
        printf("processor: %s\n", identity.model);
    printf("devices: cpu, ref, cuda\n"
           "precisions: fp32, fp16 (stored; computed in fp32), bf16 (%s), int8 (%s)\n",
           bf16_path(dnnl_get_effective_cpu_isa()), int8_path(dnnl_get_effective_cpu_isa()));
    print_lack(cpu);
    print_cuda();
    print_nvjpeg();
    print_nccl();
    print_mpi();
    return 0;
}

const struct hrf_command hrf_engine_version = {
    .name = "version",
    .operands = "",
    .summary = "print versions, devices and precisions of this build",
    .run = run,
};
