#include "backends/cpu/gemm/constant_parts.h"

#include <algorithm>
#include <memory>

#include "base/checked.h"
#include "base/mapped_file.h"
#include "base/packing_threads.h"
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
  const int64_t panel = gemm.nr() * b.k;
  const int64_t threads = PackingThreads::count(b.k * b.n), most = std::min(b.k * b.n / threads, kPart);
  const int64_t columns = std::min(std::max<int64_t>(most / panel, 1) * gemm.nr(), b.n);
  const auto bytes = static_cast<size_t>(columns * b.k);
  PackingThreads::share(ceil_div(b.n, columns), threads, bytes, [&](int64_t begin, int64_t end, void* copy) {
    BytesOfB here = part;
    here.data = static_cast<const uint8_t*>(copy);
    for (int64_t first = begin * columns; first < std::min(end * columns, b.n); first += columns) {
      here.n = std::min(columns, b.n - first);
      if (b.deferred)
        b.deferred->copy_elements(first * b.k, here.n * b.k, copy);
      else
        copy_file_bytes(b.data + first * b.k, static_cast<size_t>(here.n * b.k), copy);
      f(here, first);
    }
  });
}

void pack_constant_bytes(const GemmI8& gemm, const BytesOfB& b, const int32_t* bias, int32_t a_zero, void* packed) {
  for_each_part(gemm, b, [&](const BytesOfB& part, int64_t first) {
    gemm.pack_bytes(gemm, part, bias ? bias + first : nullptr, a_zero,
                    static_cast<char*>(packed) + gemm.panel_offset(b.k, first / gemm.nr()));
  });
}

}  // namespace smelt
