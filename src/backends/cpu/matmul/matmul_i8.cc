#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/gemm/constant_parts.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/matmul/matrix_key.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Rows of 8-bit integers times integer weights; the result is rescaled to integers, or to real numbers by a scale a
/// row.
class MatMulI8 final : public Kernel, public TakesWeights {
 public:
  enum class Rows : uint8_t {
    kPerTensorParams,  ///< a has one scale; the output is 8-bit
    kDynamic,          ///< a carries a scale and zero point a row
    kOperands,         ///< inputs 3 and 4 are scales and zero points of a, one for all or one a row
    kDynamicQuant,     ///< a is float32, quantized at run time
    kBlocks,           ///< a is float32, blocks of its rows are quantized at run time
    kOne,              ///< as kPerTensorParams, one row: products with other zero points and biases share the weights
  };
  MatMulI8(const MatMulShape& s, Rows rows, const KernelSpec& spec, const QuantizedWeights& weights,
           std::optional<RequantizeParams> requantize_params)
      : s_(s),
        rows_(rows),
        attrs_(spec.attrs<MatMulAttrs>()),
        gemm_(gemm_i8(spec.isa, weights.all_within(-128, 127))),
        quant_(dynamic_quant_ops(spec.isa)),
        requantize_params_(std::move(requantize_params)),
        rescale_(requantize_params_ ? requantize_accumulators(spec.isa, *requantize_params_) : nullptr),
        threads_(std::max(spec.threads, 1)),
        blocks_(weights.blocks()),
        block_(weights.block()),
        fixed_shapes_(spec.fixed_shapes) {
    x_signed_ = real_rows() || spec.inputs[0].dtype == DType::kI8;
    if (requantize_params_) x_zero_ = spec.inputs[0].quant->zero_point();
    if (rows == Rows::kOne) requantize_params_->bias.resize(static_cast<size_t>(round_up(s.n, gemm_.lanes)));
    depth_steps_ = 0;
    for (int64_t i = 0; i < blocks_; ++i) depth_steps_ += gemm_.a_row_bytes(depth(i));
    const bool collides = pays_to_space(depth_steps_, s.m, gemm_.panels(s.n));
    lda_ = collides ? apart<uint8_t>(depth_steps_) : depth_steps_;
    scales_at_ = padded_bytes(panels_bytes());
    column_sums_offset_ = scales_at_ + padded_bytes(blocks_ * s.n * 4);
    takes_weights_ = this;
    take_weights(spec, [&] { return pack(weights); });
    has_bias_ = !requantize_params_ && spec.has(2);
    flipped_ = gemm_.flips_in_copy(x_signed_, s.m, s.n, s.k);
    const bool as_they_lie = gemm_.bytes && !flipped_ && s.k % 4 == 0 && !collides;
    direct_ = requantize_params_ && as_they_lie;
    reads_in_place_ = as_they_lie && (rows == Rows::kOperands || (rows == Rows::kDynamic && blocks_ == 1));
    a_bytes_ = direct_ || reads_in_place_ ? 0 : padded_bytes(s.m * lda_);
    in_place_ = rows == Rows::kDynamicQuant && gemm_.bytes && blocks_ == 1;
    quantized_bytes_ = real_rows() && !in_place_ ? padded_bytes(threads_ * workspace_bytes()) : 0;
    per_token_params_ = rows == Rows::kBlocks ? blocks_ : 1;
  }
  size_t scratch_bytes() const override {
    if (direct_) return 0;
    return static_cast<size_t>(a_bytes_ + quantized_bytes_ + padded_bytes(s_.m * per_token_params_ * params_bytes()));
  }
  [[gnu::cold]] void take_weights(const KernelSpec& spec) override {
    take_weights(spec, [&] { return pack(*QuantizedWeights::make(*spec.constant(1), s_)); });
  }
  /// Single rows: as matmul_f32.
  bool take_epilogue(const EpilogueF32& epilogue) override {
    return !requantize_params_ && (s_.m != 1 || fixed_shapes_) && clamps(attrs_.act) && epilogue_.take(epilogue);
  }
  Status run(KernelContext& ctx) const override {
    if (direct_) {
      products(ctx, ctx.input(0).data<uint8_t>(), nullptr);
      return Ok();
    }
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the rows of a matrix product");
    auto* params = reinterpret_cast<QuantParams*>(scratch + a_bytes_ + quantized_bytes_);
    const Tensor& a = ctx.input(0);
    if (rows_ == Rows::kDynamic) {
      SMELT_TRY(check_per_token_params(a, s_.m));
      for (int64_t r = 0; r < s_.m; ++r) params[r] = {a.quant()->scale(r), a.quant()->zero_point(r)};
    }
    if (rows_ == Rows::kOperands) SMELT_TRY(read_params(ctx, params));
    if (reads_in_place_) {
      for (int64_t r = 0; r < s_.m; ++r)
        params[r].zero_point = GemmI8::int8_zero_point(x_signed_, params[r].zero_point);
      products(ctx, a.data<uint8_t>(), params);
      return Ok();
    }
    const int64_t parts = std::min(threads_, s_.m);
    ctx.threads().parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t first = s_.m * part / parts, last = s_.m * (part + 1) / parts;
        if (in_place_) {
          quantize_rows(a, first, last, scratch, params);
          continue;
        }
        for (int64_t r = first; r < last; ++r)
          prepare(a, r, scratch + a_bytes_ + part * workspace_bytes(), params + r, scratch + r * lda_);
      }
    });
    products(ctx, scratch, params);
    return Ok();
  }

 private:
  struct MatMulI8Key {
    MatrixKey matrix;
    const GemmI8* gemm;
    int64_t blocks;
    Rows rows;
    int32_t x_zero;
    bool x_signed;
    auto operator<=>(const MatMulI8Key&) const = default;
  };
  template <class Pack>
  [[gnu::cold]] void take_weights(const KernelSpec& spec, const Pack& pack_weights) {
    const bool alone = rows_ == Rows::kPerTensorParams;
    const Tensor* const c = alone ? spec.constant(2) : nullptr;
    const int32_t x_zero = alone ? x_zero_ : 0;
    const MatMulI8Key key{{s_, *spec.constant(1), c}, &gemm_, blocks_, rows_, x_zero, x_signed_};
    packed_ = spec.packs.get(
        key,
        [&] {
          Packed packed = pack_weights();
          release_pages(*spec.constant(1));
          return packed;
        },
        [&] {
          return spec.contents("matmul_i8", key.matrix.numbers(),
                               {blocks_, static_cast<int64_t>(rows_), x_zero, x_signed_, gemm_.bytes, gemm_.group_bytes,
                                gemm_.addend_rows, key.matrix.c != nullptr});
        });
    if (rows_ == Rows::kOne && gemm_.bytes && packed_->bytes() > 0 && !std::exchange(bias_has_zero_, true))
      take_zero_off_bias();
  }
  void take_zero_off_bias() {
    const auto* sums = reinterpret_cast<const uint32_t*>(packed_->data<char>() + column_sums_offset_);
    const auto zero = static_cast<uint32_t>(GemmI8::int8_zero_point(x_signed_, x_zero_));
    int32_t* const bias = requantize_params_->bias.data();
    for (int64_t j = 0; j < s_.n; ++j) bias[j] = static_cast<int32_t>(static_cast<uint32_t>(bias[j]) - zero * sums[j]);
  }
  /// Scales and zero points of the rows from inputs 3 and 4.
  Status read_params(KernelContext& ctx, QuantParams* params) const {
    const Tensor &scale = ctx.input(3), &zero = ctx.input(4);
    const int64_t given = scale.elements();
    if ((given != s_.m && given != 1) || zero.elements() != given)
      return InvalidInput(given, " scales and ", zero.elements(), " zero points for ", s_.m, " rows");
    for (int64_t r = 0; r < s_.m; ++r) {
      const int64_t i = given == 1 ? 0 : r;
      params[r] = {scale.data<float>()[i], static_cast<int32_t>(get_int(zero, i))};
    }
    return Ok();
  }
  bool real_rows() const { return rows_ == Rows::kDynamicQuant || rows_ == Rows::kBlocks; }
  static int64_t params_bytes() { return static_cast<int64_t>(sizeof(QuantParams)); }
  /// Of a thread: scales and accumulators of blocks, a row as it is quantized.
  int64_t workspace_bytes() const { return (rows_ == Rows::kBlocks ? blocks_ * 8 : 0) + (s_.k + 3) / 4 * 4; }
  void products(KernelContext& ctx, const uint8_t* a, const QuantParams* params) const {
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    Tensor& y = ctx.output(0);
    const EpilogueRun epilogue(epilogue_, ctx);
    if (threads_ == 1)  // without the divisions that shares take
      return multiply(a, params, bias, epilogue, y, 0, s_.m, 0, gemm_.panels(s_.n));
    ctx.threads().parallel_for(threads_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk)
        split_product(s_.m, gemm_.mr, gemm_.panels(s_.n), chunk, threads_,
                      [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) {
                        multiply(a, params, bias, epilogue, y, r0, r1, p0, p1);
                      });
    });
  }
  int64_t depth(int64_t i) const { return std::min(block_, s_.k - i * block_); }
  int64_t panels_bytes() const {
    int64_t bytes = 0;
    for (int64_t i = 0; i < blocks_; ++i) bytes += padded_bytes(gemm_.packed_bytes(depth(i), s_.n));
    return bytes;
  }
  /// Adds the sum of each column, uint8 counted from 128.
  void add_column_sums(const BytesOfB& b, uint32_t* sums) const {
    const uint32_t less = b.is_signed ? 0 : 128;
    if (b.row_stride == 1) {
      for (int64_t j = 0; j < b.n; ++j) {
        const int32_t sum = gemm_.sum_bytes(b.data + j * b.column_stride, b.k, b.is_signed);
        sums[j] += static_cast<uint32_t>(sum) - less * static_cast<uint32_t>(b.k);
      }
      return;
    }
    for (int64_t i = 0; i < b.k; ++i)
      for (int64_t j = 0; j < b.n; ++j) {
        const uint8_t byte = b.data[i * b.row_stride + j];
        sums[j] += static_cast<uint32_t>(b.is_signed ? static_cast<int8_t>(byte) : byte) - less;
      }
  }
  Packed pack(const QuantizedWeights& w) const {
    auto packed =
        std::make_shared<AlignedBuffer>(static_cast<size_t>(column_sums_offset_ + padded_bytes(blocks_ * s_.n * 4)));
    char* to = packed->data<char>();
    auto* scales = reinterpret_cast<float*>(packed->data<char>() + scales_at_);
    auto* acc = reinterpret_cast<uint32_t*>(packed->data<char>() + column_sums_offset_);
    std::copy(w.scales().begin(), w.scales().end(), scales);
    const bool constant_zero = rows_ == Rows::kPerTensorParams || rows_ == Rows::kBlocks;  // then panels take it off
    const int32_t zero = constant_zero ? GemmI8::int8_zero_point(x_signed_, x_zero_) : 0;
    const bool needs_sums = rows_ != Rows::kPerTensorParams && rows_ != Rows::kBlocks;
    const auto sum = [](const auto* values, int64_t n) {
      uint32_t total = 0;
      for (int64_t j = 0; j < n; ++j) total += static_cast<uint32_t>(static_cast<int32_t>(values[j]));
      return total;
    };
    const int32_t* bias = rows_ == Rows::kPerTensorParams ? requantize_params_->bias.data() : nullptr;
    if (const auto bytes = gemm_.pack_bytes ? w.bytes() : std::nullopt) {
      for_each_part(gemm_, *bytes, [&](const BytesOfB& part, int64_t first) {
        if (needs_sums) add_column_sums(part, acc + first);
        gemm_.pack_bytes(gemm_, part, bias ? bias + first : nullptr, zero,
                         to + gemm_.panel_offset(part.k, first / gemm_.nr()));
      });
      return packed;
    }
    if (const int8_t* unquantized = w.unquantized()) {
      for (int64_t n = 0; n < s_.n && needs_sums; ++n) acc[n] = sum(unquantized + n * s_.k, s_.k);
      gemm_.pack(unquantized, s_.k, s_.n, bias, zero, to);
      return packed;
    }
    const std::vector<int16_t> values = w.values();
    std::vector<int16_t> part;
    for (int64_t i = 0; i < blocks_; ++i) {
      const int64_t k = depth(i);
      if (blocks_ > 1) part.resize(static_cast<size_t>(s_.n * k));
      for (int64_t n = 0; n < s_.n; ++n) {
        const int16_t* from = values.data() + n * s_.k + i * block_;
        if (blocks_ > 1) std::copy_n(from, k, part.data() + n * k);
        acc[i * s_.n + n] = sum(from, k);
      }
      gemm_.pack(blocks_ > 1 ? part.data() : values.data(), k, s_.n, bias, zero, to);
      to += padded_bytes(gemm_.packed_bytes(k, s_.n));
    }
    return packed;
  }
  /// Rows [first, last) of float32 in the form of the tiles.
  void quantize_rows(const Tensor& a, int64_t first, int64_t last, uint8_t* to, QuantParams* params) const {
    quant_.quantize_rows(a.data<float>() + first * s_.k, last - first, s_.k, attrs_.asymmetric_inputs,
                         reinterpret_cast<int8_t*>(to + first * lda_), lda_, params + first);
    if (flipped_) gemm_.flip(to + first * lda_, (last - first) * lda_, to + first * lda_);
    for (int64_t r = first; r < last; ++r) params[r].zero_point = GemmI8::int8_zero_point(true, params[r].zero_point);
  }
  /// Brings row r of a into the form of the tiles, block by block, and fills its params, which lie s_.m apart where
  /// they are one a block; their zero points are what is left to subtract.
  void prepare(const Tensor& a, int64_t r, uint8_t* workspace, QuantParams* params, uint8_t* to) const {
    const uint8_t* from;
    int32_t zero = x_zero_;
    QuantParams& row = params[0];
    if (rows_ == Rows::kDynamicQuant) {
      row = quant_.quantize_row(a.data<float>() + r * s_.k, s_.k, attrs_.asymmetric_inputs,
                                reinterpret_cast<int8_t*>(workspace));
      from = workspace;
      zero = row.zero_point;
    } else if (rows_ == Rows::kBlocks) {
      auto* scales = reinterpret_cast<float*>(workspace);
      from = workspace + blocks_ * 8;
      quant_.quantize_blocks(a.data<float>() + r * s_.k, s_.k, block_,
                             reinterpret_cast<int8_t*>(workspace + blocks_ * 8), scales,
                             reinterpret_cast<int32_t*>(scales + blocks_));
      for (int64_t i = 0; i < blocks_; ++i) params[i * s_.m] = {scales[i], 0};
    } else {
      from = a.data<uint8_t>() + r * s_.k;
      if (!requantize_params_) zero = row.zero_point;
    }
    for (int64_t i = 0; i < blocks_; ++i) {
      gemm_.convert(from + i * block_, s_.k, 1, depth(i), x_signed_, zero, to, lda_, flipped_);
      to += gemm_.a_row_bytes(depth(i));
    }
    if (rows_ != Rows::kBlocks) row.zero_point = gemm_.bytes ? GemmI8::int8_zero_point(x_signed_, zero) : 0;
  }
  void multiply(const uint8_t* a, const QuantParams* params, const float* bias, const EpilogueRun& epilogue, Tensor& y,
                int64_t r0, int64_t r1, int64_t p0, int64_t p1) const {
    const char* panels = packed_->data<char>();
    const Bounds bounds = activation_bounds(attrs_.act);
    AccumulatorScales by{.column_sums = reinterpret_cast<const int32_t*>(packed_->data<char>() + column_sums_offset_),
                         .scales = reinterpret_cast<const float*>(packed_->data<char>() + scales_at_),
                         .bias = bias,
                         .lo = bounds.lo,
                         .hi = bounds.hi};
    if (rows_ == Rows::kBlocks) by.column_sums = nullptr;
    const uint8_t* rows = a + r0 * lda_;
    for (int64_t i = 0; i < blocks_; ++i) {
      by.first = i == 0;
      by.last = i == blocks_ - 1;
      gemm_.run_inlined(r1 - r0, s_.n, depth(i), rows, lda_, x_signed_ && !flipped_, panels, p0, p1,
                        [&](int32_t* acc, int64_t row, int64_t count, int64_t column, int64_t n) {
                          if (rows_ == Rows::kOne) gemm_.add(requantize_params_->bias.data() + column, n, acc);
                          if (requantize_params_) {
                            rescale_(*requantize_params_, acc, gemm_.nr(), count, n, column,
                                     y.data<uint8_t>() + (r0 + row) * s_.n + column, s_.n);
                            return;
                          }
                          float* const to = y.data<float>() + (r0 + row) * s_.n + column;
                          quant_.rescale(by.columns(column), acc, gemm_.nr(), count, params + r0 + row, 1, n, to, s_.n);
                          if (!epilogue || !by.last) return;
                          epilogue(to, count, n, s_.n);
                          epilogue.prefetch(to + count * s_.n, count, s_.n);
                        });
      if (by.last) break;
      rows += gemm_.a_row_bytes(depth(i));
      panels += padded_bytes(gemm_.packed_bytes(depth(i), s_.n));
      if (by.column_sums) by.column_sums += s_.n;
      by.scales += s_.n;
      if (rows_ == Rows::kBlocks) params += s_.m;
    }
    if (!requantize_params_) {
      const int64_t column = p0 * gemm_.nr(), n = std::min(s_.n, p1 * gemm_.nr()) - column;
      apply_activation(attrs_.act, y.data<float>() + r0 * s_.n + column, r1 - r0, n, s_.n);
    }
  }

  MatMulShape s_;
  Rows rows_;
  MatMulAttrs attrs_;
  EpilogueF32 epilogue_;
  const GemmI8& gemm_;
  const DynamicQuantOps& quant_;
  std::optional<RequantizeParams> requantize_params_;
  RequantizeAccumulators rescale_;
  int64_t threads_, blocks_, block_, depth_steps_ = 0, lda_ = 0, scales_at_ = 0, column_sums_offset_ = 0;
  int64_t a_bytes_ = 0, quantized_bytes_ = 0, per_token_params_ = 1;
  bool fixed_shapes_;
  bool x_signed_ = true, has_bias_ = false, direct_ = false;
  bool flipped_ = false;         ///< rows of the tiles have their sign bits flipped
  bool in_place_ = false;        ///< float32 rows become rows of the tiles at once
  bool reads_in_place_ = false;  ///< the rows of a are rows of the tiles
  bool bias_has_zero_ = false;   ///< kOne: the bias takes the zero point of a off as well
  int32_t x_zero_ = 0;
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_by_constant(spec);
  if (!s || spec.inputs[1].shape.rank() != 2 || (spec.has(2) && !s->is_row(spec.inputs[2].shape))) return nullptr;
  const int axis = attrs.transpose_b ? 0 : 1;
  if (!QuantizedPair::make(spec.inputs[0], spec.inputs[1], axis, s->n)) return nullptr;
  auto requantize_params = smelt::requantize_params(spec, s->n, attrs.rescale_rule());
  if (!requantize_params) return nullptr;
  const auto weights = QuantizedWeights::make(*spec.constant(1), *s);
  if (!weights || weights->blocks() != 1) return nullptr;
  const auto rows = s->m == 1 ? MatMulI8::Rows::kOne : MatMulI8::Rows::kPerTensorParams;
  return std::make_unique<MatMulI8>(*s, rows, spec, *weights, std::move(requantize_params));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_qd8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_by_constant(spec);
  if (!s || attrs.alpha != 1 || attrs.beta != 1 || !float_bias(spec, *s)) return nullptr;
  if (!has_per_token_params(spec, *s)) return nullptr;
  const auto weights = QuantizedWeights::make(*spec.constant(1), *s);
  if (!weights) return nullptr;
  return std::make_unique<MatMulI8>(*s, MatMulI8::Rows::kDynamic, spec, *weights, std::nullopt);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_i8_per_token(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (!spec.has(3) || !spec.has(4)) return spec.refuse("no operands for the scales and zero points of rows");
  const auto s = matmul_by_constant(spec);
  if (!s || attrs.alpha != 1 || attrs.beta != 1 || !float_bias(spec, *s)) return nullptr;
  const int64_t given = spec.inputs[3].shape.elements();
  if ((given != 1 && given != s->m) || spec.inputs[4].shape.elements() != given || !is_8bit(spec.inputs[4].dtype))
    return spec.refuse("scales and zero points are neither one for all nor one a row");
  const auto weights = QuantizedWeights::make(*spec.constant(1), *s);
  if (!weights || weights->blocks() != 1) return spec.refuse("scales of the weights change within a column");
  return std::make_unique<MatMulI8>(*s, MatMulI8::Rows::kOperands, spec, *weights, std::nullopt);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_dynamic_quant(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (!attrs.dynamic_quant && attrs.row_block <= 0)
    return spec.refuse("the node does not ask for dynamic quantization");
  const auto s = matmul_by_constant(spec);
  if (!s || attrs.alpha != 1 || attrs.beta != 1 || !float_bias(spec, *s) || attrs.trans_batch_a) return nullptr;
  const auto weights = QuantizedWeights::make(*spec.constant(1), *s);
  if (!weights || (!attrs.dynamic_quant && attrs.row_block != weights->block())) return nullptr;
  return std::make_unique<MatMulI8>(*s, attrs.dynamic_quant ? MatMulI8::Rows::kDynamicQuant : MatMulI8::Rows::kBlocks,
                                    spec, *weights, std::nullopt);
}

}  // namespace smelt
