#include "backends/cpu/core/kernel.h"
#include "backends/cpu/signal/line_transform.h"
#include "ops/common/index.h"
#include "ops/signal/signal.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr int64_t kMaxDftLength = int64_t{1} << 24;

/// Transforms along one dimension, or along two with a spectrum in between.
class DftF32 final : public Kernel {
 public:
  DftF32(const LineTransformShape& first, const std::optional<LineTransformShape>& second, const KernelSpec& spec)
      : first_(first, spec.isa, spec.threads), between_(first.lines * first.kept) {
    if (second) second_.emplace(*second, spec.isa, spec.threads);
  }
  size_t scratch_bytes() const override {
    if (!second_) return first_.workspace_bytes();
    return std::max(first_.workspace_bytes(), second_->workspace_bytes()) +
           static_cast<size_t>(2 * between_) * sizeof(double);
  }
  Status run(KernelContext& ctx) const override {
    auto* workspace = static_cast<double*>(ctx.scratch(scratch_bytes()));
    if (!workspace) return Error(ErrorCode::kLimit, "no memory for a Fourier transform");
    const auto* x = static_cast<const float*>(ctx.input(0).raw());
    auto* y = static_cast<float*>(ctx.output(0).raw());
    if (!second_) {
      first_.run(x, nullptr, y, workspace, ctx.threads());
      return Ok();
    }
    double* const between = workspace;
    first_.run(x, nullptr, between, workspace + 2 * between_, ctx.threads());
    second_->run(between, nullptr, y, workspace + 2 * between_, ctx.threads());
    return Ok();
  }

 private:
  LineTransform first_;
  std::optional<LineTransform> second_;
  int64_t between_;  ///< complex numbers
};

double scale_of(const DftAttrs& a, double n) {
  if (a.scale != 0) return a.scale;
  return a.inverse ? 1 / n : 1;
}

/// Transforms over the last two dimensions.
[[gnu::cold]] std::unique_ptr<Kernel> make_planes(const KernelSpec& spec, const DftAttrs& a) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const bool complex = spec.inputs[0].dtype == DType::kC64;
  if (spec.outputs[0].dtype != DType::kC64) return spec.refuse("the output is not complex");
  const int rank = x.rank();
  int64_t rows = x[rank - 2], columns = x[rank - 1];
  if (spec.has(1)) {
    rows = get_int(*spec.constant(1), 0);
    columns = get_int(*spec.constant(1), 1);
  }
  if (rows < 1 || columns < 1 || rows > kMaxDftLength || columns > kMaxDftLength)
    return spec.refuse("a transform of ", rows, " by ", columns);
  const int64_t kept = y[rank - 1], used_rows = std::min(rows, x[rank - 2]);
  int64_t planes = 1;
  for (int i = 0; i < rank - 2; ++i) planes *= x[i];
  const double scale = scale_of(a, static_cast<double>(rows) * static_cast<double>(columns));
  LineTransformShape along_row{.lines = planes * used_rows,
                               .length = columns,
                               .used = std::min(columns, x[rank - 1]),
                               .kept = kept,
                               .inverse = a.inverse,
                               .in = {used_rows, x[rank - 2] * x[rank - 1], x[rank - 1], 1, complex},
                               .out = {used_rows, used_rows * kept, kept, 1, true}};
  if (rows == 1) {
    along_row.scale = scale;
    return std::make_unique<DftF32>(along_row, std::nullopt, spec);
  }
  const LineTransformShape along_column{.lines = planes * kept,
                                        .length = rows,
                                        .used = used_rows,
                                        .kept = rows,
                                        .inverse = a.inverse,
                                        .scale = scale,
                                        .in = {kept, used_rows * kept, 1, kept, true},
                                        .out = {kept, rows * kept, 1, kept, true}};
  return std::make_unique<DftF32>(along_row, along_column, spec);
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_dft_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<DftAttrs>();
  Shape x = spec.inputs[0].shape, y = spec.outputs[0].shape;
  if (x.elements() == 0 || y.elements() == 0) return nullptr;
  if (a.dims == 2) return make_planes(spec, a);
  bool complex_in = spec.inputs[0].dtype == DType::kC64, complex_out = spec.outputs[0].dtype == DType::kC64;
  if (!a.complex_dtype) {
    complex_in = x.back() == 2;
    complex_out = y.back() == 2;
    x.erase(x.rank() - 1);
    y.erase(y.rank() - 1);
  }
  // The axis counts the dimension of the parts, the shapes do not.
  const auto given = normalize_axis(spec.has(2) ? get_int(*spec.constant(2), 0) : a.axis, spec.inputs[0].shape.rank());
  if (!given.ok() || *given >= x.rank()) return nullptr;
  const int axis = *given;
  const AxisView in = axis_view(x, axis), out = axis_view(y, axis);
  const bool half_input = a.inverse && a.onesided;
  const int64_t length = spec.has(1) ? get_int(*spec.constant(1), 0) : half_input ? 2 * (in.extent - 1) : in.extent;
  if (length < 1 || length > kMaxDftLength) return spec.refuse("a transform of length ", length);
  LineTransformShape lines{.lines = in.outer * in.inner,
                           .length = length,
                           .used = std::min(in.extent, half_input ? length / 2 + 1 : length),
                           .kept = out.extent,
                           .inverse = a.inverse,
                           .half_input = half_input,
                           .scale = scale_of(a, static_cast<double>(length)),
                           .in = {in.inner, in.extent * in.inner, 1, in.inner, complex_in},
                           .out = {in.inner, out.extent * in.inner, 1, in.inner, complex_out}};
  return std::make_unique<DftF32>(lines, std::nullopt, spec);
}

}  // namespace smelt
