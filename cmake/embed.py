#!/usr/bin/env python3
"""embed.py OUTPUT FUNCTION PAGE [FILE...]: a page as a C++ function that gives its text (src/cli/page_text.h).

Style sheets take the place of /*STYLE*/ in the page, scripts, in their order, of /*SCRIPT*/.
"""

import pathlib
import sys
import zlib

output, function, page, *files = sys.argv[1:]
style, script = (
    b"".join(pathlib.Path(f).read_bytes() for f in files if f.endswith(suffix)) for suffix in (".css", ".js")
)
text = pathlib.Path(page).read_bytes().replace(b"/*STYLE*/", style).replace(b"/*SCRIPT*/", script)
packed = zlib.compress(text, 9)
pathlib.Path(output).write_text(f"""#include "base/unpacked.h"
#include "cli/page_text.h"

std::string smelt::cli::{function}() {{
  static const unsigned char packed[] = {{{",".join(map(str, packed))}}};
  return unpacked(packed, {len(text)});
}}
""")
