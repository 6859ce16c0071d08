#include "backends/cpu/matmul/matmul_w4.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/matmul/matrix_key.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "base/packing_threads.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

struct MatMulW4Key {
  MatrixKey matrix;
  int64_t blocks, lanes;
  bool takes;  ///< what zero points of rows take off is a part of the packed form
  auto operator<=>(const MatMulW4Key&) const = default;
};

/// Four codes of 4 bits, one a byte.
uint32_t spread(uint32_t codes) {
  codes = (codes | codes << 8) & 0x00FF00FF;
  return (codes | codes << 4) & 0x0F0F0F0F;
}

/// Eight codes in the order of the tiles' words.
uint32_t in_tile_order(uint32_t codes) { return spread(codes & 0xFFFF) | spread(codes >> 16) << 4; }

/// The sum of eight codes in any order.
uint32_t sum_of_codes(uint32_t word) {
  const uint32_t bytes = (word & 0x0F0F0F0F) + (word >> 4 & 0x0F0F0F0F);
  const uint32_t pairs = (bytes & 0x00FF00FF) + (bytes >> 8 & 0x00FF00FF);
  return (pairs & 0xFFFF) + (pairs >> 16);
}

constexpr int64_t kWordsTogether = 16;

/// Brings words of a column into the tiles' order and gives the sum of each one's codes. n: a multiple of
/// kWordsTogether; what stands behind the column's words counts for nothing.
void order_codes(uint32_t* words, int64_t n, uint32_t* sums) {
  using Words = std::array<uint32_t, kWordsTogether>;  // loops over them become vectors
  for (int64_t i = 0; i < n; i += kWordsTogether) {
    Words codes, sum;
    std::memcpy(codes.data(), words + i, sizeof codes);
    std::ranges::transform(codes, sum.begin(), sum_of_codes);
    std::ranges::transform(codes, codes.begin(), in_tile_order);
    std::memcpy(words + i, codes.data(), sizeof codes);
    std::memcpy(sums + i, sum.data(), sizeof sum);
  }
}

