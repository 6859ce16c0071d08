#include "formats/format.h"

#include <vector>

#include "base/selection.h"

namespace smelt {

#define SMELT_FORMAT(name) extern const Format name##_format;
#include "formats/formats.inc"
#undef SMELT_FORMAT

std::span<const Format* const> all_formats() {
  static const std::vector<const Format*> formats = [] {
    std::vector<const Format*> built;
#define SMELT_FORMAT(name) \
  if (builds_format(#name)) built.push_back(&name##_format);
#include "formats/formats.inc"
#undef SMELT_FORMAT
    return built;
  }();
  return formats;
}

}  // namespace smelt
