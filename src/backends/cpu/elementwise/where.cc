// Elements of one value or another by a condition.
#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "ops/common/broadcast.h"

namespace smelt {
namespace {

using Steps = std::array<int64_t, 3>;
using SelectRows = void (*)(const uint8_t* c, const void* a, const void* b, const Steps& steps, int64_t n, void* y);

template <class T>
void select_rows(const uint8_t* c, const void* a, const void* b, const Steps& steps, int64_t n, void* y) {
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  if (steps == Steps{1, 1, 1}) {
    for (int64_t i = 0; i < n; ++i) to[i] = c[i] ? p[i] : q[i];
  } else if (steps == Steps{1, 1, 0}) {
    for (int64_t i = 0; i < n; ++i) to[i] = c[i] ? p[i] : *q;
  } else if (steps == Steps{1, 0, 1}) {
    for (int64_t i = 0; i < n; ++i) to[i] = c[i] ? *p : q[i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = c[i * steps[0]] ? p[i * steps[1]] : q[i * steps[2]];
  }
}

SelectRows rows_of(int64_t bytes) {
  switch (bytes) {
    case 1:
      return select_rows<uint8_t>;
    case 2:
      return select_rows<uint16_t>;
    case 4:
      return select_rows<uint32_t>;
    case 8:
      return select_rows<uint64_t>;
    default:
      return nullptr;
  }
}

class Where final : public Kernel {
 public:
  Where(SelectRows rows, int64_t bytes, const KernelSpec& spec)
      : rows_(rows),
        bytes_(bytes),
        walk_(spec.outputs[0].shape, {spec.inputs[0].shape, spec.inputs[1].shape, spec.inputs[2].shape}) {}
  Status run(KernelContext& ctx) const override {
    const auto* c = ctx.input(0).data<uint8_t>();
    const auto *a = ctx.input(1).data<std::byte>(), *b = ctx.input(2).data<std::byte>();
    auto* y = ctx.output(0).data<std::byte>();
    walk_.each_row([&](int64_t out, const std::array<int64_t, 3>& at, int64_t n, const Steps& steps) {
      rows_(c + at[0], a + at[1] * bytes_, b + at[2] * bytes_, steps, n, y + out * bytes_);
    });
    return Ok();
  }

 private:
  SelectRows rows_;
  int64_t bytes_;
  BroadcastWalk<3> walk_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_where(const KernelSpec& spec) {
  const ValueType &c = spec.inputs[0], &a = spec.inputs[1], &b = spec.inputs[2], &y = spec.outputs[0];
  const int64_t bytes = whole_bytes(y.dtype);
  const SelectRows rows = rows_of(bytes);
  if (!rows || (c.dtype != DType::kBool && c.dtype != DType::kU8 && c.dtype != DType::kI8) || c.quant ||
      a.dtype != y.dtype || b.dtype != y.dtype)
    return nullptr;
  const auto shape = broadcast_shapes(std::array{c.shape, a.shape, b.shape});
  if (!shape.ok() || *shape != y.shape) return nullptr;
  return std::make_unique<Where>(rows, bytes, spec);
}

}  // namespace smelt
