#include "formats/format.h"

#include <iterator>

namespace smelt {

#define SMELT_FORMAT(name) extern const Format name##_format;
#include "formats/formats.inc"
#undef SMELT_FORMAT

std::span<const Format* const> all_formats() {
  static const Format* const formats[] = {
#define SMELT_FORMAT(name) &name##_format,
#include "formats/formats.inc"
#undef SMELT_FORMAT
      nullptr,
  };
  return {formats, std::size(formats) - 1};
}

}  // namespace smelt
