#!/usr/bin/env python3
"""Trains the small U-Net of tests/golden/segmentation/unet.onnx, which labels tissue and tumour on demonstration slides.

    hires-flow demo-data COHORT --slides 12 --size 1300
    train_small_unet.py COHORT OUTPUT.onnx

Two levels of 4 and 8 channels; classes background, tissue, tumor. Needs torch, onnx and openslide-python.
"""
import glob, os, sys
import xml.etree.ElementTree as ET
import numpy, openslide, torch
from PIL import Image, ImageDraw
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
rng = numpy.random.default_rng(1)
MEAN, STD = numpy.array([.485, .456, .406]), numpy.array([.229, .224, .225])


class Block(nn.Sequential):
    def __init__(self, n_in, n_out):
        super().__init__(nn.Conv2d(n_in, n_out, 3, padding=1), nn.ReLU(), nn.Conv2d(n_out, n_out, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=4, classes=3):
        super().__init__()
        self.down, self.pool, self.middle = Block(3, width), nn.MaxPool2d(4), Block(width, 2 * width)
        self.up, self.join = nn.Upsample(scale_factor=4, mode="nearest"), Block(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skip = self.down(x)
        return self.head(self.join(torch.cat([skip, self.up(self.middle(self.pool(skip)))], 1)))


def load(cohort):
    for path in sorted(glob.glob(cohort + "/testing/images/*.tif")):
        try:
            slide = openslide.OpenSlide(path)
            rgb = numpy.asarray(slide.read_region((0, 0), 0, slide.dimensions).convert("RGB"), dtype=float)
        except openslide.OpenSlideError:  # one of the cohort is cut short on purpose
            continue
        truth = (rgb.max(2) - rgb.min(2) > 20).astype(numpy.int64)
        xml = f"{cohort}/testing/lesion_annotations/{os.path.basename(path)[:-4]}.xml"
        if os.path.exists(xml):
            image = Image.new("L", slide.dimensions)
            for a in ET.parse(xml).iter("Annotation"):
                ImageDraw.Draw(image).polygon([(float(c.get("X")), float(c.get("Y"))) for c in a.iter("Coordinate")], fill=1)
            truth[(numpy.asarray(image) > 0)] = 2
        yield ((rgb / 255 - MEAN) / STD).transpose(2, 0, 1).astype(numpy.float32), truth


slides = list(load(sys.argv[1]))
net = UNet()
optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
loss = nn.CrossEntropyLoss(weight=torch.tensor([.3, 1., 2.]))
for step in range(600):
    x, y = [], []
    while len(x) < 8:
        rgb, truth = slides[rng.integers(len(slides))]
        a, b = rng.integers(truth.shape[0] - 128), rng.integers(truth.shape[1] - 128)
        if (truth[a:a + 128, b:b + 128] > 0).mean() > 0.3 or rng.random() < 0.05:
            x.append(rgb[:, a:a + 128, b:b + 128])
            y.append(truth[a:a + 128, b:b + 128])
    value = loss(net(torch.tensor(numpy.stack(x))), torch.tensor(numpy.stack(y)))
    optimiser.zero_grad()
    value.backward()
    optimiser.step()
    if step % 100 == 99:
        print(step + 1, float(value))
torch.onnx.export(net.eval(), torch.zeros(1, 3, 64, 64), sys.argv[2], opset_version=17, dynamo=False, input_names=["image"],
                  output_names=["logits"], dynamic_axes={n: {0: "batch", 2: "height", 3: "width"} for n in ("image", "logits")})
print(os.path.getsize(sys.argv[2]), "bytes")
