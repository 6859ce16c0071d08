#include "backends/cpu/gemm/quantized_weights.h"

#include <algorithm>
#include <cstring>

#include "ops/common/quantized_pair.h"
#include "tensor/numeric.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

/// Element i of weights of 4 bits or fewer.
int32_t quantized_weight(const Tensor& b, int64_t i) {
  switch (b.dtype()) {
    case DType::kU4:
      return b.data<uint8_t>()[i / 2] >> (i % 2 * 4) & 15;
    case DType::kI4:
      return static_cast<int8_t>(b.data<uint8_t>()[i / 2] >> (i % 2 * 4) << 4) >> 4;
    default:
      return static_cast<int32_t>(get_int(b, i));
  }
}

/// True if low <= v - zero <= high for all n 8-bit values.
[[gnu::noinline]] bool all_within(const uint8_t* values, int64_t n, bool is_signed, int32_t zero, int32_t low,
                                  int32_t high) {
  const int32_t least = is_signed ? -128 : 0;
  const int32_t first = std::max(least, low + zero), last = std::min(least + 255, high + zero);
  if (first > last) return n == 0;
  const auto start = static_cast<uint8_t>(first), span = static_cast<uint8_t>(last - first);
  constexpr int64_t kTogether = 512;
  int64_t i = 0;
  for (; i + kTogether <= n; i += kTogether) {
    uint8_t outside = 0;
    for (int64_t j = 0; j < kTogether; ++j) outside |= static_cast<uint8_t>(values[i + j] - start) > span;
    if (outside) return false;
  }
  for (; i < n; ++i)
    if (static_cast<uint8_t>(values[i] - start) > span) return false;
  return true;
}

}  // namespace

bool always_int8(bool is_signed, const std::vector<int32_t>& zeros) {
  return std::ranges::all_of(zeros, [&](int32_t z) { return z == (is_signed ? 0 : 128); });
}

bool fits_int8(const std::vector<int16_t>& values) {
  return std::ranges::all_of(values, [](int16_t v) { return v >= -128 && v <= 127; });
}

namespace {

/// ordered_filter() of weights of one type.
template <class Weight, class To>
void order_filter(const ConvShape& g, const Weight* weights, const std::vector<int32_t>& zeros, To* to) {
  for (int64_t o = 0; o < g.all_out(); ++o) {
    const int32_t zero = zeros[static_cast<size_t>(o)];
    for (int64_t t = 0; t < g.taps(); ++t) {
      const Weight* from = weights + o * g.filter_o + t * g.filter_s;
      for (int64_t i = 0; i < g.c_in; ++i) to[i] = static_cast<To>(from[i * g.filter_i] - zero);
      to += g.c_in;
    }
  }
}

template <class To>
std::vector<To> ordered_filter_of(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros) {
  std::vector<To> out(static_cast<size_t>(g.all_out() * g.k()));
  const auto values = elements_once(filter);
  if (filter.dtype() == DType::kI8)
    order_filter(g, static_cast<const int8_t*>(values.get()), zeros, out.data());
  else
    order_filter(g, static_cast<const uint8_t*>(values.get()), zeros, out.data());
  return out;
}

}  // namespace

std::vector<int16_t> ordered_filter(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros) {
  return ordered_filter_of<int16_t>(g, filter, zeros);
}

std::vector<int8_t> ordered_filter_int8(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros) {
  return ordered_filter_of<int8_t>(g, filter, zeros);
}

bool is_ordered_filter(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros) {
  return filter.dtype() == DType::kI8 && std::ranges::all_of(zeros, [](int32_t z) { return z == 0; }) &&
         g.filter_o == g.k() && (g.taps() == 1 || g.filter_s == g.c_in) && (g.c_in == 1 || g.filter_i == 1);
}

[[gnu::cold]] bool filter_fits_int8(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros) {
  const bool is_signed = filter.dtype() == DType::kI8;
  if (always_int8(is_signed, zeros)) return true;
  if (std::ranges::all_of(zeros, [&](int32_t z) { return z == zeros[0]; }))
    return all_within(static_cast<const uint8_t*>(elements_once(filter).get()), filter.elements(), is_signed, zeros[0],
                      -128, 127);
  return fits_int8(ordered_filter(g, filter, zeros));
}

[[gnu::cold]] std::optional<QuantizedWeights> QuantizedWeights::make(const Tensor& b, const MatMulShape& s) {
  if (!b.quant() || !is_integer(b.dtype()) || bit_width(b.dtype()) > 8 || b.rank() != 2) return std::nullopt;
  QuantizedWeights w;
  w.b_ = &b;
  w.n_ = s.n;
  w.k_ = s.k;
  w.row_stride_ = s.g.b.row_stride;
  w.column_stride_ = s.g.b.column_stride;
  w.block_ = std::max<int64_t>(s.k, 1);
  if (!w.read_quant_params(s)) return std::nullopt;
  return w;
}

