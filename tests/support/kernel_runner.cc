#include "tests/support/kernel_runner.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/node_facts.h"

namespace smelt::test {
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

KernelRunner::KernelRunner(const OpCase& c) : case_(c) {
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
  std::vector<ValueType> declared = c.outputs;
  declared.resize(std::max(declared.size(), static_cast<size_t>(info.min_outputs)));
  for (size_t i = 0; i < declared.size(); ++i) node_.outputs.push_back(static_cast<ValueId>(c.inputs.size() + i));
  out_types_ = declared;
  CaseInfer infer(node_, module_, in_types_, data_, out_types_, declared);
  infer_status_ = info.infer(infer);
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].dtype != DType::kInvalid) out_types_[i].dtype = declared[i].dtype;
    if (declared[i].quant) out_types_[i].quant = declared[i].quant;
  }
  take_largest({node_, in_types_, constants_, out_types_}, out_types_);
}

KernelSpec KernelRunner::spec(Isa isa, int threads, PackCache& packs) {
  return {{node_, in_types_, constants_, std::span<const ValueType>(out_types_)}, isa, threads, packs};
}

std::unique_ptr<Kernel> KernelRunner::make(const KernelInfo& info, Isa isa, int threads, PackCache& packs) {
  return info.prepare(spec(isa, threads, packs));
}

std::unique_ptr<Kernel> KernelRunner::make_before_weights(const KernelInfo& info, Isa isa, int threads) {
  auto kernel = make(info, isa, threads, dry_);
  if (!kernel || !kernel->takes_weights()) return nullptr;
  kernel->takes_weights()->take_weights(spec(isa, threads, packs_));
  return kernel;
}

const KernelInfo* KernelRunner::choose(Isa isa, PackCache::Mode mode) {
  const KernelInfo* chosen = nullptr;
  make_kernel(spec(isa, 1, mode == PackCache::Mode::kDry ? dry_ : packs_), &chosen);
  return chosen;
}

std::string KernelRunner::refusal(Isa isa) {
  std::string why;
  KernelSpec asked = spec(isa, 1, dry_);
  asked.why = &why;
  make_kernel(asked);
  return why;
}

Result<std::vector<Tensor>> KernelRunner::reference() {
  SMELT_TRY(infer_status_);
  KernelRunnerContext ctx(*this, 1, 0);
  SMELT_TRY(op_info(case_.op).reference(ctx));
  return std::move(ctx.outputs());
}

Result<std::vector<Tensor>> KernelRunner::run(const Kernel& kernel, int threads) {
  KernelRunnerContext ctx(*this, threads, kernel.scratch_bytes());
  for (Tensor& t : ctx.outputs()) std::memset(t.raw(), 0xa5, t.bytes());
  SMELT_TRY(kernel.run(ctx));
  return std::move(ctx.outputs());
}

Result<std::vector<std::vector<Tensor>>> KernelRunner::run_in_place(const Kernel& kernel, int threads) {
  std::vector<std::vector<Tensor>> all(data_.size());
  for (size_t i = 0; i < data_.size() && out_types_.size() == 1; ++i) {
    if (!data_[i].is_tensor() || constants_[i] || !kernel.may_overwrite(i)) continue;
    const Tensor x = data_[i].tensor;
    KernelRunnerContext ctx(*this, threads, kernel.scratch_bytes());
    Tensor& y = ctx.output(0);
    if (bit_width(x.dtype()) != bit_width(y.dtype()) || x.elements() != y.elements()) continue;
    std::memcpy(y.raw(), x.raw(), y.bytes());
    Tensor same = Tensor::view(x.dtype(), x.shape(), y.raw(), nullptr);
    same.set_quant(x.quant());
    data_[i] = Datum(std::move(same));
    const Status done = kernel.run(ctx);
    data_[i] = Datum(x);
    SMELT_TRY(done);
    all[i] = std::move(ctx.outputs());
  }
  return all;
}

KernelRunnerContext::KernelRunnerContext(KernelRunner& runner, int threads, size_t scratch_bytes)
    : runner_(runner), pool_(threads), fixed_bytes_((scratch_bytes + 63) / 64 * 64) {
  node_ = &runner.node_;
  for (const ValueType& type : runner.out_types_) {
    outputs_.emplace_back(type.dtype, type.shape);
    outputs_.back().set_quant(type.quant);
  }
  if (fixed_bytes_) fixed_ = std::aligned_alloc(64, fixed_bytes_);
}

KernelRunnerContext::~KernelRunnerContext() {
  std::free(fixed_);
  for (void* p : more_) std::free(p);
}

Result<Tensor*> KernelRunnerContext::allocate(int i, DType dtype, const Shape& shape) {
  output(i) = Tensor(dtype, shape);
  return &output(i);
}

void* KernelRunnerContext::scratch(size_t bytes) {
  if (fixed_ && bytes <= fixed_bytes_) return fixed_;
  more_.push_back(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
  return more_.back();
}

}  // namespace smelt::test
