#include "backends/cpu/matmul/matmul_f32.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/pack_constant.h"
#include "backends/cpu/gemm/strassen_f32.h"
#include "backends/cpu/matmul/matrix_key.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt {
namespace {

struct MatMulF32Key {
  MatrixKey matrix;
  const GemmF32* gemm;
  uint64_t alpha, beta;  ///< the bits of the doubles, which order NaN too
  auto operator<=>(const MatMulF32Key&) const = default;
};

/// As split_product(), into whole pairs of panels.
template <class F>
void split_strassen(const MatMulShape& s, const GemmF32& gemm, int64_t task, int64_t tasks, F&& body) {
  const int64_t panels = gemm.panels(s.n);
  split_product(s.m, gemm.mr, ceil_div(panels, 2), task, tasks, [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) {
    body(r0, r1, 2 * p0, std::min(2 * p1, panels));
  });
}

/// k_, lda_ and workspaces count the words of the gemm.
class MatMulF32 final : public Kernel {
 public:
  [[gnu::cold]] MatMulF32(const MatMulShape& s, const GemmF32& gemm, const KernelSpec& spec,
                          std::unique_ptr<StrassenF32> strassen)
      : s_(s),
        gemm_(gemm),
        attrs_(spec.attrs<MatMulAttrs>()),
        strassen_(std::move(strassen)),
        threads_(std::max(spec.threads, 1)),
        k_(gemm.words(s.k)),
        fixed_shapes_(spec.fixed_shapes) {
    slots_ = s.batches >= threads_ ? threads_ : 1;
    packed_size_ = round_up(gemm.packed_size(k_, s.n), 16);
    const Tensor* c = spec.has(2) && attrs_.beta != 0 ? spec.constant(2) : nullptr;
    row_c_ = spec.has(2) && attrs_.beta != 0 && s.is_row(spec.inputs[2].shape);
    const bool folded = !spec.has(2) || attrs_.beta == 0 || (row_c_ && c);
    if (spec.constant(1) && folded) pack_constant(spec, c);
    if (!packed_) b_workspace_ = packed_size_;
    turned_ = s.g.a.column_stride != 1 && s.k > 1;
    if (turned_ || gemm.to_words || collides()) {
      lda_ = apart<float>(k_);
      a_workspace_ = round_up(s.m * lda_, 16);
    }
    // A task that has its rows for itself makes words of some of them at a time.
    const int64_t tasks = slots_ > 1 ? 1 : threads_;
    if (gemm.to_words && (tasks == 1 || ceil_div(s.m, gemm.mr) >= gemm.panels(s.n)))
      block_ = std::max(gemm.mr, gemm.words_block(k_, s.n) / gemm.mr * gemm.mr);
    add_c_ = spec.has(2) && attrs_.beta != 0 && !row_c_;
    if (add_c_) c_loops_ = BroadcastLoops::make(s.g.output, spec.inputs[2].shape, s.g.output);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(operand_floats() + threads_ * strassen_floats()) * sizeof(float);
  }
  /// Single rows are made once a token by plans of growing caches, which take over kernels that nodes are not appended
  /// to.
  bool take_epilogue(const EpilogueF32& epilogue) override {
    return !add_c_ && (s_.m != 1 || fixed_shapes_) && clamps(attrs_.act) && epilogue_.take(epilogue);
  }
  Status run(KernelContext& ctx) const override {
    float* scratch = nullptr;
    if (const size_t bytes = scratch_bytes()) {
      scratch = static_cast<float*>(ctx.scratch(bytes));
      if (!scratch) return Error(ErrorCode::kLimit, "no memory to pack a matrix");
    }
    const Operands in{ctx.input(0).data<float>(), packed_ ? nullptr : ctx.input(1).data<float>(),
                      row_c_ ? ctx.input(2).data<float>() : nullptr};
    float* y = ctx.output(0).data<float>();
    const EpilogueRun epilogue(epilogue_, ctx);
    if (slots_ > 1) {
      in_slots(ctx.threads(), slots_, s_.batches, [&](int64_t i, int64_t slot) {
        matrix(in, i, scratch ? scratch + slot * (a_workspace_ + b_workspace_) : nullptr, y, epilogue);
      });
    } else {
      for (int64_t i = 0; i < s_.batches; ++i) {
        const float *a, *b;
        prepare(ctx.threads(), in, i, scratch, a, b);
        ctx.threads().parallel_for(threads_, 1, [&](int64_t begin, int64_t end) {
          for (int64_t chunk = begin; chunk < end; ++chunk) multiply(a, b, i, scratch, y, epilogue, chunk, threads_);
        });
      }
    }
    if (add_c_) add(ctx.input(2).data<float>(), y);
    return Ok();
  }