/// Rows times constant 4-bit weights.
class MatMulW4 final : public Kernel {
 public:
  enum class Rows : uint8_t {
    kDynamic,       ///< int8, a scale and zero point each
    kDynamicQuant,  ///< float32, quantized at run time
    kBlocks,        ///< float32, blocks of them quantized at run time
    kReal,          ///< float32
  };
  MatMulW4(const MatMulShape& s, Rows mode, const KernelSpec& spec, const QuantizedWeights& w)
      : m_(s.m),
        n_(s.n),
        k_(s.k),
        mode_(mode),
        asymmetric_(spec.attrs<MatMulAttrs>().asymmetric_inputs),
        has_bias_(spec.has(2)),
        act_(spec.attrs<MatMulAttrs>().act),
        gemm_(w4_gemm(spec.isa)),
        floats_(gemm_f32(spec.isa)),
        quant_(dynamic_quant_ops(spec.isa)),
        threads_(std::max(spec.threads, 1)),
        takes_epilogue_((s.m != 1 || spec.fixed_shapes) && clamps(act_)),
        blocks_(w.blocks()),
        block_(w.block()) {
    panels_ = (s.n + 2 * gemm_.lanes - 1) / (2 * gemm_.lanes) * 2;
    lda_ = round_up(s.k, W4Tile::kStep);
    panel_bytes_ = (blocks_ + lda_ / W4Tile::kStep) * gemm_.lanes * 4;
    takes_at_ = panels_ * panel_bytes_;
    zeros_at_ = takes_at_ + (has_params() ? columns() * 4 : 0);
    has_zeros_ = !w.all_zeros_are(is_signed_integer(spec.inputs[1].dtype) ? 0 : 8);
    const MatMulW4Key key{{s, *spec.constant(1), nullptr}, blocks_, gemm_.lanes, has_params()};
    packed_ = spec.packs.get(
        key, [&] { return pack(w, is_signed_integer(spec.inputs[1].dtype) ? 8 : 0); },
        [&] {
          return spec.contents("matmul_w4", key.matrix.numbers(), {blocks_, gemm_.lanes, has_params(), W4Gemm::kGroup});
        });
    weights_ = packed_->data<char>();
    unpacks_ = mode == Rows::kReal && s.m > gemm_.real_rows;
    if (unpacks_) lda_ = apart<float>(s.k);
    in_place_ = mode == Rows::kReal && lda_ == s.k;
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(m_) * row_bytes() + static_cast<size_t>(unpacks_ ? threads_ * unpacked_floats() * 4 : 0);
  }
  bool take_epilogue(const EpilogueF32& epilogue) override { return takes_epilogue_ && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    const EpilogueRun epilogue(epilogue_, ctx);
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the rows of a matrix product");
    if (mode_ == Rows::kDynamic) SMELT_TRY(check_per_token_params(ctx.input(0), m_));
    const Operands in = operands(ctx, scratch + (unpacks_ ? threads_ * unpacked_floats() * 4 : 0));
    if (!in_place_ || has_zeros_) {
      ctx.threads().parallel_for(m_, std::max<int64_t>(1, 32768 / k_), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) prepare(ctx.input(0), r, in);
      });
    }
    if (unpacks_) {
      ctx.threads().parallel_for(threads_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t chunk = begin; chunk < end; ++chunk)
          real_products(in, reinterpret_cast<float*>(scratch) + chunk * unpacked_floats(), chunk, epilogue);
      });
      return Ok();
    }
    const int64_t together = m_ == 1 ? W4Gemm::kOneRowPanels : gemm_.panels;
    const int64_t groups = (panels_ + together - 1) / together, tall = (m_ + tile_rows() - 1) / tile_rows();
    const int64_t parts = threads_ == 1 ? 1 : std::clamp<int64_t>(4 * threads_ / groups, 1, tall);
    ctx.threads().parallel_for(groups * parts, 1, [&](int64_t begin, int64_t end) {
      // Steps of one row take hardly longer than a few divisions.
      int64_t part = begin % parts, panel = begin / parts * together;
      for (int64_t i = begin; i < end; ++i, ++part) {
        if (part == parts) part = 0, panel += together;
        products(in, panel, std::min(together, panels_ - panel), tall * part / parts * tile_rows(),
                 std::min(m_, tall * (part + 1) / parts * tile_rows()), epilogue);
      }
    });
    return Ok();
  }

 private:
  /// Rows as the tiles take them, and what their products become.
  struct Operands {
    int8_t* ints;
    float* reals;
    int32_t* acc;     ///< [row][block]: what W4Tile::less points to
    float* real_acc;  ///< the same
    float* scales;    ///< the same
    QuantParams* params;
    const float* bias;
    float* y;
  };
  Operands operands(KernelContext& ctx, char* at) const {
    Operands in{};
    const auto take = [&](int64_t bytes_a_row) {
      char* from = at;
      at += m_ * bytes_a_row;
      return from;
    };
    if (mode_ == Rows::kReal) {
      in.reals = in_place_ ? const_cast<float*>(ctx.input(0).data<float>()) : reinterpret_cast<float*>(take(lda_ * 4));
      in.real_acc = reinterpret_cast<float*>(take(blocks_ * 4));
    } else {
      in.acc = reinterpret_cast<int32_t*>(take(blocks_ * 4));
      if (mode_ == Rows::kBlocks)
        in.scales = reinterpret_cast<float*>(take(blocks_ * 4));
      else
        in.params = reinterpret_cast<QuantParams*>(take(sizeof(QuantParams)));
      in.ints = reinterpret_cast<int8_t*>(take(lda_));
    }
    in.bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    in.y = ctx.output(0).data<float>();
    return in;
  }
  size_t row_bytes() const {
    if (mode_ == Rows::kReal) return static_cast<size_t>(blocks_ + (in_place_ ? 0 : lda_)) * 4;
    return static_cast<size_t>(lda_ + blocks_ * 8) + sizeof(QuantParams);
  }
  /// True if rows have a scale and zero point each.
  bool has_params() const { return mode_ == Rows::kDynamic || mode_ == Rows::kDynamicQuant; }
  int64_t columns() const { return panels_ * gemm_.lanes; }
  int64_t tile_rows() const { return mode_ == Rows::kReal ? gemm_.real_rows : gemm_.rows; }
  int64_t depth(int64_t i) const { return std::min(block_, k_ - i * block_); }
  int64_t unpacked_floats() const { return round_up((k_ + 1) * floats_.nr(), 16); }

  int64_t first_of_group(int64_t panel) const { return panel & -W4Gemm::kGroup; }
  int64_t panel_offset(int64_t panel) const {
    const int64_t first = first_of_group(panel);
    return first * panel_bytes_ + (panel - first) * gemm_.lanes * 4;
  }
  int64_t step_bytes() const { return W4Gemm::kGroup * gemm_.lanes * 4; }
  /// Panels; where rows have zero points, for every column what one of one takes off; zero points as the tiles take
  /// them.
  Packed pack(const QuantizedWeights& w, int32_t offset) const {
    auto packed =
        std::make_shared<AlignedBuffer>(static_cast<size_t>(zeros_at_ + (has_zeros_ ? columns() * blocks_ * 2 : 0)));
    const int64_t used = ceil_div(n_, gemm_.lanes);
    const auto bytes = static_cast<size_t>(2 * gemm_.lanes * column_words() * 4);
    PackingThreads::share(used, PackingThreads::count(takes_at_), bytes, [&](int64_t begin, int64_t end, void* codes) {
      for (int64_t panel = begin; panel < end; ++panel)
        pack_panel(w, offset, panel, static_cast<uint32_t*>(codes), packed->data<char>());
    });
    return packed;
  }
  int64_t column_words() const { return round_up(lda_ / W4Tile::kStep, kWordsTogether); }
  /// codes: two times as many words as the columns of a panel have, in rounds of kWordsTogether.
  void pack_panel(const QuantizedWeights& w, int32_t offset, int64_t panel, uint32_t* codes, char* packed) const {
    static_assert(W4Tile::kStep == 8);
    const int64_t lanes = gemm_.lanes, first = panel * lanes, columns = std::min(lanes, n_ - first);
    const int64_t stride = column_words(), step = step_bytes();
    uint32_t* const sums = codes + lanes * stride;
    for (int64_t j = 0; j < columns; ++j) {
      w.codes_4bit(first + j, codes + j * stride);
      order_codes(codes + j * stride, stride, sums + j * stride);
    }
    auto* zeros = reinterpret_cast<int16_t*>(packed + zeros_at_) + panel * blocks_ * lanes;
    double takes[kMostLanes] = {};
    char* to = packed + panel_offset(panel);
    for (int64_t i = 0, at = 0; i < blocks_; ++i) {
      const float* const scales = w.scales().data() + i * n_ + first;
      std::memcpy(to, scales, static_cast<size_t>(columns) * 4);
      to += step;
      const int64_t end = at + ceil_div(depth(i), W4Tile::kStep);
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t zero = w.zero(i, first + j) + offset;
        if (has_zeros_) zeros[i * lanes + j] = static_cast<int16_t>(zero);
        if (!has_params()) continue;
        const int64_t sum = std::accumulate(sums + j * stride + at, sums + j * stride + end, int64_t{0});
        takes[j] += static_cast<double>(scales[j]) * static_cast<double>(sum - zero * depth(i));
      }
      for (; at < end; ++at, to += step)
        for (int64_t j = 0; j < columns; ++j) std::memcpy(to + j * 4, codes + j * stride + at, 4);
    }
    for (int64_t j = 0; has_params() && j < columns; ++j)
      reinterpret_cast<float*>(packed + takes_at_)[first + j] = static_cast<float>(takes[j]);
  }
  void prepare(const Tensor& a, int64_t r, const Operands& in) const {
    if (mode_ == Rows::kReal) {
      float* to = in.reals + r * lda_;
      if (!in_place_) std::fill(std::copy_n(a.data<float>() + r * k_, k_, to), to + lda_, 0.0f);
      if (has_zeros_) quant_.sum_real_blocks(to, k_, block_, in.real_acc + r * blocks_);
      return;
    }
    int8_t* to = in.ints + r * lda_;
    int32_t* acc = in.acc + r * blocks_;
    if (mode_ == Rows::kBlocks) {
      quant_.quantize_blocks(a.data<float>() + r * k_, k_, block_, to, in.scales + r * blocks_, acc);
    } else if (mode_ == Rows::kDynamicQuant) {
      in.params[r] = quant_.quantize_row(a.data<float>() + r * k_, k_, asymmetric_, to);
    } else {
      std::copy_n(a.data<int8_t>() + r * k_, k_, to);
      in.params[r] = {a.quant()->scale(r), a.quant()->zero_point(r)};
    }
    std::fill(to + k_, to + lda_, int8_t{0});
    if (mode_ != Rows::kBlocks) quant_.sum_blocks(to, k_, block_, acc);
    for (int64_t i = 0; i < blocks_; ++i) acc[i] *= has_zeros_ ? -1 : -8;
  }
  W4Tile tile(int64_t panel) const {
    const auto* const zeros = reinterpret_cast<const int16_t*>(weights_ + zeros_at_) + panel * blocks_ * gemm_.lanes;
    return {.lda = lda_,
            .blocks = blocks_,
            .steps = block_ / W4Tile::kStep,
            .last_steps = (depth(blocks_ - 1) + W4Tile::kStep - 1) / W4Tile::kStep,
            .panel = weights_ + panel_offset(panel),
            .step_bytes = step_bytes(),
            .group_bytes = W4Gemm::kGroup * panel_bytes_,
            .zeros = has_zeros_ ? zeros : nullptr};
  }
  /// `count` panels from `panel` on, of rows [from, to).
  void products(const Operands& in, int64_t panel, int64_t count, int64_t from, int64_t to,
                const EpilogueRun& epilogue) const {
    const int64_t first = panel * gemm_.lanes, n = std::min(n_ - first, count * gemm_.lanes);
    const Bounds bounds = activation_bounds(act_);
    const auto* takes = reinterpret_cast<const float*>(weights_ + takes_at_) + first;
    const W4Rows by{in.bias ? in.bias + first : nullptr, in.params ? takes : nullptr, bounds.lo, bounds.hi};
    if (by.zeros && to - from == 1)
      for (int64_t j = 0; j < n; j += kMostLanes) __builtin_prefetch(by.zeros + j);
    alignas(64) float out[W4Gemm::kMostRows * W4Gemm::kOneRowPanels * kMostLanes];
    const int64_t pairs = count / 2;
    W4Tile t = tile(panel);
    t.out = out;
    const int64_t rows = to - from, most = tile_rows();
    const int64_t height = rows <= most ? std::max<int64_t>(rows, 1) : ceil_div(rows, ceil_div(rows, most));
    for (int64_t r = from; r < to; r += height) {
      const int64_t here = std::min(height, to - r);
      if (in.reals) {
        t.a = in.reals + r * lda_;
        t.real_acc = in.real_acc + r * blocks_;
        gemm_.real_tiles[pairs - 1][here - 1](t);
      } else {
        t.a = in.ints + r * lda_;
        t.less = in.acc + r * blocks_;
        t.row_scales = in.scales ? in.scales + r * blocks_ : nullptr;
        gemm_.tiles[pairs - 1][here - 1](t);
      }
      for (int64_t i = r; i < r + here; ++i) {
        const QuantParams params = in.params ? in.params[i] : QuantParams{};
        gemm_.store(by, out + (i - r) * count * gemm_.lanes, params.scale, static_cast<float>(params.zero_point), n,
                    in.y + i * n_ + first);
      }
      if (epilogue) epilogue(in.y + r * n_ + first, here, n, n_);
    }
    apply_activation(act_, in.y + from * n_ + first, to - from, n, n_);
  }
  /// A chunk of the product of many float32 rows: weights become float32, panel by panel.
  void real_products(const Operands& in, float* workspace, int64_t chunk, const EpilogueRun& epilogue) const {
    const Bounds bounds = activation_bounds(act_);
    split_product(m_, floats_.mr, floats_.panels(n_), chunk, threads_,
                  [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) {
                    for (int64_t p = p0; p < p1; ++p) {
                      const int64_t w = floats_.width(n_, p), first = p * floats_.nr();
                      const int64_t n = std::min(w, n_ - first);
                      for (int64_t j = 0; j < w; ++j) workspace[j] = in.bias && j < n ? in.bias[first + j] : 0.0f;
                      for (int64_t j = 0; j < w; j += gemm_.lanes)
                        gemm_.unpack(tile((first + j) / gemm_.lanes), k_, workspace + w + j, w);
                      float* y = in.y + r0 * n_ + first;
                      const ptrdiff_t start = 0;
                      floats_.product({in.reals + r0 * lda_, y, lda_, n_, r1 - r0}, {&start, 1, k_}, k_, n, workspace,
                                      0, 1, nullptr, bounds.lo, bounds.hi);
                      apply_activation(act_, y, r1 - r0, n, n_);
                      if (epilogue) epilogue(y, r1 - r0, n, n_);
                    }
                  });
  }

  static constexpr int64_t kMostLanes = 16;
  int64_t m_, n_, k_;
  Rows mode_;
  bool asymmetric_, has_bias_, has_zeros_ = false, unpacks_ = false;
  bool in_place_ = false;  ///< float32 rows are taken as they are
  Activation act_;
  const W4Gemm& gemm_;
  const GemmF32& floats_;
  const DynamicQuantOps& quant_;
  int64_t threads_;
  bool takes_epilogue_;
  EpilogueF32 epilogue_;
  int64_t blocks_, block_, panels_ = 0, lda_ = 0, panel_bytes_ = 0, takes_at_ = 0, zeros_at_ = 0;
  Packed packed_;
  const char* weights_ = nullptr;  ///< of packed_
};

