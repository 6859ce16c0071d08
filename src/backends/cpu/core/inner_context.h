#pragma once

#include <span>
#include <utility>
#include <vector>

#include "ops/core/op.h"

namespace smelt {

/// The context of a kernel that another kernel runs on inputs and an output of its own. `inputs`: by position; those
/// that are none are the outer kernel's. `scratch`: as much memory as the inner kernel asks for. `node`: the inner
/// kernel's, where it is not the outer one's.
class InnerContext final : public KernelContext {
 public:
  InnerContext(KernelContext& outer, std::span<const Datum> inputs, Tensor& output, void* scratch,
               const Node* node = nullptr)
      : outer_(outer), inputs_(inputs), output_(output), scratch_(scratch) {
    node_ = node ? node : &outer.node();
  }
  const Datum& datum(int i) const override {
    const Datum& d = inputs_[static_cast<size_t>(i)];
    return d.none() ? outer_.datum(i) : d;
  }
  Tensor& output(int) override { return output_; }
  Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) override { return outer_.allocate(i, dtype, shape); }
  void set_output(int i, Datum value) override { outer_.set_output(i, std::move(value)); }
  void* scratch(size_t) override { return scratch_; }
  ThreadPool& threads() override { return outer_.threads(); }
  Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs) override {
    return outer_.call(graph, inputs);
  }
  Datum& state(int index) override { return outer_.state(index); }
  Status tick() override { return outer_.tick(); }
  uint64_t random() override { return outer_.random(); }
  const Module& module() const override { return outer_.module(); }
  QuantPtr output_quant(int) const override { return nullptr; }

 private:
  KernelContext& outer_;
  std::span<const Datum> inputs_;
  Tensor& output_;
  void* scratch_;
};

}  // namespace smelt
