// Rows of a quantized table by computed indices, as real numbers.
#include <algorithm>
#include <atomic>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "base/checked.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

class EmbeddingLookup final : public Kernel {
 public:
  /// `block`: entries of a row that share a scale.
  EmbeddingLookup(const KernelSpec& spec, int64_t run, int64_t block)
      : ids_(spec.inputs[0]),
        table_(spec.inputs[1]),
        run_(run),
        block_(block),
        bits_(static_cast<int64_t>(bit_width(table_.dtype))),
        ops_(dynamic_quant_ops(spec.isa)) {}
  Status run(KernelContext& ctx) const override {
    std::atomic<int64_t> wrong = -1;  // the place of an id outside
    const int64_t grain = std::max<int64_t>(1, 16384 / run_);
    ctx.threads().parallel_for(ids_.shape.elements(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = id(ctx, i);
        if (row < 0 || row >= table_.shape[0])
          wrong = i;
        else
          copy(ctx.input(1).unaligned_bytes(), row, ctx.output(0).data<float>() + i * run_);
      }
    });
    if (wrong < 0) return Ok();
    return index_of(id(ctx, wrong.load()), table_.shape[0], false).error();
  }

 private:
  int64_t id(KernelContext& ctx, int64_t i) const {
    return ids_.dtype == DType::kI32 ? ctx.input(0).data<int32_t>()[i] : ctx.input(0).data<int64_t>()[i];
  }
  void copy(const std::byte* table, int64_t row, float* y) const {
    const auto* from = reinterpret_cast<const uint8_t*>(table) + row * run_ * bits_ / 8;
    const int64_t blocks = ceil_div(run_, block_);
    QuantRule rule = quant_rule(is_signed_integer(table_.dtype) ? DType::kI8 : DType::kU8);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t at = i * block_, s = row * blocks + i;
      rule.scale = table_.quant->scale(s);
      rule.zero = table_.quant->zero_point(s);
      dequantize(from, at, std::min(block_, run_ - at), rule, y + at);
    }
  }
  /// n entries of a row from `at` on.
  void dequantize(const uint8_t* row, int64_t at, int64_t n, const QuantRule& rule, float* y) const {
    if (bits_ == 8) return ops_.dequantize(row + at, n, rule, 1, y);
    constexpr int64_t kTogether = 256;
    uint8_t wide[kTogether];
    for (int64_t i = 0; i < n; i += kTogether) {
      const int64_t some = std::min(kTogether, n - i);
      widen_integers(table_.dtype, row + (at + i) * bits_ / 8, some, wide);
      ops_.dequantize(wide, some, rule, 1, y + i);
    }
  }

  ValueType ids_, table_;
  int64_t run_, block_, bits_;
  const DynamicQuantOps& ops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_embedding_lookup(const KernelSpec& spec) {
  const ValueType& table = spec.inputs[1];
  const Shape& s = table.shape;
  const Quantization& q = *table.quant;
  if (s.rank() < 1 || spec.outputs[0].shape.elements() == 0) return nullptr;
  const int64_t run = s.elements() / std::max<int64_t>(s[0], 1),
                per_byte = 8 / static_cast<int64_t>(bit_width(table.dtype));
  using Kind = Quantization::Kind;
  const bool has_blocks = q.kind == Kind::kPerBlock && q.axis == 1 && s.rank() == 2 && q.block > 0;
  if (!has_blocks && q.kind != Kind::kPerTensor && (q.kind != Kind::kPerAxis || q.axis != 0))
    return spec.refuse("scales along another dimension");
  const int64_t block = has_blocks ? q.block : run;
  if (run % per_byte != 0 || block % per_byte != 0) return spec.refuse("rows or blocks that begin within a byte");
  return std::make_unique<EmbeddingLookup>(spec, run, block);
}

}  // namespace smelt
