#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace smelt::tflite {

/// A member of a ZIP archive.
struct Member {
  std::string name;
  uint32_t method = 0;             ///< of compression: 0 stored, 8 deflated
  uint64_t size = 0;               ///< of the contents, as the archive states it
  std::span<const uint8_t> bytes;  ///< contents as compressed, a view into the file
};

/// Members of the ZIP archive at the end of a file; empty when there is none or it is damaged. Reads nothing outside
/// `file` and at most `limit` members.
std::vector<Member> archive_members(std::span<const uint8_t> file, size_t limit);

}  // namespace smelt::tflite