[[gnu::cold]] bool QuantizedWeights::read_quant_params(const MatMulShape& s) {
  const Quantization& q = *b_->quant();
  const int k_axis = s.g.b.column_stride == 1 && s.g.b.row_stride != 1 ? 0 : 1;
  const int n_axis = 1 - k_axis;
  const size_t scales = q.scales.size(), zeros = q.zero_points.size();
  const bool per_block = q.kind == Quantization::Kind::kPerBlock;
  if (per_block) {
    if (q.axis != k_axis || q.block <= 0 || b_->dim(k_axis) != k_ || b_->dim(n_axis) != n_) return false;
    block_ = q.block;
    blocks_ = (k_ + q.block - 1) / q.block;
    if (scales != static_cast<size_t>(blocks_ * n_)) return false;
  } else if (q.kind == Quantization::Kind::kPerAxis) {
    if (scales != 1 && (q.axis != n_axis || scales != static_cast<size_t>(n_))) return false;
  } else if (q.kind != Quantization::Kind::kPerTensor || scales != 1) {
    return false;
  }
  if (zeros > 1 && zeros != scales) return false;
  if (std::ranges::any_of(q.zero_points, [](int32_t z) { return z < -255 || z > 255; })) return false;
  const bool shifted = std::ranges::any_of(q.zero_points, [](int32_t z) { return z != 0; });
  scales_.resize(static_cast<size_t>(blocks_ * n_));
  if (shifted) zeros_.resize(scales_.size());
  constexpr int64_t kTogether = 16;  // columns, whose scales lie apart
  for (int64_t first = 0; first < n_; first += kTogether)
    for (int64_t i = 0; i < blocks_; ++i)
      for (int64_t n = first; n < std::min(first + kTogether, n_); ++n) {
        const int64_t p = scales == 1 ? 0 : !per_block ? n : k_axis == 1 ? n * blocks_ + i : i * n_ + n;
        const auto to = static_cast<size_t>(i * n_ + n);
        scales_[to] = q.scale(p);
        if (shifted) zeros_[to] = static_cast<int16_t>(q.zero_point(zeros > 1 ? p : 0));
      }
  return true;
}

const int8_t* QuantizedWeights::unquantized() const {
  const bool is_unquantized =
      b_->dtype() == DType::kI8 && blocks_ == 1 && row_stride_ == 1 && column_stride_ == k_ && zeros_.empty();
  return is_unquantized && !b_->source() ? b_->data<int8_t>() : nullptr;
}

[[gnu::cold]] std::optional<BytesOfB> QuantizedWeights::bytes() const {
  const bool is_signed = b_->dtype() == DType::kI8;
  if (!is_8bit(b_->dtype()) || blocks_ != 1 || !all_zeros_are(is_signed ? 0 : 128) ||
      (row_stride_ != 1 && column_stride_ != 1))
    return std::nullopt;
  BytesOfB bytes{nullptr, row_stride_, column_stride_, k_, n_, is_signed, nullptr};
  if (b_->source())
    bytes.deferred = b_;
  else
    bytes.data = b_->data<uint8_t>();
  return bytes;
}

void QuantizedWeights::codes_4bit(int64_t n, uint32_t* to) const {
  const uint32_t flip = b_->dtype() == DType::kI4 ? 0x88888888 : 0;
  const int64_t begin = n * column_stride_;
  const int64_t whole = row_stride_ == 1 && begin % 2 == 0 ? k_ / 8 : 0;  // words that are codes as they lie
  if (whole > 0) std::memcpy(to, b_->data<uint8_t>() + begin / 2, static_cast<size_t>(whole) * 4);
  for (int64_t i = 0; i < whole; ++i) to[i] ^= flip;
  to += whole;
  for (int64_t k = whole * 8; k < k_; k += 8, ++to) {
    *to = 0;
    for (int64_t i = 0; i < std::min<int64_t>(8, k_ - k); ++i) {
      const int64_t at = begin + (k + i) * row_stride_;
      const uint32_t code = b_->data<uint8_t>()[at / 2] >> (at % 2 * 4) & 15;
      *to |= (code ^ (flip & 15)) << (4 * i);
    }
  }
}

