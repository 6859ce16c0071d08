#include "tests/support/cpu_case.h"

#include <algorithm>
#include <cstring>

#include "tensor/numeric.h"

namespace smelt::testing {
namespace {

class CaseInfer final : public InferContext {
 public:
  CaseInfer(const Node& node, const Module& module, const std::vector<ValueType>& in, const std::vector<Datum>& data,
            std::vector<ValueType>& out, const std::vector<ValueType>& declared)
      : module_(module), in_(in), data_(data), out_(out), declared_(declared) {
    node_ = &node;
  }
  const ValueType& input(int i) const override { return in_[static_cast<size_t>(i)]; }
  const Tensor* constant(int i) const override {
    const Datum& d = data_[static_cast<size_t>(i)];
    return d.is_tensor() ? &d.tensor : nullptr;
  }
  const Module& module() const override { return module_; }
  void set(int i, ValueType type) override {
    if (wants(i)) out_[static_cast<size_t>(i)] = std::move(type);
  }
  const ValueType& declared(int i) const override { return declared_[static_cast<size_t>(i)]; }

 private:
  const Module& module_;
  const std::vector<ValueType>& in_;
  const std::vector<Datum>& data_;
  std::vector<ValueType>& out_;
  const std::vector<ValueType>& declared_;
};

}  // namespace

CaseRunner::CaseRunner(const KernelCase& c) : case_(c) {
  node_.op = c.op;
  node_.attrs = c.attrs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& t = c.inputs[i];
    node_.inputs.push_back(t.defined() ? static_cast<ValueId>(i) : kNoValue);
    in_types_.push_back(t.defined() ? ValueType::tensor(t.dtype(), t.shape(), t.quant()) : ValueType{});
    constants_.push_back(t.defined() && c.is_constant(i) ? &t : nullptr);
    data_.push_back(t.defined() ? Datum(t) : Datum());
  }
  const OpInfo& info = op_info(c.op);
  std::vector<ValueType> declared{c.output};
  declared.insert(declared.end(), c.others.begin(), c.others.end());
  declared.resize(std::max(declared.size(), static_cast<size_t>(info.min_outputs)));
  for (size_t i = 0; i < declared.size(); ++i) node_.outputs.push_back(static_cast<ValueId>(c.inputs.size() + i));
  out_types_ = declared;
  CaseInfer infer(node_, module_, in_types_, data_, out_types_, declared);
  infer_status_ = info.infer(infer);
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].dtype != DType::kInvalid) out_types_[i].dtype = declared[i].dtype;
    if (declared[i].quant) out_types_[i].quant = declared[i].quant;
  }
}

KernelSpec CaseRunner::spec(Isa isa, int threads, PackCache& packs) {
  return {{node_, in_types_, constants_, std::span<const ValueType>(out_types_)}, isa, threads, packs};
}

std::unique_ptr<Kernel> CaseRunner::make(const KernelInfo& info, Isa isa, int threads) {
  return info.prepare(spec(isa, threads, packs_));
}

const KernelInfo* CaseRunner::choose(Isa isa, PackCache::Mode mode) {
  const KernelInfo* chosen = nullptr;
  make_kernel(spec(isa, 1, mode == PackCache::Mode::kDry ? dry_ : packs_), &chosen);
  return chosen;
}

std::string CaseRunner::refusal(Isa isa) {
  std::string why;
  KernelSpec asked = spec(isa, 1, dry_);
  asked.why = &why;
  make_kernel(asked);
  return why;
}

Result<std::vector<Tensor>> CaseRunner::reference() {
  SMELT_TRY(infer_status_);
  CaseContext ctx(*this, 1, 0);
  SMELT_TRY(op_info(case_.op).reference(ctx));
  return std::move(ctx.outputs());
}

Result<std::vector<Tensor>> CaseRunner::run(const Kernel& kernel, int threads) {
  CaseContext ctx(*this, threads, kernel.scratch_bytes());
  for (Tensor& t : ctx.outputs()) std::memset(t.raw(), 0xa5, t.bytes());
  SMELT_TRY(kernel.run(ctx));
  return std::move(ctx.outputs());
}

CaseContext::CaseContext(CaseRunner& runner, int threads, size_t scratch_bytes)
    : runner_(runner), pool_(threads), fixed_bytes_((scratch_bytes + 63) / 64 * 64) {
  node_ = &runner.node_;
  for (const ValueType& type : runner.out_types_) {
    outputs_.emplace_back(type.dtype, type.shape);
    outputs_.back().set_quant(type.quant);
  }
  if (fixed_bytes_) fixed_ = std::aligned_alloc(64, fixed_bytes_);
}

CaseContext::~CaseContext() {
  std::free(fixed_);
  for (void* p : more_) std::free(p);
}

Result<Tensor*> CaseContext::allocate(int i, DType dtype, const Shape& shape) {
  output(i) = Tensor(dtype, shape);
  return &output(i);
}

void* CaseContext::scratch(size_t bytes) {
  if (fixed_ && bytes <= fixed_bytes_) return fixed_;
  more_.push_back(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
  return more_.back();
}

Tensor random_tensor(DType dtype, const Shape& shape, double lo, double hi, uint32_t seed) {
  Tensor t(dtype, shape);
  std::mt19937 gen(seed);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double u = static_cast<double>(gen()) / 4294967296.0;
    if (is_float(dtype))
      set_double(t, i, lo + u * (hi - lo));
    else
      set_int(t, i, static_cast<int64_t>(lo + u * (hi - lo + 1)));
  }
  return t;
}

Tensor f32(const Shape& shape, uint32_t seed) { return random_tensor(DType::kF32, shape, -2, 2, seed); }

Tensor i64(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
}

QuantPtr per_tensor(float scale, int32_t zero_point, Rounding rounding) {
  auto q = std::make_shared<Quantization>();
  q->scales = {scale};
  q->zero_points = {zero_point};
  q->rounding = rounding;
  return q;
}

Tensor quantized(DType dtype, const Shape& shape, float scale, int32_t zero_point, uint32_t seed) {
  Tensor t =
      random_tensor(dtype, shape, static_cast<double>(int_min(dtype)), static_cast<double>(int_max(dtype)), seed);
  t.set_quant(per_tensor(scale, zero_point, Rounding::kFixedDouble));
  return t;
}

QuantPtr per_axis(std::vector<float> scales, int axis, std::vector<int32_t> zero_points) {
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerAxis;
  q->scales = std::move(scales);
  q->zero_points = std::move(zero_points);
  q->axis = axis;
  return q;
}

}  // namespace smelt::testing
