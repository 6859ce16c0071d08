#include <algorithm>
#include <cstring>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/reduce/reduce_view.h"

namespace smelt {
namespace {

/// Bytes of bool, each 0 or not.
class ReduceBool final : public Kernel {
 public:
  ReduceBool(const ReduceView& v, bool any) : v_(v), any_(any) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    const int64_t grain = std::max<int64_t>(1, 32768 / (v_.count * v_.inner));
    ctx.threads().parallel_for(v_.outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) slice(x + i * v_.count * v_.inner, y + i * v_.inner);
    });
    return Ok();
  }

 private:
  void slice(const uint8_t* x, uint8_t* y) const {
    if (v_.inner == 1) {
      *y = any_ ? some(x, v_.count) : std::memchr(x, 0, static_cast<size_t>(v_.count)) == nullptr;
      return;
    }
    for (int64_t c = 0; c < v_.inner; ++c) y[c] = any_ ? 0 : 1;
    for (int64_t k = 0; k < v_.count; ++k, x += v_.inner)
      for (int64_t c = 0; c < v_.inner; ++c) {
        const auto truth = static_cast<uint8_t>(x[c] != 0);
        y[c] = any_ ? y[c] | truth : y[c] & truth;
      }
  }
  static bool some(const uint8_t* x, int64_t n) {
    uint64_t bits = 0, word;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      std::memcpy(&word, x + i, 8);
      bits |= word;
    }
    for (; i < n; ++i) bits |= x[i];
    return bits != 0;
  }

  ReduceView v_;
  bool any_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_reduce_bool(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const bool any = attrs.fn == Reduction::kAny;
  if (!any && attrs.fn != Reduction::kAll) return spec.refuse("neither Any nor All");
  const auto v = reduce_view(spec);
  return v ? std::make_unique<ReduceBool>(*v, any) : nullptr;
}

}  // namespace smelt
