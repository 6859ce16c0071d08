#include <algorithm>
#include <cmath>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/ml/svm_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "ops/ml/scores.h"
#include "ops/ml/svm.h"

#ifndef SMELT_CPU_SVM_F32
#define SMELT_CPU_SVM_F32
namespace smelt {
/// Support vectors in columns: feature f of vector m at f * columns + m, columns a multiple of 16.
struct SvmVectors {
  const float* vectors;
  int64_t features, columns;
  SvmAttrs::Kernel kernel;
  float gamma, coef0;
  int degree;
};
using SvmKernelRow = void (*)(const SvmVectors& s, const float* x, float* k);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

void svm_kernel_row(const SvmVectors& s, const float* x, float* k) {
  const D d;
  const V gamma = hn::Set(d, s.gamma), coef0 = hn::Set(d, s.coef0);
  for (int64_t m = 0; m < s.columns; m += static_cast<int64_t>(hn::Lanes(d))) {
    const float* v = s.vectors + m;
    V sum = hn::Zero(d);
    if (s.kernel == SvmAttrs::Kernel::kRbf) {
      for (int64_t f = 0; f < s.features; ++f, v += s.columns) {
        const V e = hn::Sub(hn::Set(d, x[f]), hn::LoadU(d, v));
        sum = hn::MulAdd(e, e, sum);
      }
      sum = exp_f32(d, hn::Neg(hn::Mul(gamma, sum)));
    } else {
      for (int64_t f = 0; f < s.features; ++f, v += s.columns) sum = hn::MulAdd(hn::Set(d, x[f]), hn::LoadU(d, v), sum);
      if (s.kernel != SvmAttrs::Kernel::kLinear) sum = hn::MulAdd(gamma, sum, coef0);
      if (s.kernel == SvmAttrs::Kernel::kSigmoid) sum = tanh_f32(d, sum);
      if (s.kernel == SvmAttrs::Kernel::kPoly) {
        V power = hn::Set(d, 1.0f);
        for (int i = 0; i < s.degree; ++i) power = hn::Mul(power, sum);
        sum = power;
      }
    }
    hn::StoreU(sum, d, k + m);
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct SvmKey {
  const float* vectors;
  int64_t features;
  auto operator<=>(const SvmKey&) const = default;
};

class SvmF32 final : public Kernel {
 public:
  SvmF32(const KernelSpec& spec, int64_t rows, int64_t features)
      : attrs_(spec.node.attrs),
        a_(static_cast<const SvmAttrs&>(*attrs_)),
        row_(SMELT_FOR_LEVEL(spec.isa, svm_kernel_row)),
        rows_(rows) {
    const std::vector<float>& vectors = svm_vectors(a_);
    count_ = static_cast<int64_t>(vectors.size()) / features;
    const int64_t columns = round_up(count_, 16);
    packed_ = spec.packs.get(SvmKey{vectors.data(), features}, [&] {
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(features * columns) * sizeof(float));
      for (int64_t m = 0; m < count_; ++m)
        for (int64_t f = 0; f < features; ++f) packed->data<float>()[f * columns + m] = vectors[m * features + f];
      return packed;
    });
    columns_ = {nullptr,
                features,
                columns,
                a_.kernel,
                static_cast<float>(a_.gamma),
                static_cast<float>(a_.coef0),
                static_cast<int>(a_.degree)};
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(columns_.columns) * (sizeof(float) + sizeof(double)) + row_bytes();
  }
  Status run(KernelContext& ctx) const override {
    auto* wide = static_cast<double*>(ctx.scratch(scratch_bytes()));
    if (!wide) return Error(ErrorCode::kLimit, "no memory for the values of a kernel");
    auto* k = reinterpret_cast<float*>(wide + columns_.columns);
    const float* x = ctx.input(0).data<float>();
    SvmVectors columns = columns_;
    columns.vectors = packed_->data<float>();
    std::pmr::monotonic_buffer_resource memory(k + columns_.columns, row_bytes());
    SvmRow row(a_, {wide, static_cast<size_t>(count_)}, &memory);
    for (int64_t n = 0; n < rows_; ++n) {
      SMELT_TRY(ctx.tick());
      row_(columns, x + n * columns.features, k);
      for (int64_t m = 0; m < count_; ++m) wide[m] = static_cast<double>(k[m]);
      SMELT_TRY(svm_row(ctx, a_, n, row));
    }
    return Ok();
  }

 private:
  size_t row_bytes() const { return SvmRow::bytes(a_, static_cast<size_t>(count_)); }

  AttrsPtr attrs_;
  const SvmAttrs& a_;
  SvmKernelRow row_;
  int64_t rows_, count_ = 0;
  SvmVectors columns_{};
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_svm_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<SvmAttrs>();
  const auto rows = ml::rows_of(spec.inputs[0].shape);
  if (rows.features < 1 || svm_vectors(a).empty() || svm_vectors(a).size() % static_cast<size_t>(rows.features) != 0)
    return nullptr;
  constexpr double kMostFactors = 8;
  if (a.kernel == SvmAttrs::Kernel::kPoly &&
      !(a.degree >= 1 && a.degree <= kMostFactors && a.degree == std::floor(a.degree)))
    return nullptr;
  return std::make_unique<SvmF32>(spec, rows.count, rows.features);
}

}  // namespace smelt
#endif
