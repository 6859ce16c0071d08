#include "ops/common/run_reference.h"

#include <cstdlib>

namespace smelt {
namespace {

class LoneContext final : public KernelContext {
 public:
  LoneContext(const Node& node, std::vector<Datum> inputs, std::vector<Tensor> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), pool_(1) {
    node_ = &node;
  }
  ~LoneContext() override {
    for (void* p : memory_) std::free(p);
  }
  const Datum& datum(int i) const override { return inputs_[static_cast<size_t>(i)]; }
  Tensor& output(int i) override { return outputs_[static_cast<size_t>(i)]; }
  Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) override {
    SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape));
    output(i) = std::move(t);
    return &output(i);
  }
  void set_output(int, Datum) override {}
  void* scratch(size_t bytes) override {
    memory_.push_back(std::aligned_alloc(64, (bytes + 128) / 64 * 64));
    return memory_.back();
  }
  ThreadPool& threads() override { return pool_; }
  Result<std::vector<Datum>> call(int, std::span<const Datum>) override {
    return Error(ErrorCode::kInternal, "a lone node calls a graph");
  }
  Datum& state(int) override { return state_; }
  Status tick() override { return Ok(); }
  uint64_t random() override { return 0; }
  const Module& module() const override { return module_; }
  QuantPtr output_quant(int i) const override { return outputs_[static_cast<size_t>(i)].quant(); }
  std::vector<Tensor> take() { return std::move(outputs_); }

 private:
  std::vector<Datum> inputs_;
  std::vector<Tensor> outputs_;
  ThreadPool pool_;
  std::vector<void*> memory_;
  Datum state_;
  Module module_;
};

}  // namespace

Result<std::vector<Tensor>> run_reference(const Node& node, std::vector<Datum> inputs, std::vector<Tensor> outputs) {
  const OpInfo& info = op_info(node.op);
  if (!info.reference) return Unsupported("operator ", info.name, " has no reference kernel");
  LoneContext ctx(node, std::move(inputs), std::move(outputs));
  SMELT_TRY(info.reference(ctx));
  return ctx.take();
}

}  // namespace smelt
