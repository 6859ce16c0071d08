// For tests and benchmarks: runs one node with the reference kernel and with kernels of the list.
#pragma once

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "ops/core/op.h"

namespace smelt::testing {

/// One operator with its operands. Inputs 1.. are constants unless `dynamic` says otherwise.
struct KernelCase {
  std::string label;
  Op op;
  AttrsPtr attrs;
  std::vector<Tensor> inputs;  ///< undefined: absent
  ValueType output;            ///< dtype and quantization; the shape is filled in by inference
  std::vector<bool> dynamic;   ///< by input; missing entries: only input 0 is computed
  bool threaded = false;       ///< check it with several threads too
  /// Outputs behind the first; those that the operator always has need not be named.
  std::vector<ValueType> others = {};
  bool is_constant(size_t i) const { return i < dynamic.size() ? !dynamic[i] : i > 0; }
};

/// The graph, types and contexts of a case.
class CaseRunner {
 public:
  explicit CaseRunner(const KernelCase& c);
  /// All outputs.
  Result<std::vector<Tensor>> reference();
  /// The kernel of this entry for a level, or null when it does not apply.
  std::unique_ptr<Kernel> make(const KernelInfo& info, Isa isa, int threads = 1);
  /// The kernel of the list that is chosen for a level, with packed weights or with a cache that packs none; null:
  /// none.
  const KernelInfo* choose(Isa isa, PackCache::Mode mode);
  /// Why no kernel of the list runs the case at a level.
  std::string refusal(Isa isa);
  /// All outputs. The kernel finds their elements undefined.
  Result<std::vector<Tensor>> run(const Kernel& kernel, int threads = 1);
  Status shape_error() const { return infer_status_; }

 private:
  friend class CaseContext;
  KernelSpec spec(Isa isa, int threads, PackCache& packs);
  const KernelCase& case_;
  Module module_;
  Node node_;
  std::vector<ValueType> in_types_, out_types_;
  std::vector<const Tensor*> constants_;
  std::vector<Datum> data_;
  PackCache packs_, dry_{PackCache::Mode::kDry};
  Status infer_status_;
};

/// A context that keeps its memory, for repeated runs.
class CaseContext final : public KernelContext {
 public:
  CaseContext(CaseRunner& runner, int threads, size_t scratch_bytes);
  ~CaseContext() override;
  const Datum& datum(int i) const override { return runner_.data_[static_cast<size_t>(i)]; }
  Tensor& output(int i) override { return outputs_[static_cast<size_t>(i)]; }
  std::vector<Tensor>& outputs() { return outputs_; }
  Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) override;
  void set_output(int, Datum) override {}
  void* scratch(size_t bytes) override;
  ThreadPool& threads() override { return pool_; }
  Result<std::vector<Datum>> call(int, std::span<const Datum>) override { return std::vector<Datum>{}; }
  Datum& state(int) override { return state_; }
  Status tick() override { return Ok(); }
  uint64_t random() override { return 0; }
  const Module& module() const override { return runner_.module_; }
  QuantPtr output_quant(int i) const override { return runner_.out_types_[static_cast<size_t>(i)].quant; }

 private:
  CaseRunner& runner_;
  std::vector<Tensor> outputs_;
  ThreadPool pool_;
  Datum state_;
  void* fixed_ = nullptr;
  size_t fixed_bytes_ = 0;
  std::vector<void*> more_;
};

/// Random tensors. Integers over [lo, hi], floats uniform between them.
Tensor random_tensor(DType dtype, const Shape& shape, double lo, double hi, uint32_t seed);
/// Random float32 in [-2, 2].
Tensor f32(const Shape& shape, uint32_t seed = 1);
/// int64 values, as axes and sizes are given.
Tensor i64(const std::vector<int64_t>& values);
QuantPtr per_tensor(float scale, int32_t zero_point, Rounding rounding = Rounding::kFloatHalfEven);
/// Random integers over the whole range of `dtype`, quantized per tensor with TFLite's double rounding.
Tensor quantized(DType dtype, const Shape& shape, float scale, int32_t zero_point, uint32_t seed);
QuantPtr per_axis(std::vector<float> scales, int axis, std::vector<int32_t> zero_points = {});

}  // namespace smelt::testing
