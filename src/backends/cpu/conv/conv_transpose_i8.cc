#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "backends/cpu/conv/conv_transpose.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/line_buffer.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"

namespace smelt {
namespace {

struct ConvTransposeI8Key {
  FilterKey filter;
  const GemmI8* gemm;
  int32_t x_zero;
  bool x_signed, dynamic;
  auto operator<=>(const ConvTransposeI8Key&) const = default;
};

/// An image of a batch: its bytes, their quantization parameters and where its output goes.
struct ImageI8 {
  const uint8_t* x = nullptr;
  QuantParams params;
  void* y = nullptr;
  const float* bias = nullptr;  ///< of float32 outputs
};

/// Where the images come from and what becomes of accumulators. Either 8-bit images with constant parameters,
/// requantized to 8-bit outputs, or float32 images, each quantized at run time, rescaled to float32 outputs.
class TransposedEnds {
 public:
  TransposedEnds(const Spread& s, const QuantizedPair& q, std::optional<RequantizeParams> requantize_params,
                 const KernelSpec& spec)
      : s_(s),
        x_zero_(q.x_zero),
        x_signed_(q.x_signed),
        requantize_params_(std::move(requantize_params)),
        quant_(dynamic_quant_ops(spec.isa)),
        act_(spec.attrs<ConvTransposeAttrs>().act),
        asymmetric_(spec.attrs<ConvTransposeAttrs>().asymmetric_inputs),
        has_bias_(spec.has(2)) {
    if (requantize_params_) {
      rescale_ = requantize_accumulators(spec.isa, *requantize_params_);
      return;
    }
    const Quantization& scales = *spec.inputs[1].quant;
    for (int64_t o = 0; o < s.all_out(); ++o) scales_.push_back(scales.scale(scales.scales.size() == 1 ? 0 : o));
  }
  bool dynamic() const { return !requantize_params_; }
  bool x_signed() const { return x_signed_; }
  /// What the packed filters subtract from every element of x through their addends.
  int32_t constant_zero() const { return dynamic() ? 0 : GemmI8::int8_zero_point(x_signed_, x_zero_); }
  /// Addends of the accumulators; nullptr: none.
  const int32_t* bias() const { return dynamic() ? nullptr : requantize_params_->bias.data(); }
  FilterKey filter_key(const KernelSpec& spec) const {
    return {s_, *spec.constant(1), dynamic() ? nullptr : spec.constant(2)};
  }
  int64_t scratch_bytes() const { return dynamic() ? padded_bytes(s_.in_pixels() * s_.all_in()) : 0; }
  /// Image `index`, in `scratch` where it is quantized at run time.
  ImageI8 image(KernelContext& ctx, int64_t index, uint8_t* scratch) const {
    const int64_t in = s_.in_pixels() * s_.all_in(), out = s_.out_pixels() * s_.all_out();
    if (!dynamic())
      return {ctx.input(0).data<uint8_t>() + index * in, {1, x_zero_}, ctx.output(0).data<uint8_t>() + index * out};
    const QuantParams params = quant_.quantize_row(ctx.input(0).data<float>() + index * in, in, asymmetric_,
                                                   reinterpret_cast<int8_t*>(scratch));
    return {scratch, params, ctx.output(0).data<float>() + index * out,
            has_bias_ ? ctx.input(2).data<float>() : nullptr};
  }
  /// Rows of n accumulators, `stride` apart, to outputs from element `at` on, whose rows lie `step` apart. column_sums:
  /// sums of the filters of the n channels where `left` of image.params' zero point is to be subtracted.
  void finish(const ImageI8& image, const int32_t* acc, int64_t stride, int64_t rows, int64_t n, int64_t channel,
              int32_t left, const int32_t* column_sums, int64_t at, int64_t step) const {
    if (!dynamic())
      return rescale_(*requantize_params_, acc, stride, rows, n, channel, static_cast<uint8_t*>(image.y) + at, step);
    const Bounds bounds = activation_bounds(act_);
    const QuantParams params{image.params.scale, left};
    float* const y = static_cast<float*>(image.y) + at;
    quant_.rescale({.column_sums = left ? column_sums : nullptr,
                    .scales = scales_.data() + channel,
                    .bias = image.bias ? image.bias + channel : nullptr,
                    .lo = bounds.lo,
                    .hi = bounds.hi},
                   acc, stride, rows, &params, 0, n, y, step);
    apply_activation(act_, y, rows, n, step);
  }

