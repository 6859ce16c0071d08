"""What the tracers share: reading the inputs that smelt wrote, and writing values for it.

A tracer is called as `PEER.py MODEL FOLDER`. FOLDER/inputs.txt has a line for each input: its name as hexadecimal bytes
("-": none), element type, offset in inputs.bin, rank, dimensions. values.txt and values.bin take what the peer computed
in the same form; a name "#2" is the third output of the model. The last line that a tracer prints is its error.
"""

import pathlib
import sys


def need(*modules):
    """Imports modules; ends with a message where one is missing."""
    import importlib

    try:
        return [importlib.import_module(m) for m in modules]
    except ImportError as e:
        print(f"{e.name or modules[0]} is not installed for {sys.executable} ({e}); SMELT_PYTHON names another one")
        sys.exit(3)


class Exchange:
    """The files in FOLDER."""

    def __init__(self, folder):
        import numpy

        self.numpy = numpy
        self.folder = pathlib.Path(folder)
        self.index = (self.folder / "values.txt").open("w")
        self.data = (self.folder / "values.bin").open("wb")

    def inputs(self):
        """(name, array) of each input; bfloat16 as uint16."""
        data = (self.folder / "inputs.bin").read_bytes()
        out = []
        for line in (self.folder / "inputs.txt").read_text().splitlines():
            name, dtype, offset, _, *shape = line.split()
            dtype = self.numpy.dtype("uint16" if dtype == "bfloat16" else dtype)
            shape = [int(d) for d in shape]
            count = int(self.numpy.prod(shape, dtype=self.numpy.int64))
            array = self.numpy.frombuffer(data, dtype, count, int(offset)).reshape(shape)
            out.append(("" if name == "-" else bytes.fromhex(name).decode(), array))
        return out

    def put(self, name, array):
        """Notes a value; what is no array of numbers is left out."""
        array = self.numpy.ascontiguousarray(array)
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            return
        shape = " ".join(str(d) for d in self.numpy.shape(array))
        print(name.encode().hex() or "-", array.dtype.name, self.data.tell(), array.ndim, shape, file=self.index)
        self.data.write(array.tobytes())

    def close(self):
        self.index.close()
        self.data.close()
