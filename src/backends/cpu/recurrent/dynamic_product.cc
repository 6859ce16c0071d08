#include "backends/cpu/recurrent/dynamic_product.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace smelt {

struct DynamicProduct::Key {
  const void *weights, *biases, *quant;
  int64_t depth, count, units, directions;
  const GemmI8* gemm;
  auto operator<=>(const Key&) const = default;
};

struct DynamicProduct::Row {
  QuantParams params;  ///< what is left to subtract, in place of the zero point
  float sum;           ///< of the row as its bytes have it, over the scale of a column
};

namespace {
/// Bytes that weights of uint8 are packed as count from here.
int32_t middle(DType dtype) { return dtype == DType::kU8 ? 128 : 0; }
}  // namespace

DynamicProduct::DynamicProduct(const KernelSpec& spec, int operand, int biases, const GateColumns& gates, int64_t depth)
    : gates_(gates),
      depth_(depth),
      gemm_(gemm_i8(spec.isa, true)),
      quant_(dynamic_quant_ops(spec.isa)),
      has_bias_(biases >= 0 && spec.has(biases)) {
  const Tensor& weights = *spec.constant(static_cast<size_t>(operand));
  const Tensor* bias = has_bias_ ? spec.constant(static_cast<size_t>(biases)) : nullptr;
  const Quantization& q = *spec.inputs[static_cast<size_t>(operand)].quant;
  for (int64_t i = 0; i < gates.directions * gates.rows(); ++i)
    has_zeros_ = has_zeros_ || q.zero_point(i) != middle(weights.dtype());
  const int64_t numbers = padded_bytes(gates.columns() * 4);
  scales_at_ = padded_bytes(gemm_.packed_bytes(depth, gates.columns()));
  sums_at_ = scales_at_ + numbers;
  biases_at_ = sums_at_ + numbers;
  zeros_at_ = biases_at_ + (has_bias_ ? numbers : 0);
  direction_bytes_ = zeros_at_ + (has_zeros_ ? numbers : 0);
  const Key key{weights.identity(),
                bias ? bias->identity() : nullptr,
                &q,
                depth,
                gates.count,
                gates.units,
                gates.directions,
                &gemm_};
  packed_ = spec.packs.get(key, [&] { return pack(weights, bias); });
}

Packed DynamicProduct::pack(const Tensor& weights, const Tensor* biases) const {
  auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(direction_bytes_ * gates_.directions));
  const Tensor source = weights.read_once();
  const Quantization& q = *weights.quant();
  const int32_t less = middle(weights.dtype());
  std::vector<int8_t> matrix(static_cast<size_t>(gates_.columns() * depth_), 0);
  for (int64_t d = 0; d < gates_.directions; ++d) {
    char* const to = packed->data<char>() + d * direction_bytes_;
    const auto numbers = [&](int64_t at) { return reinterpret_cast<float*>(to + at); };
    auto* const sums = reinterpret_cast<int32_t*>(to + sums_at_);
    for (int64_t i = 0; i < gates_.rows(); ++i) {
      const int64_t row = d * gates_.rows() + i, column = i / gates_.units * gates_.stride + i % gates_.units;
      const auto* from = static_cast<const uint8_t*>(source.raw()) + row * depth_;
      int8_t* const bytes = matrix.data() + column * depth_;
      for (int64_t k = 0; k < depth_; ++k) bytes[k] = static_cast<int8_t>(from[k] ^ less);  // u8 less 128
      sums[column] = gemm_.sum_bytes(reinterpret_cast<const uint8_t*>(bytes), depth_, true);
      numbers(scales_at_)[column] = q.scale(row);
      if (has_zeros_) numbers(zeros_at_)[column] = static_cast<float>(q.zero_point(row) - less) * q.scale(row);
      if (!has_bias_) continue;
      const float* b = biases->data<float>() + 2 * d * gates_.rows();
      numbers(biases_at_)[column] = b[i] + b[gates_.rows() + i];
    }
    gemm_.pack(matrix.data(), depth_, gates_.columns(), nullptr, 0, to);
  }
  return packed;
}

int64_t DynamicProduct::packed_at(int64_t rows) { return padded_bytes(rows * static_cast<int64_t>(sizeof(Row))); }

int64_t DynamicProduct::workspace_bytes(int64_t rows) const {
  return packed_at(rows) + padded_bytes(rows * lda()) + padded_bytes(depth_);
}

void DynamicProduct::quantize(const float* x, int64_t ldx, int64_t rows, char* workspace) const {
  auto* const row = reinterpret_cast<Row*>(workspace);
  char* const a = workspace + packed_at(rows);
  auto* const bytes = reinterpret_cast<uint8_t*>(a + padded_bytes(rows * lda()));
  float low = 0, high = 0;
  quant_.range(x, (rows - 1) * ldx + depth_, &low, &high);
  const auto [scale, zero] = choose_byte_quant_params(std::min(low, 0.0f), std::max(high, 0.0f));
  const QuantRule rule{.scale = scale, .zero = static_cast<int32_t>(zero), .low = 0, .high = 255, .is_signed = false};
  for (int64_t r = 0; r < rows; ++r) {
    quant_.quantize(x + r * ldx, depth_, rule, bytes);
    gemm_.convert(bytes, depth_, 1, depth_, false, rule.zero, a + r * lda(), lda());
    const auto total = static_cast<int64_t>(gemm_.sum_bytes(bytes, depth_, false));
    row[r].params = {rule.scale, gemm_.bytes ? rule.zero : 0};
    row[r].sum = static_cast<float>(total - depth_ * rule.zero) * rule.scale;
  }
}

void DynamicProduct::multiply(int64_t d, int64_t rows, const char* workspace, int64_t begin, int64_t end,
                              float* y) const {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto* const row = reinterpret_cast<const Row*>(workspace);
  const char* const a = workspace + packed_at(rows);
  const char* const packed = direction(d);
  const auto numbers = [&](int64_t at) { return reinterpret_cast<const float*>(packed + at); };
  const AccumulatorScales by{.column_sums = reinterpret_cast<const int32_t*>(packed + sums_at_),
                             .scales = numbers(scales_at_),
                             .bias = has_bias_ ? numbers(biases_at_) : nullptr,
                             .lo = -kInf,
                             .hi = kInf};
  const int64_t columns = gates_.columns();
  gemm_.run(rows, columns, depth_, a, lda(), false, packed, begin, end,
            [&](const int32_t* acc, int64_t first, int64_t count, int64_t column, int64_t n) {
              float* to = y + first * columns + column;
              quant_.rescale(by.columns(column), acc, gemm_.nr(), count, &row[first].params, 0, n, to, columns);
              if (!has_zeros_) return;
              const float* zeros = numbers(zeros_at_) + column;
              for (int64_t r = 0; r < count; ++r, to += columns)
                for (int64_t j = 0; j < n; ++j) to[j] -= row[first + r].sum * zeros[j];
            });
}

}  // namespace smelt
