#!/usr/bin/env python3
"""Prints src/formats/onnx/attributes.inc: the attributes of every operator, those of all its versions together.

    onnx_attributes.py > src/formats/onnx/attributes.inc

Needs the Python packages onnx (the standard domains) and onnxruntime (com.microsoft).
"""
import collections

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as runtime


def main():
    names = collections.defaultdict(set)
    for s in onnx.defs.get_all_schemas_with_history():
        names[s.domain, s.name] |= set(s.attributes)
    for s in runtime.get_all_operator_schema():
        if s.domain == "com.microsoft":
            names[s.domain, s.name] |= set(s.attributes)
    print(f"// Made by tests/onnx_attributes.py with onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__}: the attributes")
    print("// that an operator has in any version. SMELT_ONNX_ATTRIBUTES(domain, operator, names)")
    for (domain, op), attributes in sorted(names.items()):
        print(f'SMELT_ONNX_ATTRIBUTES("{domain}", "{op}", "{" ".join(sorted(attributes))}")')


if __name__ == "__main__":
    main()