 private:
  Spread s_;
  int32_t x_zero_;
  bool x_signed_;
  std::optional<RequantizeParams> requantize_params_;
  RequantizeAccumulators rescale_ = nullptr;
  const DynamicQuantOps& quant_;
  Activation act_;
  bool asymmetric_, has_bias_;
  std::vector<float> scales_;  ///< of the output channels, where outputs are float32
};

/// Packs n columns of k weights, which column(j, to) writes, a panel at a time: no copy of all stands beside the packed
/// form. W: int8_t where b fits (GemmI8::packs_int8()). sums: of the columns; nullptr: not asked for.
template <class W, class Column>
void pack_columns_as(const GemmI8& gemm, int64_t k, int64_t n, const int32_t* bias, int32_t a_zero, char* packed,
                     int32_t* sums, Column&& column) {
  std::vector<W> columns(static_cast<size_t>(std::min(n, gemm.nr()) * k));
  for (int64_t p = 0; p < gemm.panels(n); ++p) {
    const int64_t first = p * gemm.nr(), count = std::min(gemm.nr(), n - first);
    for (int64_t j = 0; j < count; ++j) {
      W* const to = columns.data() + j * k;
      column(first + j, to);
      if (sums) sums[first + j] = std::accumulate(to, to + k, int32_t{0});
    }
    gemm.pack(columns.data(), k, count, bias ? bias + first : nullptr, a_zero, packed + gemm.panel_offset(k, p));
  }
}
template <class Column>
void pack_columns(const GemmI8& gemm, int64_t k, int64_t n, const int32_t* bias, int32_t a_zero, char* packed,
                  int32_t* sums, Column&& column) {
  if (gemm.packs_int8())
    pack_columns_as<int8_t>(gemm, k, n, bias, a_zero, packed, sums, column);
  else
    pack_columns_as<int16_t>(gemm, k, n, bias, a_zero, packed, sums, column);
}

class ConvTransposeI8 final : public Kernel {
 public:
  ConvTransposeI8(const Spread& s, const QuantizedPair& q, TransposedEnds ends, const GemmI8& gemm,
                  const KernelSpec& spec)
      : s_(s), ends_(std::move(ends)), gemm_(&gemm) {
    group_bytes_ = padded_bytes(gemm_->packed_bytes(s.c_in, s.columns()));
    const ConvTransposeI8Key key{{s, *spec.constant(1), nullptr}, gemm_, q.x_zero, q.x_signed, ends_.dynamic()};
    packed_ = spec.packs.get(key, [&] {
      auto packed = std::make_shared<AlignedBuffer>(
          static_cast<size_t>(group_bytes_ * s.groups + padded_bytes(s.groups * s.columns() * 4)));
      auto* const sums = reinterpret_cast<int32_t*>(packed->data<char>() + group_bytes_ * s.groups);
      const TapWeights weights(s, q, *spec.constant(1));
      for (int64_t g = 0; g < s.groups; ++g)
        pack_columns(*gemm_, s.c_in, s.columns(), nullptr, ends_.constant_zero(),
                     packed->data<char>() + g * group_bytes_, ends_.dynamic() ? sums + g * s.columns() : nullptr,
                     [&](int64_t j, auto* to) { weights.copy(g, j % s.c_out, j / s.c_out, to); });
      release_pages(*spec.constant(1));
      return packed;
    });
    lda_ = gemm_->a_row_bytes(s.c_in);
    const int64_t rows = std::min(kSpreadRows, s.in_pixels());
    products_ = padded_bytes(rows * lda_);
    acc_ = products_ + padded_bytes(rows * s.columns() * 4 + 64);
    quantized_ = acc_ + padded_bytes(s_.out_pixels() * s_.all_out() * 4 + 64);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(quantized_ + ends_.scratch_bytes()); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a transposed convolution");
    auto* products = reinterpret_cast<uint32_t*>(scratch + products_);
    auto* acc = reinterpret_cast<uint32_t*>(scratch + acc_);
    const int64_t pixels = s_.out_pixels(), n = s_.all_out();
    const int32_t* bias = ends_.bias();
    for (int64_t index = 0; index < s_.batch; ++index) {
      const ImageI8 image = ends_.image(ctx, index, scratch + quantized_);
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t o = 0; o < n; ++o) acc[p * n + o] = bias ? static_cast<uint32_t>(bias[o]) : 0;
      for (int64_t g = 0; g < s_.groups; ++g)
        for (int64_t first = 0; first < s_.in_pixels(); first += kSpreadRows) {
          const int64_t rows = std::min(kSpreadRows, s_.in_pixels() - first);
          gemm_->convert(image.x + first * s_.all_in() + g * s_.c_in, s_.all_in(), rows, s_.c_in, ends_.x_signed(),
                         image.params.zero_point, scratch, lda_);
          multiply(scratch, rows, g, image.params.zero_point, products);
          s_.add(products, first, rows, acc + g * s_.c_out);
        }
      ends_.finish(image, reinterpret_cast<const int32_t*>(acc), n, pixels, n, 0, 0, nullptr, 0, n);
    }
    return Ok();
  }

