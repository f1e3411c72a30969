#!/usr/bin/env python3
"""Images that OpenSlide does not read, each written here and read by dump_level: the pixels are those
that Pillow decodes (or that were written), byte for byte. Usage: readers.py DUMP_LEVEL DATA SCRATCH"""
import io
import os
import struct
import subprocess
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(missing)
    sys.exit(77)

dump, data, scratch = sys.argv[1:]
Image.MAX_IMAGE_PIXELS = None
passed = failed = 0


def read(path, level=0):
    """(pixels, levels, format), or the sentence that it is refused with."""
    done = subprocess.run([dump, path, str(level)], capture_output=True)
    if done.returncode != 0:
        assert done.returncode == 1, (path, done.returncode)
        return done.stderr.decode()
    head, _, pixels = done.stdout.partition(b"\n")
    width, height, levels, kind = head.split()
    return (np.frombuffer(pixels, np.uint8).reshape(int(height), int(width), 3), int(levels),
            kind.decode())


def judge(name, good, what=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print("FAIL", name, what)


def compare(name, path, wanted, level=0, levels=1, kind=None):
    found = read(path, level)
    if isinstance(found, str):
        return judge(name, False, found)
    pixels, n, word = found
    same = pixels.shape == wanted.shape and np.array_equal(pixels, wanted)
    worst = int(np.abs(pixels.astype(int) - wanted).max()) if pixels.shape == wanted.shape else -1
    judge(name, same and n == levels and kind in (None, word), f"{pixels.shape} differs by {worst}, "
          f"{n} levels, {word}")


def refused(name, path, text):
    found = read(path)
    judge(name, isinstance(found, str) and text in found, found if isinstance(found, str) else "read")


def on_white(image):
    rgba = np.asarray(image.convert("RGBA")).astype(int)
    alpha = rgba[..., 3:]
    return ((rgba[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def at(name):
    return os.path.join(scratch, name)


def write_tiff(path, pages, little=True):
    """pages: (tags, pieces, sub-pages) - pieces are the bytes of its tiles or strips."""
    order = "<" if little else ">"
    out = bytearray((b"II" if little else b"MM") + struct.pack(order + "HI", 42, 0))

    def put(values, code):
        place = len(out)
        out.extend(struct.pack(order + str(len(values)) + code, *values))
        return place

    def page(tags, pieces, subs):
        places = []
        for piece in pieces:
            places.append(len(out))
            out.extend(piece)
        tiled = 322 in tags
        entries = {**tags, 324 if tiled else 273: places,
                   325 if tiled else 279: [len(p) for p in pieces]}
        if subs:
            entries[330] = [page(*sub)[0] for sub in subs]
        rows = []
        for tag, value in sorted(entries.items()):
            if isinstance(value, bytes):
                rows.append((tag, 2, len(value) + 1, None, value + b"\0"))
            else:
                value = value if isinstance(value, list) else [value]
                rows.append((tag, 4, len(value), value, None))
        directory = []
        for tag, code, n, values, text in rows:
            if text is not None:
                place = len(out)
                out.extend(text)
            elif n == 1:
                place = values[0]
            else:
                place = put(values, "I")
            directory.append((tag, code, n, place))
        start = len(out)
        out.extend(struct.pack(order + "H", len(directory)))
        for entry in directory:
            out.extend(struct.pack(order + "HHII", *entry))
        out.extend(struct.pack(order + "I", 0))
        return start, len(out) - 4

    link = 4
    for p in pages:
        start, end = page(*p)
        struct.pack_into(order + "I", out, link, start)
        link = end
    with open(path, "wb") as file:
        file.write(out)


def tags(image, compression=1, photometric=2, **more):
    height, width = image.shape[:2]
    return {256: width, 257: height, 258: [8, 8, 8], 259: compression, 262: photometric, 277: 3,
            **{int(k[1:]): v for k, v in more.items()}}


def tiles(image, side):
    height, width = image.shape[:2]
    for y in range(0, height, side):
        for x in range(0, width, side):
            tile = np.full((side, side, 3), 255, np.uint8)
            part = image[y:y + side, x:x + side]
            tile[:part.shape[0], :part.shape[1]] = part
            yield tile


random = np.random.default_rng(1)
real = os.path.join(data, "slides", "kidney-48-5.tif")
if os.path.exists(real):
    picture = np.asarray(Image.open(real).convert("RGB"))
    compare("a real striped TIFF", real, picture, kind="tiff")
else:
    print(f"skipped: there is no {real}; a made-up picture instead")
    picture = random.integers(0, 256, (901, 1493, 3), np.uint8)
image = Image.fromarray(picture)

for mode in ("RGB", "L", "P", "1", "LA", "RGBA"):
    shown = image.convert(mode)
    if "A" in mode:
        shown.putalpha(Image.fromarray(random.integers(0, 256, picture.shape[:2], np.uint8)))
    shown.save(at("p.png"))
    compare(f"PNG {mode}", at("p.png"), on_white(Image.open(at("p.png"))), kind="png")
Image.fromarray(random.integers(0, 65536, (50, 70), np.uint16)).save(at("p.png"))
deep = read(at("p.png"))
wide = np.asarray(Image.open(at("p.png"))).astype(int) >> 8
judge("PNG of 16 bits", not isinstance(deep, str) and np.array_equal(deep[0][..., 0], wide))
for mode, options in (("RGB", {}), ("RGB", {"progressive": True}), ("RGB", {"subsampling": 0}),
                      ("L", {})):
    image.convert(mode).save(at("p.jpg"), quality=85, **options)
    compare(f"JPEG {mode} {options}", at("p.jpg"), np.asarray(Image.open(at("p.jpg")).convert("RGB")),
            kind="jpeg")
image.convert("CMYK").save(at("p.jpg"))
refused("JPEG CMYK", at("p.jpg"), "it has 4 channels; RGB and gray are read")
for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
    for mode in ("RGB", "L"):
        image.convert(mode).save(at("p.tif"), compression=compression)
        wanted = np.asarray(Image.open(at("p.tif")).convert("RGB"))
        compare(f"TIFF {compression} {mode}", at("p.tif"), wanted, kind="tiff")

# Random sizes of images, strips and tiles, in both byte orders; planes apart; what Pillow reads.
for i in range(40):
    height, width = (int(n) for n in random.integers(1, 300, 2))
    small = random.integers(0, 256, (height, width, 3), np.uint8)
    rows = int(random.integers(1, height + 1))
    strips = [small[y:y + rows].tobytes() for y in range(0, height, rows)]
    write_tiff(at("p.tif"), [(tags(small, t278=rows), strips, [])], little=i % 2 == 0)
    compare(f"strips of {rows} of {width} x {height}", at("p.tif"), small, kind="tiff")
    judge("Pillow reads it likewise", np.array_equal(np.asarray(Image.open(at("p.tif"))), small))
planes = [np.ascontiguousarray(picture[..., c]).tobytes() for c in range(3)]
write_tiff(at("p.tif"), [(tags(picture, t278=picture.shape[0], t284=2), planes, [])])
compare("planes apart", at("p.tif"), picture)

# OME-TIFF: the smaller levels are SubIFDs. Pages: those of the same shape are levels.
levels = [picture, picture[::2, ::2], picture[::4, ::4]]
ome = (b'<?xml version="1.0"?><OME><Image><Pixels PhysicalSizeX="0.5" PhysicalSizeY="0.5" '
       b'SizeX="1493"/></Image></OME>')
forms = [(tags(p, t322=256, t323=256), [t.tobytes() for t in tiles(p, 256)], []) for p in levels]
write_tiff(at("o.ome.tif"), [({**forms[0][0], 270: ome}, forms[0][1],
                              [({**f[0], 254: 1}, f[1], []) for f in forms[1:]])])
for i, level in enumerate(levels):
    compare(f"OME-TIFF level {i}", at("o.ome.tif"), level, level=i, levels=3, kind="ome-tiff")
forms = [(tags(p, t278=64), [p[y:y + 64].tobytes() for y in range(0, len(p), 64)], [])
         for p in levels + [picture[:90, :300]]]
write_tiff(at("p.tif"), forms)
for i, level in enumerate(levels):
    compare(f"striped pyramid level {i}", at("p.tif"), level, level=i, levels=3)

# JPEG 2000 in a TIFF of no vendor: each tile as Pillow's OpenJPEG decodes it.
for reversible in (True, False):
    pieces, shown = [], np.zeros((1024, 1536, 3), np.uint8)
    for i, tile in enumerate(tiles(picture, 256)):
        code = io.BytesIO()
        Image.fromarray(tile).save(code, "JPEG2000", no_jp2=True, irreversible=not reversible,
                                   quality_mode="rates", quality_layers=[0 if reversible else 8])
        pieces.append(code.getvalue())
        y, x = i // 6 * 256, i % 6 * 256
        shown[y:y + 256, x:x + 256] = np.asarray(Image.open(code).convert("RGB"))
    write_tiff(at("j.tif"), [(tags(picture, 34712, t322=256, t323=256), pieces, [])])
    compare(f"JPEG 2000, reversible {reversible}", at("j.tif"), shown[:901, :1493])
    if reversible:
        judge("which is what was written", np.array_equal(shown[:901, :1493], picture))
pieces[7] = pieces[7][:len(pieces[7]) // 2]
write_tiff(at("j.tif"), [(tags(picture, 34712, t322=256, t323=256), pieces, [])])
refused("JPEG 2000 cut short", at("j.tif"), "level 0, tile 1, 1 (bytes ")

# Sizes and kinds that are refused before memory is taken.
blank = np.zeros((4, 4, 3), np.uint8)
write_tiff(at("h.tif"), [({**tags(blank, 5, t278=1 << 20), 256: 1 << 20, 257: 1 << 20}, [b"x"], [])])
refused("a strip of 2^40 px", at("h.tif"), "pieces of 128 Mpx are the limit")
write_tiff(at("h.tif"), [({**tags(blank, 34712, t322=16, t323=16), 256: 1 << 30, 257: 1 << 30},
                          [b"x"], [])])
refused("2^52 tiles", at("h.tif"), "h.tif'")
write_tiff(at("h.tif"), [(tags(blank, t278=4, t274=6), [blank.tobytes()], [])])
refused("a turned image", at("h.tif"), "orientation 6")
write_tiff(at("h.tif"), [(tags(blank, 50000 + 999, t278=4), [blank.tobytes()], [])])
refused("an unknown compression", at("h.tif"), "compression, number 50999")
header = struct.pack(">IIBBBBB", 1 << 29, 1 << 29, 8, 2, 0, 0, 0)
import zlib
with open(at("h.png"), "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + header +
               struct.pack(">I", zlib.crc32(b"IHDR" + header)) +
               struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT")))
refused("a PNG of 2^58 px", at("h.png"), "256 Mpx are the limit")
image.save(at("p.png"))
whole = open(at("p.png"), "rb").read()
open(at("h.png"), "wb").write(whole[:len(whole) // 2])
refused("a PNG cut short", at("h.png"), "is damaged: reading fails at x 0, y 0, level 0, tile 0, 0")
image.save(at("p.jpg"))
whole = open(at("p.jpg"), "rb").read()
open(at("h.jpg"), "wb").write(whole[:len(whole) // 2])
refused("a JPEG cut short", at("h.jpg"), "Premature end of JPEG file")
print(passed, "passed,", failed, "failed")
sys.exit(failed > 0)
