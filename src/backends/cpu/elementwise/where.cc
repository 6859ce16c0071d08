// Elements of one value or another by a condition.
#include <algorithm>
#include <array>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/targets.h"
#include "ops/common/broadcast.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/where.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[i] = c[i] ? a[i * a_step] : b[i * b_step]. Steps are 0 or 1.
void select_words(const uint8_t* c, const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t n,
                  float* to) {
  for_lanes<float>(n, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> words;
    const hn::Rebind<uint8_t, decltype(d)> bytes;
    const auto chosen = hn::RebindMask(d, hn::Ne(hn::PromoteTo(words, hn::LoadU(bytes, c + i)), hn::Zero(words)));
    const auto v = a_step ? hn::LoadU(d, a + i) : hn::Set(d, *a), w = b_step ? hn::LoadU(d, b + i) : hn::Set(d, *b);
    hn::StoreU(hn::IfThenElse(chosen, v, w), d, to + i);
  });
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

using Steps = std::array<int64_t, 3>;
using SelectRows = void (*)(const uint8_t* c, const void* a, const void* b, const Steps& steps, int64_t n, void* y);
using SelectWords = void (*)(const uint8_t* c, const float* a, int64_t a_step, const float* b, int64_t b_step,
                             int64_t n, float* to);

template <class T>
void select_rows(const uint8_t* c, const void* a, const void* b, const Steps& steps, int64_t n, void* y) {
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  if (steps[0] == 0) {
    const T* from = *c ? p : q;
    if (steps[*c ? 1 : 2] == 0)
      std::fill_n(to, n, *from);
    else
      std::copy_n(from, n, to);
  } else if (steps[1] == 1 && steps[2] == 1) {
    for (int64_t i = 0; i < n; ++i) {
      const T v = p[i], w = q[i];  // both are read: no branches
      to[i] = c[i] ? v : w;
    }
  } else if (steps[1] == 1) {
    const T w = *q;
    for (int64_t i = 0; i < n; ++i) {
      const T v = p[i];
      to[i] = c[i] ? v : w;
    }
  } else {
    const T v = *p;
    for (int64_t i = 0; i < n; ++i) {
      const T w = q[i * steps[2]];
      to[i] = c[i] ? v : w;
    }
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
        words_(bytes == sizeof(float) ? SMELT_FOR_LEVEL(spec.isa, select_words) : nullptr),
        bytes_(bytes),
        walk_(spec.outputs[0].shape, {spec.inputs[0].shape, spec.inputs[1].shape, spec.inputs[2].shape}) {}
  Status run(KernelContext& ctx) const override {
    const auto* c = ctx.input(0).data<uint8_t>();
    const auto *a = ctx.input(1).data<std::byte>(), *b = ctx.input(2).data<std::byte>();
    auto* y = ctx.output(0).data<std::byte>();
    walk_.each_rows([&](int64_t out, const std::array<int64_t, 3>& at, const Walk::Rows& all) {
      const auto part_of_row = [&](int64_t row, int64_t first, int64_t n) {
        std::array<int64_t, 3> from;
        for (size_t k = 0; k < from.size(); ++k) from[k] = at[k] + row * all.row_steps[k] + first * all.steps[k];
        select(c + from[0], a + from[1] * bytes_, b + from[2] * bytes_, all.steps, n,
               y + (out + row * all.count + first) * bytes_);
      };
      if (all.rows == 1) {
        ctx.threads().parallel_for(all.count, kGrain,
                                   [&](int64_t begin, int64_t end) { part_of_row(0, begin, end - begin); });
        return;
      }
      ctx.threads().parallel_for(all.rows, std::max<int64_t>(1, kGrain / all.count), [&](int64_t begin, int64_t end) {
        const int64_t together = kLine / all.count;
        if (together < 2) {
          for (int64_t row = begin; row < end; ++row) part_of_row(row, 0, all.count);
          return;
        }
        const auto long_rows = [&](const void* from, size_t k, int64_t size) {
          return LongRows({static_cast<const char*>(from) + (at[k] + begin * all.row_steps[k]) * size, all.row_steps[k],
                           all.steps[k], all.count, size});
        };
        LongRows long_c = long_rows(c, 0, 1), long_a = long_rows(a, 1, bytes_), long_b = long_rows(b, 2, bytes_);
        for (int64_t row = begin; row < end; row += together) {
          const int64_t n = std::min(together, end - row);
          select(static_cast<const uint8_t*>(long_c(row - begin, n)), long_a(row - begin, n), long_b(row - begin, n),
                 {1, 1, 1}, n * all.count, y + (out + row * all.count) * bytes_);
        }
      });
    });
    return Ok();
  }

 private:
  using Walk = BroadcastWalk<3>;
  static constexpr int64_t kGrain = 8192;                               // elements
  static constexpr int64_t kLine = LongRows::kBytes / sizeof(int64_t);  // elements of short rows that go together

  void select(const uint8_t* c, const void* a, const void* b, const Steps& steps, int64_t n, void* y) const {
    if (words_ && steps[0] != 0)
      words_(c, static_cast<const float*>(a), steps[1], static_cast<const float*>(b), steps[2], n,
             static_cast<float*>(y));
    else
      rows_(c, a, b, steps, n, y);
  }

  SelectRows rows_;
  SelectWords words_;  ///< of elements of 32 bits; null: of others
  int64_t bytes_;
  Walk walk_;
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
#endif
