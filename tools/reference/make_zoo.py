#!/usr/bin/env python3
"""Exports the architectures of docs/models.md with random weights, by both of PyTorch's exporters.

  make_zoo.py DIR [--only NAME,NAME ...] [--exporter dynamo|torchscript|both] [--list]

For each NAME it writes DIR/NAME.EXPORTER.onnx (and the external data that the exporter puts beside it), NAME.npy (the
input) and, if the export fails, NAME.EXPORTER.failed with the reason. What stands there already is left alone. Needs
torch, torchvision, timm, onnx and onnxscript from PyPI. check_zoo.py runs the files.
"""
import argparse
import os
import sys
import traceback
import warnings

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import zoo_heads

TIMM = """vit_small_patch16_224 vit_small_patch16_dinov3 deit3_small_patch16_224 cait_xxs24_224 beit_base_patch16_224
eva02_tiny_patch14_224 swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 convnext_atto convnextv2_atto
maxvit_pico_rw_256 coatnet_0_rw_224 mobilevit_xxs mobilevitv2_050 efficientformer_l1 efficientformerv2_s0 levit_128s
pvt_v2_b0 resnest14d res2net50_26w_4s ecaresnet26t gcresnet33ts hrnet_w18_small xception41 nasnetalarge mixnet_s
regnety_002 regnetx_002 repvgg_a0 dla34 edgenext_xx_small efficientnet_b0 tf_efficientnet_b0 mobilenetv3_small_050
vit_small_patch14_reg4_dinov2 tiny_vit_5m_224 mixer_s32_224 pnasnet5large inception_v4 densenet121 visformer_tiny
poolformer_s12 crossvit_tiny_240 xcit_nano_12_p16_224 davit_tiny focalnet_tiny_srf convmixer_768_32 ghostnet_100
resmlp_12_224 twins_pcpvt_small skresnet18 seresnet18 resnetv2_50 cspdarknet53 vovnet39a rexnet_100 lcnet_050
fastvit_t8 repvit_m0_9 hiera_tiny_224 mvitv2_tiny""".split()
# (name in timm, keyword arguments): an encoder's shape at a fraction of its depth
TIMM_WITH = {
    "uni_shape": ("vit_large_patch16_224", dict(init_values=1e-5, dynamic_img_size=True, num_classes=0, depth=2)),
    "uni2_shape": ("vit_giant_patch14_224", dict(
        depth=2, num_heads=6, embed_dim=384, mlp_ratio=2.66667 * 2, init_values=1e-5, num_classes=0, no_embed_class=True,
        reg_tokens=8, mlp_layer="SwiGLUPacked", act_layer="SiLU", dynamic_img_size=True)),
    "virchow2_shape": ("vit_huge_patch14_224", dict(
        depth=2, num_heads=4, embed_dim=320, mlp_ratio=5.3375, init_values=1e-5, num_classes=0, reg_tokens=4,
        mlp_layer="SwiGLUPacked", act_layer="SiLU", global_pool="")),
}
VISION = """alexnet vgg11_bn resnet18 resnext50_32x4d wide_resnet50_2 squeezenet1_1 densenet121 googlenet inception_v3
mobilenet_v2 mobilenet_v3_small mnasnet0_5 shufflenet_v2_x0_5 efficientnet_b0 efficientnet_v2_s regnet_y_400mf
regnet_x_400mf convnext_tiny vit_b_32 swin_t swin_v2_t maxvit_t""".split()
SEGMENTATION = ["fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]


def resolve(text):
    from timm import layers
    return {"SwiGLUPacked": getattr(layers, "SwiGLUPacked", None), "SiLU": torch.nn.SiLU}[text]


def build(name):
    """(model, input shape, the axis of any length or None)"""
    kind, _, rest = name.partition("_")
    if name in zoo_heads.HEADS:
        make, shape, axis = zoo_heads.HEADS[name]
        return make(), shape, axis
    if kind == "tv":
        import torchvision
        if rest in SEGMENTATION:
            model = torchvision.models.get_model(rest, weights=None, weights_backbone=None)

            class Out(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = model

                def forward(self, x):
                    return self.net(x)["out"]
            return Out(), (1, 3, 128, 128), 0
        extra = dict(init_weights=True) if rest in ("googlenet", "inception_v3") else {}
        model = torchvision.models.get_model(rest, weights=None, **extra)
        return model, (1, 3, 299 if rest == "inception_v3" else 224, 299 if rest == "inception_v3" else 224), 0
    import timm
    if name in TIMM_WITH:
        base, extra = TIMM_WITH[name]
        extra = {k: resolve(v) if k in ("mlp_layer", "act_layer") else v for k, v in extra.items()}
        model = timm.create_model(base, pretrained=False, **extra)
    else:
        model = timm.create_model(name, pretrained=False)
    size = timm.data.resolve_model_data_config(model)["input_size"]
    return model, (1,) + tuple(size), 0


def randomise(model):
    """Weights as trained networks have them: BatchNorm with running statistics, LayerScale that is not nearly zero, nothing zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
                module.running_mean.uniform_(-0.2, 0.2, generator=generator)
                module.running_var.uniform_(0.5, 1.5, generator=generator)
        for parameter in model.parameters():
            if parameter.numel() > 1 and (parameter.std() < 1e-4 or bool((parameter == parameter.flatten()[0]).all())):
                parameter.add_(torch.empty_like(parameter).uniform_(-0.1, 0.1, generator=generator))


def export(model, x, axis, path, exporter):
    names = {"input_names": ["input"], "output_names": ["output"]}
    if exporter == "dynamo":
        # Where the exporter cannot prove that any batch is right, it may choose what stays open.
        for dim in (torch.export.Dim("batch", min=1, max=100000), torch.export.Dim.AUTO):
            try:
                torch.onnx.export(model, (x,), path, dynamic_shapes=({axis: dim},) if axis is not None else None,
                                  external_data=True, verbose=False, **names)
                return
            except Exception:
                if axis is None or dim is torch.export.Dim.AUTO:
                    raise
    else:
        dims = {"input": {axis: "batch"}, "output": {0: "batch"}} if axis is not None else None
        torch.onnx.export(model, (x,), path, dynamo=False, opset_version=17, dynamic_axes=dims, **names)


def all_names():
    return (TIMM + list(TIMM_WITH) + ["tv_" + n for n in VISION + SEGMENTATION] + list(zoo_heads.HEADS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--exporter", default="both")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list or args.dir is None:
        print("\n".join(all_names()))
        return
    warnings.filterwarnings("ignore")
    os.makedirs(args.dir, exist_ok=True)
    exporters = ["dynamo", "torchscript"] if args.exporter == "both" else [args.exporter]
    for name in args.only.split(",") if args.only else all_names():
        todo = [e for e in exporters if not any(os.path.exists("%s/%s.%s.%s" % (args.dir, name, e, s))
                                                for s in ("onnx", "failed"))]
        if not todo:
            continue
        torch.manual_seed(0)
        try:
            model, shape, axis = build(name)
            model.eval()
            randomise(model)
            x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
            if axis == 0 and shape[0] == 1:
                x = torch.cat([x, x.flip(-1)])  # an exporter may fold a batch of one
        except Exception:
            print("%-28s cannot be built: %s" % (name, traceback.format_exc(limit=1).splitlines()[-1]), flush=True)
            continue
        np.save("%s/%s.npy" % (args.dir, name), x.numpy())
        for exporter in todo:
            path = "%s/%s.%s.onnx" % (args.dir, name, exporter)
            try:
                export(model, x, axis, path, exporter)
                print("%-28s %s" % (name, exporter), flush=True)
            except Exception:
                reason = traceback.format_exc().splitlines()[-1]
                open(path[:-5] + ".failed", "w").write(reason + "\n")
                print("%-28s %s FAILED: %s" % (name, exporter, reason[:200]), flush=True)


if __name__ == "__main__":
    main()