 private:
  struct Operands {
    const float *a, *b, *c;
  };
  int64_t operand_floats() const { return slots_ * (a_workspace_ + b_workspace_); }
  /// Of a task's product; there is one matrix where it is not zero.
  int64_t strassen_floats() const { return strassen_ ? round_up(strassen_->scratch_floats(), 16) : 0; }
  int64_t lda() const { return a_workspace_ ? lda_ : s_.g.a.row_stride; }
  /// True if the rows of a tile collide, and copying them pays. Strassen's products copy halves of rows anyway.
  bool collides() const {
    constexpr int64_t kShallow = 1024;
    const int64_t stride = turned_ || gemm_.to_words ? k_ : s_.g.a.row_stride;
    return !strassen_ && k_ >= kShallow && pays_to_space(stride * 4, s_.m, gemm_.panels(s_.n));
  }
  void pack_constant(const KernelSpec& spec, const Tensor* c) {
    const MatrixView& b = s_.g.b;
    const MatMulF32Key key{{s_, *spec.constant(1), c},
                           &gemm_,
                           std::bit_cast<uint64_t>(attrs_.alpha),
                           std::bit_cast<uint64_t>(attrs_.beta)};
    packed_ = spec.packs.get(
        key,
        [&] {
          auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(packed_size_ * s_.b_matrices) * 4);
          for (int64_t i = 0; i < s_.b_matrices; ++i)
            smelt::pack_constant(gemm_, *spec.constant(1), s_.b_offset(i), b.row_stride, b.column_stride, s_.k, s_.n,
                                 c ? c->data<float>() : nullptr, packed->data<float>() + i * packed_size_,
                                 static_cast<float>(attrs_.alpha), static_cast<float>(attrs_.beta));
          release_pages(*spec.constant(1));
          return packed;
        },
        [&] {
          return spec.contents(
              "matmul_f32", key.matrix.numbers(),
              {gemm_.word, std::bit_cast<int64_t>(key.alpha), std::bit_cast<int64_t>(key.beta), c != nullptr});
        });
  }
  /// Copies rows [first, last) of an a that is transposed, whose rows collide, or whose words are no floats.
  void copy_a(const float* a, int64_t first, int64_t last, float* workspace) const {
    const MatrixView& v = s_.g.a;
    if (gemm_.to_words) {
      for (int64_t r = first; r < last; ++r) gemm_.to_words(a + r * v.row_stride, s_.k, workspace + r * lda_);
      return;
    }
    if (!turned_) {
      for (int64_t r = first; r < last; ++r) std::copy_n(a + r * v.row_stride, s_.k, workspace + r * lda_);
      return;
    }
    for (int64_t k = 0; k < s_.k; ++k)
      for (int64_t r = first; r < last; ++r) workspace[r * lda_ + k] = a[r * v.row_stride + k * v.column_stride];
  }
  void pack_b(const Operands& in, int64_t index, int64_t first, int64_t last, float* workspace) const {
    const MatrixView& v = s_.g.b;
    const int64_t column = first * gemm_.nr(), n = std::min(s_.n, last * gemm_.nr()) - column;
    gemm_.pack(in.b + s_.offset(v, index) + column * v.column_stride, v.row_stride, v.column_stride, s_.k, n,
               in.c ? in.c + column : nullptr, workspace + gemm_.panel_offset(k_, first),
               static_cast<float>(attrs_.alpha), static_cast<float>(attrs_.beta));
  }
  void prepare(ThreadPool& pool, const Operands& in, int64_t index, float* scratch, const float*& a,
               const float*& b) const {
    a = in.a + s_.offset(s_.g.a, index);
    if (a_workspace_ && block_ == 0) {
      const float* from = a;
      pool.parallel_for(s_.m, 16, [&](int64_t begin, int64_t end) { copy_a(from, begin, end, scratch); });
      a = scratch;
    }
    if (packed_) {
      b = packed_->data<float>() + s_.b_index(index) * packed_size_;
      return;
    }
    float* workspace = scratch + a_workspace_;
    pool.parallel_for(gemm_.panels(s_.n), 1,
                      [&](int64_t begin, int64_t end) { pack_b(in, index, begin, end, workspace); });
    b = workspace;
  }
  void matrix(const Operands& in, int64_t index, float* scratch, float* y, const EpilogueRun& epilogue) const {
    const float* a = in.a + s_.offset(s_.g.a, index);
    if (a_workspace_ && block_ == 0) {
      copy_a(a, 0, s_.m, scratch);
      a = scratch;
    }
    const float* b;
    if (packed_) {
      b = packed_->data<float>() + s_.b_index(index) * packed_size_;
    } else {
      pack_b(in, index, 0, gemm_.panels(s_.n), scratch + a_workspace_);
      b = scratch + a_workspace_;
    }
    multiply(a, b, index, scratch, y, epilogue, 0, 1);
  }
  void multiply(const float* a, const float* b, int64_t index, float* scratch, float* y, const EpilogueRun& epilogue,
                int64_t chunk, int64_t chunks) const {
    const auto multiply_part = [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) {
      const int64_t step = block_ > 0 ? even_block(r1 - r0) : r1 - r0;
      for (int64_t first = r0; first < r1; first += step) {
        const int64_t rows = std::min(step, r1 - first);
        // Blocks of a task take turns in the workspace of its first one.
        if (block_ > 0) copy_a(a + first * s_.g.a.row_stride, 0, rows, scratch + r0 * lda_);
        multiply_rows(block_ > 0 ? scratch + r0 * lda_ : a + first * lda(), b, y + (index * s_.m + first) * s_.n, rows,
                      p0, p1, epilogue, strassen_ ? scratch + operand_floats() + chunk * strassen_floats() : nullptr);
      }
    };
    if (strassen_)
      split_strassen(s_, gemm_, chunk, chunks, multiply_part);
    else
      split_product(s_.m, gemm_.mr, gemm_.panels(s_.n), chunk, chunks, multiply_part);
  }
  /// Rows of as even blocks of at most block_ as there are of so many.
  int64_t even_block(int64_t rows) const { return round_up(ceil_div(rows, ceil_div(rows, block_)), gemm_.mr); }
  void multiply_rows(const float* a, const float* b, float* c, int64_t rows, int64_t first, int64_t last,
                     const EpilogueRun& epilogue, float* strassen_scratch) const {
    const Bounds bounds = add_c_ ? activation_bounds({}) : activation_bounds(attrs_.act);
    if (strassen_)
      strassen_->run(rows, a, lda(), b, first, last, c, s_.n, bounds.lo, bounds.hi, epilogue ? &epilogue : nullptr,
                     strassen_scratch);
    else
      gemm_.run(rows, s_.n, k_, a, lda(), b, first, last, c, s_.n, nullptr, bounds.lo, bounds.hi,
                epilogue ? &epilogue : nullptr);
    const int64_t column = first * gemm_.nr(), n = std::min(s_.n, last * gemm_.nr()) - column;
    if (!add_c_) apply_activation(attrs_.act, c + column, rows, n, s_.n);
  }
  /// y = act(y + beta c) for a c that is no row.
  void add(const float* c, float* y) const {
    const auto beta = static_cast<float>(attrs_.beta);
    for (int64_t i = 0; i < c_loops_.outer; ++i) {
      int64_t offset_y, offset_c;
      c_loops_.at(i, offset_y, offset_c);
      float* row = y + i * c_loops_.inner;
      for (int64_t j = 0; j < c_loops_.inner; ++j)
        row[j] = activate(attrs_.act, row[j] + beta * c[offset_c + j * c_loops_.inner_b]);
    }
  }

