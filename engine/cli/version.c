/* version.c - `hires-engine version`: what this build is and what it runs on. */
#include "base/process.h"
#include "engine/backend/backend.h"
#include "engine/cli/cli.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        { dnnl_cpu_isa_sse41, "SSE4.1" },
        { dnnl_cpu_isa_avx, "AVX" },
        { dnnl_cpu_isa_avx2, "AVX2" },
        { dnnl_cpu_isa_avx512_core, "AVX-512" },
        { dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI" },
        { dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16" },
        { dnnl_cpu_isa_avx512_core_amx, "AMX" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "another instruction set";
}

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

/* The GPU in words, or what is missing to have one. */
static void print_cuda(void)
{
    const struct hrf_backend_ops *ops = NULL;
    struct hrf_error why = { .text = "" };
    char words[512] = "";
    enum hrf_status status = hrf_backend_open("cuda", &ops, &why);
    if (status == HRF_OK && ops->probe != NULL)
        status = ops->probe(words, sizeof words, &why);
    if (status == HRF_OK)
        printf("cuda: %s\n", words);
    else
        printf("cuda: missing: %s\n", why.text);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    const dnnl_version_t *dnnl = dnnl_version();
    printf("hires-engine %s\noneDNN %d.%d.%d on %d cores with %s\ndevices: cpu, ref, cuda\n"
           "precisions: fp32, fp16 (stored; computed in fp32), bf16 (%s), int8 (%s)\n",
           HRF_VERSION, dnnl->major, dnnl->minor, dnnl->patch, hrf_process_cpu_count(),
           isa_name(dnnl_get_effective_cpu_isa()), bf16_path(dnnl_get_effective_cpu_isa()),
           int8_path(dnnl_get_effective_cpu_isa()));
    print_cuda();
    return 0;
}

const struct hrf_command hrf_engine_version = {
    .name = "version",
    .operands = "",
    .summary = "versions, devices and precisions of this build",
    .run = run,
};