 private:
  /// Products of `rows` rows with group g's filters; zero: of the image.
  void multiply(const uint8_t* a, int64_t rows, int64_t g, int32_t zero, uint32_t* products) const {
    const auto* sums = reinterpret_cast<const uint32_t*>(packed_->data<char>() + group_bytes_ * s_.groups);
    const auto left = static_cast<uint32_t>(ends_.dynamic() && gemm_->bytes ? GemmI8::int8_zero_point(true, zero) : 0);
    gemm_->run(rows, s_.columns(), s_.c_in, a, lda_, ends_.x_signed(), packed_->data<char>() + g * group_bytes_, 0,
               gemm_->panels(s_.columns()),
               [&](const int32_t* acc, int64_t row, int64_t n_rows, int64_t column, int64_t n) {
                 for (int64_t r = 0; r < n_rows; ++r)
                   for (int64_t j = 0; j < n; ++j)
                     products[(row + r) * s_.columns() + column + j] =
                         static_cast<uint32_t>(acc[r * gemm_->nr() + j]) - left * sums[g * s_.columns() + column + j];
               });
  }

  Spread s_;
  TransposedEnds ends_;
  const GemmI8* gemm_ = nullptr;
  int64_t group_bytes_ = 0, lda_ = 0, products_ = 0, acc_ = 0, quantized_ = 0;
  Packed packed_;
};

/// The outputs of one phase of the stride, as a convolution of stride 1 whose windows are read from padded rows: every
/// output is finished in registers. Byte form only, two spatial dimensions.
class ConvTransposeRows final : public Kernel {
 public:
  /// Not for short rows, nor for filters that do not stay in the nearest cache.
  static bool applies(const Spread& s, const GemmI8& gemm) {
    constexpr int64_t kShort = 4, kNearest = 32 * 1024;
    if (!gemm.bytes || s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1 || s.stride[0] != 1 || s.pad[0] != 0)
      return false;
    const int64_t phases = s.stride[1] * s.stride[2];
    return s.out[2] >= kShort * s.stride[2] && phases <= 64 &&
           taps_of_phase(s, 1) * taps_of_phase(s, 2) <= kMaxChunks &&
           s.taps() * gemm.a_row_bytes(s.c_in) * gemm.nr() / phases <= kNearest &&
           LineBuffer(window(s), false, nullptr).small();
  }
  ConvTransposeRows(const Spread& s, const QuantizedPair& q, TransposedEnds ends, const GemmI8& gemm,
                    const KernelSpec& spec)
      : s_(s),
        ends_(std::move(ends)),
        gemm_(gemm),
        flipped_(gemm.flips(q.x_signed, s.out_pixels())),
        rows_(window(s), false, nullptr),
        steps_(gemm.steps(s.c_in)),
        threads_(std::max(spec.threads, 1)) {
    int64_t bytes = 0;
    for (int64_t py = 0; py < s.stride[1]; ++py)
      for (int64_t px = 0; px < s.stride[2]; ++px) {
        Phase phase{taps_of(1, py), taps_of(2, px), bytes};
        bytes += padded_bytes(gemm.packed_bytes(phase.taps() * steps_ * 4, s.c_out)) * s.groups;
        phases_.push_back(std::move(phase));
      }
    sums_at_ = bytes;
    bytes += padded_bytes(static_cast<int64_t>(phases_.size()) * s.all_out() * 4);
    packed_ = spec.packs.get(PhasesKey{{ends_.filter_key(spec), &gemm, q.x_zero, q.x_signed, ends_.dynamic()},
                                       std::to_array(s.stride),
                                       std::to_array(s.pad),
                                       std::to_array(s.dilation)},
                             [&] {
                               Packed packed = pack({s, q, *spec.constant(1)}, bytes);
                               release_pages(*spec.constant(1));
                               return packed;
                             });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * stride() + ends_.scratch_bytes()); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a transposed convolution");
    for (int64_t index = 0; index < s_.batch; ++index) {
      const ImageI8 image = ends_.image(ctx, index, scratch + threads_ * stride());
      const uint8_t zero = GemmI8::zero_byte(image.params.zero_point, flipped_);
      ranges_in_slots(ctx.threads(), threads_, s_.out[1], [&](int64_t first, int64_t last, int64_t slot) {
        uint8_t* workspace = scratch + slot * stride();
        const uint8_t* const outside = rows_.begin(workspace, zero);
        for (int64_t oy = first; oy < last; ++oy) line(image, outside, oy, workspace);
      });
    }
    return Ok();
  }

