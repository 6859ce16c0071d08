#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "smelt/result.h"

namespace smelt {

/// Writes `parts` one after another. A regular file appears whole or not at all (it grows beside its place in a
/// file of its own, whose name ends in .part, also when others write the same path); devices and pipes are written as
/// they are, and a link stays a link.
Status write_file(const std::string& path, std::initializer_list<std::string_view> parts);

}  // namespace smelt
