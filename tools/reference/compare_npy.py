#!/usr/bin/python3
"""compare_npy.py GOT.npy WANT.npy LIMIT: largest difference over largest value; exit code 1 above."""
import os
import sys

import numpy as np

got, want, limit = np.load(sys.argv[1]), np.load(sys.argv[2]), float(sys.argv[3])
if got.shape != want.shape:
    sys.exit("%s: shape %s, expected %s" % (sys.argv[1], got.shape, want.shape))
error = float(np.abs(got.astype("f8") - want).max() / np.abs(want).max())
print("%-40s relative error %.2e (limit %.0e)" % (os.path.basename(sys.argv[1]), error, limit))
sys.exit(0 if error <= limit else 1)
