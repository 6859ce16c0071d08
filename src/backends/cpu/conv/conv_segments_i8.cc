#include <algorithm>
#include <optional>
#include <vector>

#include "backends/cpu/conv/conv_segments.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

struct ConvSegmentsI8Key {
  FilterKey filter;
  const GemmI8* gemm;
  int32_t x_zero;
  bool x_signed;
  auto operator<=>(const ConvSegmentsI8Key&) const = default;
};

/// The first element of Segment::b_rows that all segments have; nullopt: there is none.
std::optional<ptrdiff_t> common_tap(const std::vector<Segment>& segments) {
  for (const ptrdiff_t tap : segments.front().b_rows)
    if (std::ranges::all_of(segments, [&](const Segment& s) { return std::ranges::count(s.b_rows, tap) > 0; }))
      return tap;
  return std::nullopt;
}

/// Integer convolution by segments of output lines. Each tap has a packed matrix of its own, whose addends subtract the
/// zero point from what the tap sees: a segment adds up the products of the taps that it sees. The bias lies with a tap
/// that all segments see.
class ConvSegmentsI8 final : public Kernel {
 public:
  ConvSegmentsI8(const ConvShape& g, const QuantizedPair& q, RequantizeParams requantize_params,
                 std::vector<Segment> segments, ptrdiff_t bias_tap, const GemmI8& gemm, const KernelSpec& spec)
      : g_(g),
        q_(q),
        requantize_params_(std::move(requantize_params)),
        rescale_(requantize_accumulators(spec.isa, requantize_params_)),
        segments_(std::move(segments)),
        gemm_(gemm),
        flipped_(gemm.flips(q.x_signed, g.out[2])),
        copies_(!gemm.bytes || flipped_ || g.c_in % 4 != 0),
        lda_(copies_ ? gemm.a_row_bytes(g.c_in) : g.c_in),
        matrix_bytes_(gemm.packed_bytes(g.c_in, g.c_out)),
        threads_(std::max(spec.threads, 1)) {
    for (Segment& s : segments_) {
      for (ptrdiff_t& at : s.at) at = at / g.c_in * lda_;
      for (ptrdiff_t& row : s.b_rows) row = row / g.c_in * matrix_bytes_;
    }
    const Tensor& filter = *spec.constant(1);
    packed_ = spec.packs.get(ConvSegmentsI8Key{{g, filter, spec.constant(2)}, &gemm, q.x_zero, q.x_signed}, [&] {
      Packed packed = pack_ordered_filter(g_, filter, q_.w_zeros, gemm_.packs_int8(),
                                          [&](const auto* weights) { return pack(weights, bias_tap); });
      release_pages(filter);
      return packed;
    });
  }
  size_t scratch_bytes() const override {
    return copies_ ? static_cast<size_t>(padded_bytes(g_.in_pixels() * lda_)) : 0;
  }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    auto* y = ctx.output(0).data<uint8_t>();
    char* const copy = static_cast<char*>(copies_ ? ctx.scratch(scratch_bytes()) : nullptr);
    if (copies_ && !copy) return Error(ErrorCode::kLimit, "no memory for the image of a convolution");
    for (int64_t image = 0; image < g_.batch; ++image, x += g_.in_pixels() * g_.c_in) {
      if (copies_)
        ctx.threads().parallel_for(g_.in_pixels(), 256, [&](int64_t begin, int64_t end) {
          gemm_.convert(x + begin * g_.c_in, g_.c_in, end - begin, g_.c_in, q_.x_signed, q_.x_zero, copy + begin * lda_,
                        lda_, flipped_);
        });
      const char* const a = copies_ ? copy : reinterpret_cast<const char*>(x);
      ranges_in_slots(
          ctx.threads(), threads_, static_cast<int64_t>(segments_.size()), [&](int64_t begin, int64_t end, int64_t) {
            Tile tile;
            for (int64_t p = 0; p < gemm_.panels(g_.c_out); ++p)
              for (int64_t i = begin; i < end; ++i)
                multiply(segments_[static_cast<size_t>(i)], p, a, y + image * g_.out_pixels() * g_.c_out, tile);
          });
    }
    return Ok();
  }

 private:
  /// What a thread adds up.
  struct Tile {
    alignas(64) int32_t sums[GemmI8::kMaxTile] = {}, of_tap[GemmI8::kMaxTile] = {};
    TileState state;
  };
  template <class W>
  Packed pack(const W* weights, ptrdiff_t bias_tap) const {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(matrix_bytes_ * g_.taps()));
    std::vector<W> matrix(static_cast<size_t>(g_.c_out * g_.c_in));
    for (int64_t tap = 0; tap < g_.taps(); ++tap) {
      for (int64_t o = 0; o < g_.c_out; ++o)
        std::copy_n(weights + (o * g_.taps() + tap) * g_.c_in, g_.c_in, matrix.data() + o * g_.c_in);
      gemm_.pack(matrix.data(), g_.c_in, g_.c_out, tap * g_.c_in == bias_tap ? requantize_params_.bias.data() : nullptr,
                 GemmI8::int8_zero_point(q_.x_signed, q_.x_zero), packed->data<char>() + tap * matrix_bytes_);
    }
    return packed;
  }
  /// The filters of panel p of one segment.
  void multiply(const Segment& s, int64_t p, const char* a, uint8_t* y, Tile& tile) const {
    const int64_t nr = gemm_.nr(), channel = p * nr, left = g_.c_out - channel, step = g_.stride[2] * lda_;
    const auto& tile_of = gemm_.tiles_of(q_.x_signed && !flipped_, left);
    const char* const panel = packed_->data<char>() + gemm_.panel_offset(g_.c_in, p);
    const EvenTiles tiles(s.count, gemm_.mr);
    for (int64_t t = 0, pixel = 0; t < tiles.count; ++t) {
      const int64_t rows = tiles.rows(t);
      for (size_t k = 0; k < s.at.size(); ++k) {
        const void* const from = a + s.at[k] + pixel * step;
        tile_of[static_cast<size_t>(rows - 1)](&from, 1, step, panel + s.b_rows[k], gemm_.steps(g_.c_in),
                                               k == 0 ? tile.sums : tile.of_tap, nullptr, tile.state);
        if (k > 0) gemm_.add(tile.of_tap, rows * nr, tile.sums);
      }
      rescale_(requantize_params_, tile.sums, nr, rows, std::min(left, nr), channel,
               y + (s.line * g_.out[2] + s.first + pixel) * g_.c_out + channel, g_.c_out);
      pixel += rows;
    }
  }

  ConvShape g_;
  QuantizedPair q_;
  RequantizeParams requantize_params_;
  RequantizeAccumulators rescale_;
  std::vector<Segment> segments_;  ///< `at` and `b_rows` in bytes of the rows of pixels and of the packed matrices
  const GemmI8& gemm_;
  bool flipped_, copies_;  ///< the image's sign bits; the image into rows of `gemm`
  int64_t lda_, matrix_bytes_, threads_;
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_segments_i8(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || g->groups != 1 || g->in[1] == 1 || spec.outputs[0].shape.elements() == 0) return nullptr;
  const auto q =
      QuantizedPair::make(spec.inputs[0], spec.inputs[1],
                          filter_output_axis(spec.attrs<ConvAttrs>(), spec.inputs[1].shape.rank()), g->c_out);
  if (!q) return nullptr;
  const GemmI8& gemm = gemm_i8(spec.isa, filter_fits_int8(*g, *spec.constant(1), q->w_zeros));
  auto segments = segments_of(*g, gemm.mr);
  if (segments.empty()) return spec.refuse("few taps lie in the padding");
  const auto bias_tap = common_tap(segments);
  if (!bias_tap) return spec.refuse("no tap that all pixels see");
  auto requantize_params = smelt::requantize_params(spec, g->c_out, spec.attrs<ConvAttrs>().rescale_rule());
  if (!requantize_params) return nullptr;
  return std::make_unique<ConvSegmentsI8>(*g, *q, std::move(*requantize_params), std::move(segments), *bias_tap, gemm,
                                          spec);
}

}  // namespace smelt
