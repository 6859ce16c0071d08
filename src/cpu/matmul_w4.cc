#include "cpu/matmul_w4.h"

#include <algorithm>
#include <vector>

#include "base/cat.h"
#include "cpu/activation.h"
#include "cpu/integer_weights.h"
#include "cpu/kernel.h"
#include "cpu/row_quant.h"
#include "tensor/numeric.h"

namespace smelt {

#if defined(__x86_64__)
namespace {

/// Rows that carry a scale and zero point, or float32 rows quantized as they come, times 4-bit weights.
class MatMulW4 final : public Kernel {
 public:
  MatMulW4(const MatMulShape& s, const KernelSpec& spec, const IntegerWeights& w)
      : s_(s),
        attrs_(spec.attrs<MatMulAttrs>()),
        hybrid_(attrs_.hybrid),
        has_bias_(spec.has(2)),
        quant_(row_quant(spec.isa)),
        blocks_(w.blocks()),
        block_(w.block()) {
    panels_ = (s.n + W4Tile::kColumns - 1) / W4Tile::kColumns;
    lda_ = (s.k + W4Tile::kStep - 1) / W4Tile::kStep * W4Tile::kStep;
    panel_bytes_ = lda_ / W4Tile::kStep * 64;
    packed_ = spec.packs.get(
        spec.constant(1)->raw(),
        Cat("matmul_w4 ", s.k, ' ', s.n, ' ', s.g.b.row_stride, ' ', s.g.b.column_stride, ' ', blocks_), [&] {
          auto packed = std::make_shared<AlignedBytes>(static_cast<size_t>(panels_ * (panel_bytes_ + scales_bytes())));
          pack(w, packed->data<uint8_t>(), reinterpret_cast<float*>(packed->data<char>() + panels_ * panel_bytes_));
          return packed;
        });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(s_.m) * row_bytes(); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the rows of a matrix product");
    const Rows rows{reinterpret_cast<int8_t*>(scratch), reinterpret_cast<int32_t*>(scratch + s_.m * lda_),
                    reinterpret_cast<RowGrid*>(scratch + s_.m * (lda_ + blocks_ * 4))};
    const Tensor& a = ctx.input(0);
    if (!hybrid_) SMELT_TRY(check_row_grids(a, s_.m));
    ctx.threads().parallel_for(s_.m, std::max<int64_t>(1, 32768 / s_.k), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) prepare(a, r, rows);
    });
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    auto* y = ctx.output(0).data<float>();
    const int64_t together = s_.m == 1 ? W4Tile::kMostPanels : 2;
    ctx.threads().parallel_for((panels_ + together - 1) / together, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin * together; p < std::min(panels_, end * together); p += together)
        columns(rows, bias, p, std::min(together, panels_ - p), y);
    });
    return Ok();
  }

 private:
  /// Rows as the tiles take them.
  struct Rows {
    int8_t* values;
    int32_t* sums;  ///< [row][block]
    RowGrid* grids;
  };
  size_t row_bytes() const { return static_cast<size_t>(lda_ + blocks_ * 4) + sizeof(RowGrid); }
  /// Of a panel, block by block, and behind them what a zero point of one takes off.
  int64_t scales_bytes() const { return W4Tile::kColumns * (blocks_ + 1) * 4; }
  int64_t depth(int64_t i) const { return std::min(block_, s_.k - i * block_); }

  void pack(const IntegerWeights& w, uint8_t* panels, float* scales) const {
    const std::vector<int16_t> values = w.values();
    const int64_t padded = panels_ * W4Tile::kColumns;
    const auto at = [&](int64_t n, int64_t k) {
      const bool there = n < s_.n && k < s_.k;
      return static_cast<uint8_t>(8 + (there ? values[static_cast<size_t>(n * s_.k + k)] : 0));
    };
    for (int64_t n = 0; n < padded; ++n) {
      uint8_t* to = panels + n / W4Tile::kColumns * panel_bytes_ + n % W4Tile::kColumns * 4;
      for (int64_t k = 0; k < lda_; k += W4Tile::kStep, to += 64)
        for (int64_t j = 0; j < 4; ++j) to[j] = static_cast<uint8_t>(at(n, k + j) | at(n, k + j + 4) << 4);
      double zero = 0;
      for (int64_t i = 0; i < blocks_; ++i) {
        const float scale = n < s_.n ? w.scales()[static_cast<size_t>(i * s_.n + n)] : 0.0f;
        scales[i * padded + n] = scale;
        int64_t sum = 0;
        for (int64_t k = i * block_; n < s_.n && k < i * block_ + depth(i); ++k)
          sum += values[static_cast<size_t>(n * s_.k + k)];
        zero += static_cast<double>(scale) * static_cast<double>(sum);
      }
      scales[blocks_ * padded + n] = static_cast<float>(zero);
    }
  }
  void prepare(const Tensor& a, int64_t r, const Rows& rows) const {
    int8_t* to = rows.values + r * lda_;
    if (hybrid_) {
      rows.grids[r] = quant_.quantize_row(a.data<float>() + r * s_.k, s_.k, attrs_.asymmetric_inputs, to);
    } else {
      std::copy_n(a.data<int8_t>() + r * s_.k, s_.k, to);
      rows.grids[r] = {a.quant()->scale(r), a.quant()->zero_point(r)};
    }
    std::fill(to + s_.k, to + lda_, int8_t{0});
    w4_sums_vnni(to, blocks_, block_, depth(blocks_ - 1), rows.sums + r * blocks_);
  }
  /// `count` panels from `panel` on, of all rows.
  void columns(const Rows& rows, const float* bias, int64_t panel, int64_t count, float* y) const {
    const int64_t padded = panels_ * W4Tile::kColumns, first = panel * W4Tile::kColumns;
    const auto* scales = reinterpret_cast<const float*>(packed_->data<char>() + panels_ * panel_bytes_) + first;
    const float* zeros = scales + blocks_ * padded;
    const Bounds bounds = activation_bounds(attrs_.act);
    alignas(64) float out[W4Tile::kMostRows][W4Tile::kMostPanels * W4Tile::kColumns];
    W4Tile t;
    t.lda = lda_;
    t.blocks = blocks_;
    t.steps = block_ / W4Tile::kStep;
    t.last_steps = (depth(blocks_ - 1) + W4Tile::kStep - 1) / W4Tile::kStep;
    t.panel = packed_->data<char>() + panel * panel_bytes_;
    t.panel_bytes = panel_bytes_;
    t.scales = scales;
    t.scales_step = padded;
    t.out = out[0];
    const int64_t n = std::min(s_.n - first, count * W4Tile::kColumns);
    for (int64_t r = 0; r < s_.m; r += W4Tile::kMostRows) {
      const int64_t here = std::min(W4Tile::kMostRows, s_.m - r);
      t.a = rows.values + r * lda_;
      t.sums = rows.sums + r * blocks_;
      w4_tile_vnni(here, count)(t);
      for (int64_t i = 0; i < here; ++i)
        w4_store_vnni(out[i], rows.grids[r + i].scale, static_cast<float>(rows.grids[r + i].zero_point), zeros,
                      bias ? bias + first : nullptr, bounds.lo, bounds.hi, n, y + (r + i) * s_.n + first);
    }
    activate_rows(attrs_.act, y + first, s_.m, n, s_.n);
  }

  MatMulShape s_;
  MatMulAttrs attrs_;
  bool hybrid_, has_bias_;
  const RowQuant& quant_;
  int64_t blocks_, block_, panels_ = 0, lda_ = 0, panel_bytes_ = 0;
  Packed packed_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_w4(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = rows_times_constant(spec);
  if (!s || s->m == 0 || s->n == 0 || spec.outputs[0].dtype != DType::kF32 || attrs.alpha != 1 || attrs.beta != 1 ||
      attrs.trans_batch_a || !float_bias(spec, *s) || bit_width(spec.inputs[1].dtype) != 4)
    return nullptr;
  const bool fits = attrs.hybrid ? spec.inputs[0].dtype == DType::kF32
                                 : carries_row_grids(spec, *s) && spec.inputs[0].dtype == DType::kI8;
  if (!fits) return nullptr;
  const auto w = IntegerWeights::make(*spec.constant(1), *s);
  if (!w || (w->blocks() > 1 && w->block() % W4Tile::kStep != 0) || !w->all_within(-8, 7)) return nullptr;
  return std::make_unique<MatMulW4>(*s, spec, *w);
}
#else
std::unique_ptr<Kernel> make_matmul_w4(const KernelSpec&) { return nullptr; }
#endif

}  // namespace smelt
