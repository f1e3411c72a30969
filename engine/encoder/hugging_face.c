/* hugging_face.c - tensors in the names of transformers' ViT, DINOv2 and DINOv2 with registers get
 * timm's. Source: transformers/models/{vit,dinov2,dinov2_with_registers}/modeling_*.py (4.57). */
#include "engine/encoder/build_private.h"

#include <stdio.h>
#include <string.h>

struct rename {
    const char *from, *to; /* beginnings */
};

static const struct rename outside[] = {
    { "embeddings.cls_token", "cls_token" },
    { "embeddings.mask_token", "mask_token" },
    { "embeddings.register_tokens", "reg_token" },
    { "embeddings.position_embeddings", "pos_embed" },
    { "embeddings.patch_embeddings.projection.", "patch_embed.proj." },
    { "layernorm.", "norm." },
    { "classifier.", "head." },
    { "pooler.", "pooler." },
};

/* Behind "encoder.layer.N.", for what stands behind "blocks.N." in timm. */
static const struct rename inside[] = {
    { "layernorm_before.", "norm1." },
    { "layernorm_after.", "norm2." },
    { "norm1.", "norm1." },
    { "norm2.", "norm2." },
    { "attention.attention.query.", "attn.q." },
    { "attention.attention.key.", "attn.k." },
    { "attention.attention.value.", "attn.v." },
    { "attention.output.dense.", "attn.proj." },
    { "intermediate.dense.", "mlp.fc1." },
    { "output.dense.", "mlp.fc2." },
    { "mlp.fc1.", "mlp.fc1." },
    { "mlp.fc2.", "mlp.fc2." },
    { "mlp.weights_in.", "mlp.fc1." },
    { "mlp.weights_out.", "mlp.fc2." },
    { "layer_scale1.lambda1", "ls1.gamma" },
    { "layer_scale2.lambda1", "ls2.gamma" },
};

static const char *behind(const char *text, const char *start)
{
    const size_t n = strlen(start);
    return strncmp(text, start, n) == 0 ? text + n : NULL;
}

/* timm's name for a name behind the model's prefix: heap; NULL: there is none. */
static char *translate(const char *name)
{
    static const char layer[] = "encoder.layer.";
    const char *rest = behind(name, layer), *part;
    if (rest == NULL) {
        for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
            if ((part = behind(name, outside[i].from)) != NULL)
                return hrf_format("%s%s", outside[i].to, part);
        return NULL;
    }
    const size_t n_digits = strspn(rest, "0123456789");
    if (n_digits == 0 || n_digits > 4 || rest[n_digits] != '.')
        return NULL;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        if ((part = behind(rest + n_digits + 1, inside[i].from)) != NULL)
            return hrf_format("blocks.%.*s.%s%s", (int)n_digits, rest, inside[i].to, part);
    return NULL;
}

void hrf_encoder_take_hugging_face_names(struct hrf_safetensors *file, float *epsilon)
{
    static const char *const prefixes[] = { "", "vit.", "dinov2.", "dinov2_with_registers." };
    static const char first[] = "embeddings.patch_embeddings.projection.weight";
    const char *prefix = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0] && prefix == NULL; i++) {
        HRF_AUTO_FREE char *name = hrf_format("%s%s", prefixes[i], first);
        if (hrf_safetensors_find(file, name) != NULL)
            prefix = prefixes[i];
    }
    for (size_t i = 0; prefix != NULL && i < file->n_items; i++) {
        struct hrf_safetensor *t = &file->items[i];
        const char *rest = behind(t->name, prefix);
        char *name = translate(rest != NULL ? rest : t->name);
        if (strstr(t->name, ".layernorm_before.") != NULL)
            *epsilon = 1e-12f; /* of ViT; DINOv2's is timm's */
        if (name == NULL)
            continue; /* whoever checks that every tensor is used names it */
        hrf_free(t->name);
        t->name = name;
    }
}
