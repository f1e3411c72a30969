/* version.c - `hires-engine version`: what this build is and what it runs on. */
#include "base/module.h"
#include "base/own_process.h"
#include "engine/backend/backend.h"
#include "engine/cli/cli.h"
#include "engine/comm/mpi/mpi.h"
#include "engine/comm/nccl/nccl.h"
#include "module_builds.h"

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
        return "AVX2, in 16 bits: about as fast as fp32";
    }
}

static const char *bf16_path(dnnl_cpu_isa_t isa)
{
    if (isa == dnnl_cpu_isa_avx512_core_amx)
        return "AMX";
    return isa == dnnl_cpu_isa_avx512_core_bf16 ? "AVX-512 BF16" : "stored; computed in fp32";
}

/* What was found of a part, or why it cannot be used. */
static void look_at_cpu(struct hrf_engine_version *v)
{
    const struct hrf_backend_ops *cpu = NULL;
    const struct hrf_backend_config config = { .n_threads = 1 };
    struct hrf_device_identity identity;
    struct hrf_backend *backend = NULL;
    struct hrf_error *why = &v->parts[HRF_PART_CPU].error;
    if (hrf_backend_open("cpu", &cpu, why) != HRF_OK || cpu->identify(&identity, why) != HRF_OK)
        return;
    snprintf(v->parts[HRF_PART_LIBRARY].found, sizeof v->parts->found, "%s on %d cores with %s",
             identity.libraries, hrf_process_cpu_count(), identity.path);
    snprintf(v->parts[HRF_PART_PROCESSOR].found, sizeof v->parts->found, "%s", identity.model);
    if (cpu->create(&config, &backend, why) == HRF_OK)
        cpu->destroy(backend);
}

/* nvJPEG is what decodes tiles on a GPU; nothing is said of it where the GPU's back end cannot be
 * loaded. */
static void look_at_cuda(struct hrf_engine_version *v)
{
    struct hrf_engine_part_state *cuda = &v->parts[HRF_PART_CUDA];
    struct hrf_engine_part_state *nvjpeg = &v->parts[HRF_PART_NVJPEG];
    const struct hrf_backend_ops *ops = NULL;
    struct hrf_device_identity identity;
    char library[64];
    if (hrf_backend_open("cuda", &ops, &cuda->error) != HRF_OK)
        return;
    if (ops->identify(&identity, &cuda->error) == HRF_OK)
        hrf_device_identity_text(&identity, cuda->found, sizeof cuda->found);
    if (ops->device->decoding != NULL &&
        ops->device->decoding->library(library, &nvjpeg->error) == HRF_OK)
        snprintf(nvjpeg->found, sizeof nvjpeg->found, "%s", library);
}

static void look_at_nccl(struct hrf_engine_part_state *part)
{
    const void *operations = NULL;
    int header = 0, library = 0;
    if (hrf_module_load("nccl", HRF_BUILD_NCCL, &operations, &part->error) != HRF_OK)
        return;
    const struct hrf_nccl_module *nccl = operations;
    if (nccl->versions(&header, &library, &part->error) == HRF_OK)
        snprintf(part->found, sizeof part->found, "%d.%d.%d, built with %d.%d.%d", library / 10000,
                 library / 100 % 100, library % 100, header / 10000, header / 100 % 100,
                 header % 100);
}

static void look_at_mpi(struct hrf_engine_part_state *part)
{
    const void *operations = NULL;
    if (hrf_module_load("mpi", HRF_BUILD_MPI, &operations, &part->error) == HRF_OK)
        ((const struct hrf_mpi_module *)operations)->version(part->found, sizeof part->found);
}

static void look(struct hrf_engine_version *v)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    snprintf(v->parts[HRF_PART_PROGRAM].found, sizeof v->parts->found, "hires-engine %s",
             HRF_VERSION);
    look_at_cpu(v);
    snprintf(v->parts[HRF_PART_DEVICES].found, sizeof v->parts->found, "cpu, ref, cuda");
    snprintf(v->parts[HRF_PART_PRECISIONS].found, sizeof v->parts->found,
             "fp32, fp16 (stored; computed in fp32), bf16 (%s), int8 (%s)", bf16_path(isa),
             int8_path(isa));
    look_at_cuda(v);
    look_at_nccl(&v->parts[HRF_PART_NCCL]);
    look_at_mpi(&v->parts[HRF_PART_MPI]);
}

static void print_text(const struct hrf_engine_version *v)
{
    for (int i = 0; i < HRF_N_ENGINE_PARTS; i++) {
        const struct hrf_engine_part_state *part = &v->parts[i];
        const char *name = hrf_engine_part_name((enum hrf_engine_part)i);
        if (part->error.status != HRF_OK)
            printf("%s: missing: %s\n", name, part->error.text);
        else if (i == HRF_PART_PROGRAM || i == HRF_PART_LIBRARY)
            printf("%s\n", part->found);
        else if (part->found[0] != '\0')
            printf("%s: %s\n", name, part->found);
    }
}

int hrf_engine_version(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_version_request request = { .json = false };
    struct hrf_args args = hrf_args_parse_request(HRF_ENGINE_PROGRAM, command, hrf_version_options,
                                                  &request, argc, argv);
    if (args.done)
        return args.exit_code;
    HRF_AUTO_FREE struct hrf_engine_version *v = hrf_calloc(1, sizeof *v);
    look(v);
    if (!request.json) {
        print_text(v);
        return 0;
    }
    HRF_AUTO_JSON value = hrf_engine_version_json(v);
    hrf_json_print(value);
    return 0;
}
