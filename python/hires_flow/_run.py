"""The results of a run as tables (docs/results.md says what their columns are)."""
import json
import os
import re


def read_run(directory):
    """The results under a run directory; HiresFlow's tables become pandas DataFrames."""
    return Run(directory)


def _file_name(slide):
    """A slide's name as its files have it: bytes other than letters, digits, _ - . are %XX."""
    return "".join(
        chr(byte) if re.match(rb"[A-Za-z0-9_.-]", bytes([byte])) else f"%{byte:02X}" for byte in os.fsencode(slide)
    )


class Run:
    def __init__(self, directory):
        self.directory = os.fspath(directory)
        if not os.path.exists(self._path("run.db")):
            raise FileNotFoundError(f"there is no run in {self.directory!r} (it has no run.db)")

    @property
    def labels(self):
        """A row for each slide and precision, whatever its state."""
        return self._table("results/labels.csv", dtype={"slide": str, "label": str, "truth": str})

    @property
    def report(self):
        """report.json as a dictionary."""
        with open(self._path("report/report.json"), encoding="utf-8") as file:
            return json.load(file)

    @property
    def precisions(self):
        return [entry["precision"] for entry in self.report["precisions"]]

    def patches(self, slide, precision):
        """A row for each patch of a slide: its place and the probability of every class."""
        return self._table(f"results/{precision}/model-outputs-csv/{_file_name(slide)}.csv")

    def features(self, slide, precision):
        """(embeddings N x D, coordinates N x 2) of a run with model.output: embedding; needs h5py."""
        import h5py

        with h5py.File(self._path(f"results/{precision}/features/{_file_name(slide)}.h5")) as file:
            return file["features"][:].reshape(-1, file["features"].shape[-1]), file["coords"][:].reshape(-1, 2)

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _table(self, name, **options):
        import pandas

        return pandas.read_csv(self._path(name), **options)
