#include "backends/cpu/core/broadcast.h"

#include <algorithm>

namespace smelt {
namespace {

template <class T>
void write_out(const ShortRows& rows, int64_t first, int64_t count, char* wide) {
  const auto* from = reinterpret_cast<const T*>(rows.from) + first * rows.row;
  auto* to = reinterpret_cast<T*>(wide);
  if (rows.row == 0 && rows.step == 0) {
    std::fill_n(to, count * rows.inner, *from);
    return;
  }
  for (int64_t r = 0; r < count; ++r, from += rows.row)
    for (int64_t i = 0; i < rows.inner; ++i) *to++ = from[i * rows.step];
}

}  // namespace

const void* LongRows::operator()(int64_t first, int64_t count) {
  if (rows_.row == rows_.inner && rows_.step == 1) return rows_.from + first * rows_.inner * rows_.size;
  if (first > 0 && rows_.row == 0) return wide_;
  switch (rows_.size) {
    case 1:
      write_out<uint8_t>(rows_, first, count, wide_);
      break;
    case 2:
      write_out<uint16_t>(rows_, first, count, wide_);
      break;
    case 4:
      write_out<uint32_t>(rows_, first, count, wide_);
      break;
    default:
      write_out<uint64_t>(rows_, first, count, wide_);
  }
  return wide_;
}

}  // namespace smelt