template <class Weight>
void QuantizedWeights::read_values(const Weight& weight, int16_t* to) const {
  constexpr int64_t kTile = 64;  // a tile's lines stay in the first cache, whichever way the weights lie
  for (int64_t i = 0; i < blocks_; ++i) {
    const int64_t begin = i * block_, end = begin + depth(i);
    for (int64_t k0 = begin; k0 < end; k0 += kTile)
      for (int64_t n0 = 0; n0 < n_; n0 += kTile)
        for (int64_t n = n0; n < std::min(n0 + kTile, n_); ++n) {
          const int32_t minus = zero(i, n);
          for (int64_t k = k0; k < std::min(k0 + kTile, end); ++k)
            to[n * k_ + k] = static_cast<int16_t>(weight(k * row_stride_ + n * column_stride_) - minus);
        }
  }
}

std::vector<int16_t> QuantizedWeights::values() const {
  std::vector<int16_t> out(static_cast<size_t>(n_ * k_));
  const auto read = elements_once(*b_);
  const auto* bytes = static_cast<const uint8_t*>(read.get());
  if (b_->dtype() == DType::kI8)
    read_values([bytes](int64_t i) { return static_cast<int8_t>(bytes[i]); }, out.data());
  else if (b_->dtype() == DType::kU8)
    read_values([bytes](int64_t i) { return bytes[i]; }, out.data());
  else
    read_values([this](int64_t i) { return quantized_weight(*b_, i); }, out.data());
  return out;
}

bool QuantizedWeights::all_zeros_are(int32_t zero) const {
  return zeros_.empty() ? zero == 0 : std::ranges::all_of(zeros_, [&](int16_t z) { return z == zero; });
}

[[gnu::cold]] bool QuantizedWeights::all_within(int32_t low, int32_t high) const {
  const auto least = static_cast<int32_t>(int_min(b_->dtype())), most = static_cast<int32_t>(int_max(b_->dtype()));
  const auto always = [&](int32_t zero) { return least - zero >= low && most - zero <= high; };
  if (zeros_.empty() ? always(0) : std::ranges::all_of(zeros_, always)) return true;
  if (is_8bit(b_->dtype()) && all_zeros_are(zero(0, 0))) {
    const bool is_signed = b_->dtype() == DType::kI8;
    return smelt::all_within(static_cast<const uint8_t*>(elements_once(*b_).get()), b_->elements(), is_signed,
                             zero(0, 0), low, high);
  }
  const std::vector<int16_t> all = values();
  return std::ranges::all_of(all, [&](int16_t v) { return v >= low && v <= high; });
}

[[gnu::cold]] std::optional<MatMulShape> matmul_by_matrix(const KernelSpec& spec) {
  auto s = MatMulShape::make(spec);
  if (!s || s->batches != 1 || s->b_matrices != 1 || s->k == 0 || s->g.a.column_stride != 1 ||
      (s->m > 1 && s->g.a.row_stride != s->k))
    return std::nullopt;
  return s;
}

[[gnu::cold]] std::optional<MatMulShape> matmul_by_constant(const KernelSpec& spec) {
  return spec.constant(1) && spec.inputs[1].quant ? matmul_by_matrix(spec) : std::nullopt;
}

[[gnu::cold]] ConvShape pixels(const MatMulShape& s) {
  ConvShape g;
  g.in[2] = g.out[2] = s.m;
  g.c_in = s.k;
  g.c_out = s.n;
  g.channels_last = true;
  g.filter_o = s.g.b.column_stride;
  g.filter_i = s.g.b.row_stride;
  return g;
}

[[gnu::cold]] bool float_bias(const KernelSpec& spec, const MatMulShape& s) {
  return !spec.has(2) || (spec.inputs[2].dtype == DType::kF32 && s.is_row(spec.inputs[2].shape));
}

[[gnu::cold]] bool has_per_token_params(const KernelSpec& spec, const MatMulShape& s) {
  const ValueType& a = spec.inputs[0];
  if (!a.quant || a.quant->kind != Quantization::Kind::kPerToken || !is_8bit(a.dtype)) return false;
  int64_t row = 1;
  for (int i = std::max(0, a.shape.rank() - a.quant->axis); i < a.shape.rank(); ++i) row *= a.shape[i];
  return row == s.k;
}

Status check_per_token_params(const Tensor& a, int64_t rows) {
  if (!a.quant()) return Error(ErrorCode::kInternal, "a dynamic operand has no scales");
  const auto scales = static_cast<int64_t>(a.quant()->scales.size());
  if (scales != 1 && scales < rows)
    return Error(ErrorCode::kInvalidInput, "a dynamically quantized operand has too few scales");
  return Ok();
}

}  // namespace smelt
