#include "backends/cpu/gemm/constant_parts.h"

#include <algorithm>
#include <memory>

#include "base/mapped_file.h"
#include "smelt/tensor.h"
#include "tensor/pages.h"

namespace smelt {

[[gnu::cold]] void for_each_part(const GemmI8& gemm, const BytesOfB& b,
                                 const std::function<void(const BytesOfB& part, int64_t first)>& f) {
  constexpr int64_t kLarge = 4 * 1024, kPart = 96 * 1024;
  BytesOfB part = b;
  part.deferred = nullptr;
  if (b.row_stride != 1 || b.column_stride != b.k || b.k * b.n < kLarge) {
    const auto bytes = b.deferred ? elements_once(*b.deferred) : nullptr;
    if (b.deferred) part.data = static_cast<const uint8_t*>(bytes.get());
    return f(part, 0);
  }
  const int64_t panel = gemm.nr() * b.k, columns = std::min(std::max<int64_t>(kPart / panel, 1) * gemm.nr(), b.n);
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[static_cast<size_t>(columns * b.k)]);
  part.data = bytes.get();
  for (int64_t first = 0; first < b.n; first += columns) {
    part.n = std::min(columns, b.n - first);
    if (b.deferred)
      b.deferred->copy_elements(first * b.k, part.n * b.k, bytes.get());
    else
      copy_file_bytes(b.data + first * b.k, static_cast<size_t>(part.n * b.k), bytes.get());
    f(part, first);
  }
}

void pack_constant_bytes(const GemmI8& gemm, const BytesOfB& b, const int32_t* bias, int32_t a_zero, void* packed) {
  for_each_part(gemm, b, [&](const BytesOfB& part, int64_t first) {
    gemm.pack_bytes(gemm, part, bias ? bias + first : nullptr, a_zero,
                    static_cast<char*>(packed) + gemm.panel_offset(b.k, first / gemm.nr()));
  });
}

}  // namespace smelt
