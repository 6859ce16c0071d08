#!/usr/bin/env python3
"""pack_schema.py OUTPUT FUNCTION SCHEMA: a binary schema, packed, as a header with a C++ function that gives its bytes
(src/base/unpacked.h)."""

import pathlib
import sys
import zlib

output, function, schema = sys.argv[1:]
data = pathlib.Path(schema).read_bytes()
pathlib.Path(output).write_text(f"""#pragma once

#include "base/unpacked.h"

namespace smelt {{

inline const uint8_t* {function}() {{
  static const unsigned char packed[] = {{{",".join(map(str, zlib.compress(data, 9)))}}};
  static const std::string schema = unpacked(packed, {len(data)});
  return reinterpret_cast<const uint8_t*>(schema.data());
}}

}}  // namespace smelt
""")