 private:
  static constexpr int64_t kMaxChunks = 64;
  /// The most taps along dimension d that reach outputs of one phase.
  static int64_t taps_of_phase(const Spread& s, int d) {
    return ceil_div(s.kernel[d], s.stride[d] / std::gcd(s.stride[d], s.dilation[d]));
  }
  int64_t stride() const { return workspace_stride(rows_.workspace_bytes(), threads_); }
  struct PhasesKey {
    ConvTransposeI8Key filter;
    std::array<int64_t, 3> stride, pad, dilation;
    auto operator<=>(const PhasesKey&) const = default;
  };
  struct Tap {
    int64_t k, at;  ///< index in the filter; the input that it reads for the phase's first output
  };
  struct Phase {
    std::vector<Tap> y, x;
    int64_t packed = 0;  ///< where its filters are
    int64_t taps() const { return static_cast<int64_t>(y.size() * x.size()); }
  };
  static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
  /// What of the input the outputs read, as the windows of a convolution of stride 1.
  static ConvShape window(const Spread& s) {
    ConvShape g = s;
    for (int d = 1; d < 3; ++d) {
      const int64_t reach = (s.kernel[d] - 1) * s.dilation[d];
      const int64_t first = floor_div(s.pad[d] - reach, s.stride[d]);
      const int64_t last = floor_div(s.out[d] - 1 + s.pad[d], s.stride[d]);
      g.kernel[d] = d == 1 ? reach / s.stride[d] + 1 : 1;
      g.out[d] = last - first + 1;
      g.pad[d] = -first;
      g.stride[d] = g.dilation[d] = 1;
    }
    return g;
  }
  std::vector<Tap> taps_of(int d, int64_t phase) const {
    std::vector<Tap> taps;
    for (int64_t k = 0; k < s_.kernel[d]; ++k) {
      const int64_t at = phase + s_.pad[d] - k * s_.dilation[d];
      if (at == floor_div(at, s_.stride[d]) * s_.stride[d]) taps.push_back({k, floor_div(at, s_.stride[d])});
    }
    return taps;
  }
  Packed pack(const TapWeights& weights, int64_t bytes) const {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(bytes));
    auto* sums = reinterpret_cast<int32_t*>(packed->data<char>() + sums_at_);
    for (const Phase& phase : phases_) {
      const int64_t depth = phase.taps() * steps_ * 4, group_bytes = padded_bytes(gemm_.packed_bytes(depth, s_.c_out));
      for (int64_t g = 0; g < s_.groups; ++g, sums += s_.c_out)
        pack_columns(gemm_, depth, s_.c_out, ends_.bias() ? ends_.bias() + g * s_.c_out : nullptr,
                     ends_.constant_zero(), packed->data<char>() + phase.packed + g * group_bytes,
                     ends_.dynamic() ? sums : nullptr, [&](int64_t o, auto* to) {
                       for (const Tap& ty : phase.y)
                         for (const Tap& tx : phase.x) {
                           weights.copy(g, o, ty.k * s_.kernel[2] + tx.k, to);
                           to += steps_ * 4;
                         }
                     });
    }
    return packed;
  }
  void line(const ImageI8& image, const uint8_t* outside, int64_t oy, uint8_t* workspace) const {
    constexpr int64_t kAllPixels = std::numeric_limits<int64_t>::max();
    const auto load = [&](int64_t at, int64_t pixels, uint8_t* to) {
      gemm_.copy_bytes(image.x + at, pixels * s_.all_in(), flipped_, to);
    };
    const int64_t py = oy % s_.stride[1], my = oy / s_.stride[1], left = window_pad_;
    for (int64_t px = 0; px < std::min(s_.stride[2], s_.out[2]); ++px) {
      const int64_t index = py * s_.stride[2] + px;
      const Phase& phase = phases_[static_cast<size_t>(index)];
      const uint8_t* starts[kMaxChunks];
      int64_t n = 0;
      for (const Tap& ty : phase.y) {
        const uint8_t* row = rows_.row_from(load, outside, 0, ty.at + my, workspace, 0, kAllPixels);
        for (const Tap& tx : phase.x) starts[n++] = row + (tx.at + left) * s_.all_in();
      }
      const int64_t pixels = (s_.out[2] - px + s_.stride[2] - 1) / s_.stride[2];
      const int64_t first = (oy * s_.out[2] + px) * s_.all_out();
      for (int64_t g = 0; g < s_.groups; ++g) tiles(image, index, starts, n, g, pixels, first);
    }
  }
  /// The outputs of a phase in one row, `first` the first of the image's elements.
  void tiles(const ImageI8& image, int64_t index, const uint8_t* const* starts, int64_t n, int64_t group,
             int64_t pixels, int64_t first) const {
    const Phase& phase = phases_[static_cast<size_t>(index)];
    const auto* sums = reinterpret_cast<const int32_t*>(packed_->data<char>() + sums_at_) + index * s_.all_out();
    const int32_t left = ends_.dynamic() ? GemmI8::int8_zero_point(true, image.params.zero_point) : 0;
    const int64_t depth = phase.taps() * steps_ * 4, out_step = s_.stride[2] * s_.all_out();
    const char* packed =
        packed_->data<char>() + phase.packed + group * padded_bytes(gemm_.packed_bytes(depth, s_.c_out));
    const int64_t count = (pixels + gemm_.mr - 1) / gemm_.mr, height = (pixels + count - 1) / count;
    alignas(64) int32_t acc[GemmI8::kMaxTile];
    TileState state;
    for (int64_t p = 0; p < gemm_.panels(s_.c_out); ++p) {
      const auto& tile = gemm_.tiles_of(ends_.x_signed() && !flipped_, s_.c_out - p * gemm_.nr());
      const int64_t column = p * gemm_.nr(), channel = group * s_.c_out + column;
      for (int64_t at = 0; at < pixels; at += height) {
        const int64_t here = std::min(height, pixels - at);
        const void* chunks[kMaxChunks];
        for (int64_t i = 0; i < n; ++i) chunks[i] = starts[i] + at * s_.all_in() + group * s_.c_in;
        tile[here - 1](chunks, n, s_.all_in(), packed + gemm_.panel_offset(depth, p), steps_, acc, nullptr, state);
        ends_.finish(image, acc, gemm_.nr(), here, std::min(gemm_.nr(), s_.c_out - column), channel, left,
                     sums + channel, first + at * out_step + channel, out_step);
      }
    }
  }

  Spread s_;
  TransposedEnds ends_;
  const GemmI8& gemm_;
  bool flipped_;  ///< rows have their sign bits flipped
  LineBuffer rows_;
  int64_t steps_, threads_, sums_at_ = 0, window_pad_ = window(s_).pad[2];
  std::vector<Phase> phases_;
  Packed packed_;
};