/// How the kernel takes the rows of a, if it does.
std::optional<MatMulW4::Rows> rows_of(const KernelSpec& spec, const MatMulShape& s, const QuantizedWeights& w) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const ValueType& a = spec.inputs[0];
  if (a.dtype == DType::kI8 && has_per_token_params(spec, s)) return MatMulW4::Rows::kDynamic;
  if (a.quant) return std::nullopt;
  if (attrs.dynamic_quant) return MatMulW4::Rows::kDynamicQuant;
  if (attrs.row_block <= 0) return MatMulW4::Rows::kReal;
  if (attrs.row_block != w.block()) return std::nullopt;
  return MatMulW4::Rows::kBlocks;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_w4(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_by_constant(spec);
  if (!s || s->m == 0 || s->n == 0 || attrs.alpha != 1 || attrs.beta != 1 || attrs.trans_batch_a ||
      !float_bias(spec, *s))
    return nullptr;
  const auto w = QuantizedWeights::make(*spec.constant(1), *s);
  if (!w || (w->blocks() > 1 && w->block() % W4Tile::kStep != 0)) return nullptr;
  constexpr int64_t kMostOfABlock = 65536;  // accumulators of 32 bits hold 256 times these
  if (std::min(w->block(), s->k) > kMostOfABlock) return nullptr;
  const auto rows = rows_of(spec, *s, *w);
  return rows ? std::make_unique<MatMulW4>(*s, *rows, spec, *w) : nullptr;
}

}  // namespace smelt
