#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "smelt/result.h"

namespace smelt {

/// Writes `parts` one after another. A regular file appears whole or not at all, also when others write the same path:
/// the bytes go to a .part file in the same folder that is renamed at the end. Devices and pipes are written directly;
/// a link stays a link.
Status write_file(const std::string& path, std::span<const std::string_view> parts);
inline Status write_file(const std::string& path, std::initializer_list<std::string_view> parts) {
  return write_file(path, std::span(parts.begin(), parts.size()));
}

}  // namespace smelt
