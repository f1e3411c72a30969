"""Networks that neither torchvision nor timm has: slide heads on a bag of embeddings, an attentional pooler, a
segmentation U-Net and FPN, and YOLOv8's layers. Written from the papers, with random weights."""
import torch
from torch import nn
from torch.nn import functional as F


class GatedABMIL(nn.Module):
    """Ilse 2018: softmax over the bag of w (tanh(V h) * sigmoid(U h))."""

    def __init__(self, d=384, hidden=128, n_classes=2, branches=1):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Dropout(0.25))
        self.v = nn.Sequential(nn.Linear(hidden, 64), nn.Tanh())
        self.u = nn.Sequential(nn.Linear(hidden, 64), nn.Sigmoid())
        self.w = nn.Linear(64, branches)
        self.head = nn.Linear(hidden, n_classes)

    def forward(self, bag):  # [N, D]
        h = self.embed(bag)
        a = torch.softmax(self.w(self.v(h) * self.u(h)).transpose(0, 1), dim=1)
        return self.head(a @ h)


class ClamMB(GatedABMIL):
    """CLAM's multi-branch form: an attention and a classifier for each class."""

    def __init__(self, d=384, hidden=128, n_classes=3):
        super().__init__(d, hidden, n_classes, branches=n_classes)
        self.head = nn.ModuleList(nn.Linear(hidden, 1) for _ in range(n_classes))

    def forward(self, bag):
        h = self.embed(bag)
        a = torch.softmax(self.w(self.v(h) * self.u(h)).transpose(0, 1), dim=1)
        m = a @ h
        return torch.cat([head(m[i:i + 1]) for i, head in enumerate(self.head)], dim=1)


class DSMIL(nn.Module):
    """Li 2021: the attention of every instance to the highest-scoring one of each class."""

    def __init__(self, d=384, n_classes=2):
        super().__init__()
        self.instance = nn.Linear(d, n_classes)
        self.q = nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, 128), nn.Tanh())
        self.v = nn.Sequential(nn.Dropout(0.0), nn.Linear(d, d))
        self.fcc = nn.Conv1d(n_classes, n_classes, kernel_size=d)

    def forward(self, feats):
        c = self.instance(feats)
        v, q = self.v(feats), self.q(feats)
        _, order = torch.sort(c, 0, descending=True)
        top = torch.index_select(feats, dim=0, index=order[0, :])
        a = torch.softmax(q @ self.q(top).transpose(0, 1) / q.shape[1] ** 0.5, 0)
        b = a.transpose(0, 1) @ v
        return self.fcc(b.unsqueeze(0)).view(1, -1)


def pseudo_inverse(x, iterations=6):
    z = x.transpose(-1, -2) / (x.abs().sum(-1).max() * x.abs().sum(-2).max())
    eye = torch.eye(x.shape[-1], device=x.device)[None]
    for _ in range(iterations):
        xz = x @ z
        z = 0.25 * z @ (13 * eye - xz @ (15 * eye - xz @ (7 * eye - xz)))
    return z


