#include "formats/tflite/archive.h"

#include <algorithm>

#include "base/checked.h"

namespace smelt::tflite {
namespace {

uint32_t word(std::span<const uint8_t> b, size_t at, int bytes) {
  uint32_t v = 0;
  for (int i = 0; i < bytes; ++i) v |= static_cast<uint32_t>(b[at + static_cast<size_t>(i)]) << (8 * i);
  return v;
}

constexpr size_t kEndSize = 22, kEntrySize = 46, kHeaderSize = 30;
constexpr uint32_t kEndMark = 0x06054b50, kEntryMark = 0x02014b50, kHeaderMark = 0x04034b50;

/// The record that ends an archive; a comment of up to 64 KiB may follow it.
size_t find_end(std::span<const uint8_t> file) {
  if (file.size() < kEndSize) return file.size();
  const size_t last = file.size() - kEndSize, first = last > 0xffff ? last - 0xffff : 0;
  for (size_t at = last + 1; at-- > first;)
    if (word(file, at, 4) == kEndMark) return at;
  return file.size();
}

}  // namespace

std::vector<Member> archive_members(std::span<const uint8_t> file, size_t limit) {
  std::vector<Member> out;
  const size_t end = find_end(file);
  if (end == file.size()) return out;
  const size_t count = std::min<size_t>(word(file, end + 10, 2), limit);
  const uint64_t size = word(file, end + 12, 4), offset = word(file, end + 16, 4);
  if (size > end) return out;
  // Offsets count from the archive's first byte, which may or may not be the file's.
  uint64_t base = 0, directory = offset;
  if (!in_range(offset, size, end) || size < 4 || word(file, offset, 4) != kEntryMark) {
    directory = end - size;
    if (directory < offset) return out;
    base = directory - offset;
  }
  uint64_t at = directory;
  for (size_t i = 0; i < count; ++i) {
    if (!in_range(at, kEntrySize, end) || word(file, at, 4) != kEntryMark) return out;
    const uint32_t method = word(file, at + 10, 2), bytes = word(file, at + 20, 4), unpacked = word(file, at + 24, 4),
                   name = word(file, at + 28, 2);
    const uint64_t header = base + word(file, at + 42, 4);
    if (!in_range(at + kEntrySize, name, end)) return out;
    Member m;
    m.name.assign(reinterpret_cast<const char*>(file.data()) + at + kEntrySize, name);
    at += kEntrySize + name + word(file, at + 30, 2) + word(file, at + 32, 2);
    if (!in_range(header, kHeaderSize, end) || word(file, header, 4) != kHeaderMark) return out;
    const uint64_t data = header + kHeaderSize + word(file, header + 26, 2) + word(file, header + 28, 2);
    if (!in_range(data, bytes, end)) return out;
    m.method = method;
    m.size = unpacked;
    m.bytes = file.subspan(data, bytes);
    out.push_back(std::move(m));
  }
  return out;
}

}  // namespace smelt::tflite