std::unique_ptr<Kernel> make_integer_transposed(const KernelSpec& spec, const Spread& s, const QuantizedPair& q,
                                                std::optional<RequantizeParams> requantize_params) {
  TransposedEnds ends(s, q, std::move(requantize_params), spec);
  const GemmI8& gemm =
      gemm_i8(spec.isa, always_int8(q.w_signed, q.w_zeros) || fits_int8(filter_by_taps(s, q, *spec.constant(1))));
  if (ConvTransposeRows::applies(s, gemm))
    return std::make_unique<ConvTransposeRows>(s, q, std::move(ends), gemm, spec);
  return std::make_unique<ConvTransposeI8>(s, q, std::move(ends), gemm, spec);
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_transpose_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const auto s = Spread::make(spec);
  if (!s) return nullptr;
  const int axis = filter_output_axis(attrs, spec.inputs[1].shape.rank());
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1], axis, s->all_out());
  if (!q) return nullptr;
  auto requantize_params = smelt::requantize_params(spec, s->all_out(), attrs.rescale_rule());
  if (!requantize_params) return nullptr;
  return make_integer_transposed(spec, *s, *q, std::move(requantize_params));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_transpose_dynamic_quant(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  if (!attrs.dynamic_quant) return spec.refuse("the node does not ask for dynamic quantization");
  const auto s = Spread::make(spec);
  if (!s) return nullptr;
  const int axis = filter_output_axis(attrs, spec.inputs[1].shape.rank());
  const auto q = QuantizedPair::make(dynamically_quantized(spec.inputs[0]), spec.inputs[1], axis, s->all_out());
  return q ? make_integer_transposed(spec, *s, *q, std::nullopt) : nullptr;
}

}  // namespace smelt