class Nystrom(nn.Module):
    """Nystrom attention as TransMIL uses it: landmarks are means of groups of tokens."""

    def __init__(self, d=128, heads=4, landmarks=16, kernel=33):
        super().__init__()
        self.heads, self.landmarks = heads, landmarks
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d)
        self.residual = nn.Conv2d(heads, heads, (kernel, 1), padding=(kernel // 2, 0), groups=heads, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        m = self.landmarks
        pad = (m - n % m) % m
        x = F.pad(x, (0, 0, pad, 0))
        q, k, v = self.qkv(x).reshape(b, n + pad, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        q = q * (d // self.heads) ** -0.5
        size = (n + pad) // m
        ql = q.reshape(b, self.heads, m, size, -1).mean(3)
        kl = k.reshape(b, self.heads, m, size, -1).mean(3)
        a1 = torch.softmax(q @ kl.transpose(-1, -2), -1)
        a2 = torch.softmax(ql @ kl.transpose(-1, -2), -1)
        a3 = torch.softmax(ql @ k.transpose(-1, -2), -1)
        y = (a1 @ pseudo_inverse(a2)) @ (a3 @ v) + self.residual(v)
        y = y.transpose(1, 2).reshape(b, n + pad, d)
        return self.out(y)[:, -n:]


class TransMIL(nn.Module):
    """Shao 2021: tokens padded to a square, class token, two Nystrom layers, PPEG between them. The bag's length
    is that of the export: the square is arithmetic on it."""

    def __init__(self, d=384, width=128, n_classes=2):
        super().__init__()
        self.fc1 = nn.Sequential(nn.Linear(d, width), nn.ReLU())
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        self.n1, self.n2, self.norm = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.l1, self.l2 = Nystrom(width), Nystrom(width)
        self.ppeg = nn.ModuleList(nn.Conv2d(width, width, k, 1, k // 2, groups=width) for k in (7, 5, 3))
        self.head = nn.Linear(width, n_classes)

    def forward(self, bag):  # [1, N, D]
        h = self.fc1(bag)
        n = h.shape[1]
        side = int(-(-(n ** 0.5) // 1))
        h = torch.cat([h, h[:, :side * side - n]], dim=1)
        h = torch.cat([self.cls.expand(h.shape[0], -1, -1), h], dim=1)
        h = h + self.l1(self.n1(h))
        token, rest = h[:, :1], h[:, 1:]
        image = rest.transpose(1, 2).view(-1, h.shape[2], side, side)
        image = image + sum(conv(image) for conv in self.ppeg)
        h = torch.cat([token, image.flatten(2).transpose(1, 2)], dim=1)
        h = h + self.l2(self.n2(h))
        return self.head(self.norm(h)[:, 0])


class AttentionPool(nn.Module):
    """Learned queries attend to the tokens (CoCa's and CONCH's pooler)."""

    def __init__(self, d=384, heads=6, queries=1):
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, d))
        self.norm_q, self.norm_k, self.norm = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, tokens):  # [N, T, D]
        x = self.norm_k(tokens)
        q = self.norm_q(self.query).unsqueeze(0).expand(tokens.shape[0], -1, -1)
        return self.norm(self.attention(q, x, x, need_weights=False)[0])[:, 0]


def conv(c_in, c_out, k=3, s=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(c_in, c_out, k, s, k // 2, bias=False), nn.BatchNorm2d(c_out), act())


class UNet(nn.Module):
    def __init__(self, widths=(8, 16, 32, 64), n_classes=2, bilinear=False):
        super().__init__()
        self.bilinear = bilinear
        self.down = nn.ModuleList(nn.Sequential(conv(a, b), conv(b, b)) for a, b in zip((3,) + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) if not bilinear else nn.Conv2d(b, a, 1)
                                for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(nn.Sequential(conv(2 * a, a), conv(a, a)) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], n_classes, 1)

    def forward(self, x):
        skips = []
        for i, level in enumerate(self.down):
            x = level(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.up[i](x)
            if self.bilinear:
                x = F.interpolate(x, size=skips[i].shape[-2:], mode="bilinear", align_corners=False)
            x = self.merge[i](torch.cat([skips[i], x], 1))
        return self.head(x)


class FPN(nn.Module):
    def __init__(self, widths=(16, 32, 64), d=16, n_classes=2):
        super().__init__()
        self.down = nn.ModuleList(conv(a, b, 3, 2) for a, b in zip((3,) + widths, widths))
        self.lateral = nn.ModuleList(nn.Conv2d(w, d, 1) for w in widths)
        self.smooth = nn.ModuleList(nn.Sequential(nn.Conv2d(d, d, 3, padding=1), nn.GroupNorm(4, d), nn.ReLU())
                                    for _ in widths)
        self.head = nn.Conv2d(d, n_classes, 1)

    def forward(self, x):
        maps = []
        for level in self.down:
            x = level(x)
            maps.append(x)
        top, sums = None, []
        for i in reversed(range(len(maps))):
            top = self.lateral[i](maps[i]) + (F.interpolate(top, scale_factor=2.0, mode="nearest") if sums else 0)
            sums.append(self.smooth[i](top))
        size = sums[-1].shape[-2:]
        return self.head(sum(F.interpolate(s, size=size, mode="bilinear", align_corners=True) for s in sums))


class C2f(nn.Module):
    def __init__(self, c_in, c_out, n=1, shortcut=False):
        super().__init__()
        self.c, self.shortcut = c_out // 2, shortcut
        self.first = conv(c_in, c_out, 1, 1, nn.SiLU)
        self.last = conv((2 + n) * self.c, c_out, 1, 1, nn.SiLU)
        self.m = nn.ModuleList(nn.Sequential(conv(self.c, self.c, 3, 1, nn.SiLU), conv(self.c, self.c, 3, 1, nn.SiLU))
                               for _ in range(n))

    def forward(self, x):
        y = list(self.first(x).chunk(2, 1))
        for m in self.m:
            y.append(y[-1] + m(y[-1]) if self.shortcut else m(y[-1]))
        return self.last(torch.cat(y, 1))


class SPPF(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.first, self.last = conv(c, c // 2, 1, 1, nn.SiLU), conv(2 * c, c, 1, 1, nn.SiLU)

    def forward(self, x):
        x = self.first(x)
        pool = lambda t: F.max_pool2d(t, 5, 1, 2)
        a = pool(x)
        b = pool(a)
        return self.last(torch.cat([x, a, b, pool(b)], 1))


class YOLOv8(nn.Module):
    """YOLOv8-n: backbone, neck and the decoupled head with the distribution focal loss's expectation; boxes and class
    scores for every anchor, before non-maximum suppression."""

    def __init__(self, n_classes=4, w=(16, 32, 64, 128, 256), bins=16):
        super().__init__()
        act = nn.SiLU
        self.stem = nn.Sequential(conv(3, w[0], 3, 2, act), conv(w[0], w[1], 3, 2, act), C2f(w[1], w[1], 1, True))
        self.p3 = nn.Sequential(conv(w[1], w[2], 3, 2, act), C2f(w[2], w[2], 2, True))
        self.p4 = nn.Sequential(conv(w[2], w[3], 3, 2, act), C2f(w[3], w[3], 2, True))
        self.p5 = nn.Sequential(conv(w[3], w[4], 3, 2, act), C2f(w[4], w[4], 1, True), SPPF(w[4]))
        self.u4, self.u3 = C2f(w[4] + w[3], w[3]), C2f(w[3] + w[2], w[2])
        self.d4, self.d5 = conv(w[2], w[2], 3, 2, act), conv(w[3], w[3], 3, 2, act)
        self.n4, self.n5 = C2f(w[2] + w[3], w[3]), C2f(w[3] + w[4], w[4])
        self.box = nn.ModuleList(nn.Sequential(conv(c, 64, 3, 1, act), nn.Conv2d(64, 4 * bins, 1)) for c in w[2:])
        self.cls = nn.ModuleList(nn.Sequential(conv(c, 64, 3, 1, act), nn.Conv2d(64, n_classes, 1)) for c in w[2:])
        self.bins, self.n_classes = bins, n_classes
        self.register_buffer("project", torch.arange(bins, dtype=torch.float).view(1, bins, 1, 1))

    def forward(self, x):
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        up = lambda t: F.interpolate(t, scale_factor=2.0, mode="nearest")
        a4 = self.u4(torch.cat([up(p5), p4], 1))
        a3 = self.u3(torch.cat([up(a4), p3], 1))
        a4 = self.n4(torch.cat([self.d4(a3), a4], 1))
        a5 = self.n5(torch.cat([self.d5(a4), p5], 1))
        maps = [torch.cat([b(m), c(m)], 1) for b, c, m in zip(self.box, self.cls, (a3, a4, a5))]
        flat = torch.cat([m.flatten(2) for m in maps], 2)
        box, score = flat.split((4 * self.bins, self.n_classes), 1)
        b, _, a = box.shape
        distance = F.conv2d(box.view(b, 4, self.bins, a).transpose(1, 2).softmax(1), self.project).view(b, 4, a)
        points, strides = [], []
        for m, s in zip(maps, (8, 16, 32)):
            h, w = m.shape[-2:]
            ys, xs = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            points.append(torch.stack([xs, ys], 0).view(2, -1))
            strides.append(torch.full((1, h * w), float(s)))
        points, strides = torch.cat(points, 1)[None], torch.cat(strides, 1)
        lt, rb = distance.chunk(2, 1)
        low, high = points - lt, points + rb
        return torch.cat([(low + high) / 2 * strides, (high - low) * strides, score.sigmoid()], 1)


class CTransPath(nn.Module):
    """CTransPath: Swin-T behind a stem of three convolutions with BatchNorm."""

    def __init__(self):
        super().__init__()
        import timm

        class Stem(nn.Module):
            def __init__(self, img_size=224, patch_size=4, in_chans=3, embed_dim=96, norm_layer=None, **_):
                super().__init__()
                self.grid_size, self.img_size, self.patch_size = (img_size // 4,) * 2, (img_size,) * 2, (4, 4)
                self.num_patches = (img_size // 4) ** 2
                self.proj = nn.Sequential(conv(3, 12, 3, 2), conv(12, 24, 3, 2), nn.Conv2d(24, embed_dim, 1))
                self.norm = norm_layer(embed_dim) if norm_layer else nn.Identity()

            def forward(self, x):
                return self.norm(self.proj(x).permute(0, 2, 3, 1))

        self.net = timm.create_model("swin_tiny_patch4_window7_224", pretrained=False, num_classes=0)
        self.net.patch_embed = Stem(norm_layer=nn.LayerNorm)

    def forward(self, x):
        return self.net(x)


# name: (constructor, input shape, the axis of any length)
HEADS = {
    "abmil": (GatedABMIL, (50, 384), 0),
    "clam_sb": (lambda: GatedABMIL(n_classes=2), (37, 384), 0),
    "clam_mb": (ClamMB, (50, 384), 0),
    "dsmil": (DSMIL, (50, 384), 0),
    "transmil": (TransMIL, (1, 50, 384), None),
    "attention_pool": (AttentionPool, (2, 49, 384), 0),
    "unet": (UNet, (2, 3, 64, 64), 0),
    "unet_bilinear": (lambda: UNet(bilinear=True), (2, 3, 64, 64), 0),
    "fpn": (FPN, (2, 3, 64, 64), 0),
    "yolov8n": (YOLOv8, (2, 3, 128, 128), 0),
    "ctranspath": (CTransPath, (1, 3, 224, 224), 0),
}