  MatMulShape s_;
  const GemmF32& gemm_;
  MatMulAttrs attrs_;
  EpilogueF32 epilogue_;
  std::unique_ptr<StrassenF32> strassen_;  ///< null: products as they are defined
  int64_t threads_, k_, slots_ = 1, packed_size_ = 0, a_workspace_ = 0, b_workspace_ = 0, lda_ = 0;
  int64_t block_ = 0;  ///< rows of a that are made words at a time; 0: all before the product, or none
  bool fixed_shapes_;
  bool turned_ = false, row_c_ = false, add_c_ = false;
  BroadcastLoops c_loops_;
  Packed packed_;
};

/// The shape of a node that there are kernels for.
std::optional<MatMulShape> matmul_shape_of(const KernelSpec& spec) {
  auto shape = MatMulShape::make(spec);
  if (shape && spec.has(2) && !shape->is_row(spec.inputs[2].shape) && !shape->broadcasts(spec.inputs[2].shape))
    return std::nullopt;
  return shape;
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_by(const GemmF32& gemm, const KernelSpec& spec) {
  const auto shape = matmul_shape_of(spec);
  if (!shape) return nullptr;
  if (gemm.to_words && shape->g.a.column_stride != 1 && shape->k > 1) return spec.refuse("a is transposed");
  return std::make_unique<MatMulF32>(*shape, gemm, spec, nullptr);
}

std::unique_ptr<Kernel> make_matmul_strassen_f32(const KernelSpec& spec) {
  const auto shape = matmul_shape_of(spec);
  const auto setting = strassen_setting();
  if (!shape || !setting.ok()) return nullptr;
  if (shape->batches != 1) return spec.refuse("several matrices");
  if (spec.has(2) && !(spec.constant(2) && shape->is_row(spec.inputs[2].shape)))
    return spec.refuse("the addend is no constant row");
  const GemmF32& gemm = gemm_f32(spec.isa);
  std::unique_ptr<StrassenF32> strassen;
  split_strassen(*shape, gemm, 0, std::max(spec.threads, 1), [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) {
    const int64_t columns = std::min(shape->n, (p1 - p0) * gemm.nr());
    strassen = StrassenF32::make(*setting, gemm, spec.isa, {r1 - r0, columns}, shape->n, shape->k);
  });
  if (!strassen) return spec.refuse("seven products in place of eight take no less time");
  return std::make_unique<MatMulF32>(*shape, gemm, spec, std::move(strassen));
}

std::unique_ptr<Kernel> make_matmul_f32(const KernelSpec& spec) { return make_matmul_by(gemm_f32(spec.isa), spec); }

}  // namespace smelt
