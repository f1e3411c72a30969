#!/usr/bin/env python3
"""Two textures of random colours, 4 pictures of each patient: FOLDER/normal/nP_I.png and FOLDER/tumor/tP_I.png."""
import os
import random
import struct
import sys
import zlib


def write(path, n, value):
    rows = b"".join(
        b"\0" + b"".join(bytes(max(0, min(255, v)) for v in value(x, y)) for x in range(n)) for y in range(n)
    )

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 2, 0, 0, 0)))
        f.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def main():
    folder, *counts = sys.argv[1:]
    random.seed(3)
    for k, (name, n) in enumerate(zip(("normal", "tumor"), map(int, counts))):
        os.makedirs(f"{folder}/{name}")
        for i in range(n):
            colour = [random.randint(130, 220), random.randint(80, 170), random.randint(130, 220)]
            write(
                f"{folder}/{name}/{name[0]}{i // 4}_{i}.png",
                32,
                lambda x, y: [c + random.randint(-20, 20) + (80 if k and (x // 2 + y // 2) % 2 else 0) for c in colour],
            )


if __name__ == "__main__":
    main()
