// For tests and benchmarks: runs one node with the reference kernel and with kernels of the CPU's list.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "tests/support/op_case.h"

namespace smelt::test {

/// The graph, types and contexts of a case, which must outlive it.
class KernelRunner {
 public:
  explicit KernelRunner(const OpCase& c);
  explicit KernelRunner(OpCase&&) = delete;
  /// All outputs.
  Result<std::vector<Tensor>> reference();
  /// The kernel of this entry for a level, or null when it does not apply.
  std::unique_ptr<Kernel> make(const KernelInfo& info, Isa isa, int threads = 1) {
    return make(info, isa, threads, packs_);
  }
  std::unique_ptr<Kernel> make(const KernelInfo& info, Isa isa, int threads, PackCache& packs);
  /// A kernel that is made without weights and takes them then; nullptr: it takes none.
  std::unique_ptr<Kernel> make_before_weights(const KernelInfo& info, Isa isa, int threads);
  /// The kernel of the list that is chosen for a level, with packed weights or with a cache that packs none; null:
  /// none.
  const KernelInfo* choose(Isa isa, PackCache::Mode mode);
  /// Why no kernel of the list runs the case at a level.
  std::string refusal(Isa isa);
  /// All outputs. The kernel finds their elements undefined.
  Result<std::vector<Tensor>> run(const Kernel& kernel, int threads = 1);
  /// As run(), with the only output in the storage of each input in turn that the kernel may overwrite; by input, empty
  /// for others.
  Result<std::vector<std::vector<Tensor>>> run_in_place(const Kernel& kernel, int threads = 1);
  Status shape_error() const { return infer_status_; }
  KernelSpec spec(Isa isa, int threads, PackCache& packs);

 private:
  friend class KernelRunnerContext;
  const OpCase& case_;
  Module module_;
  Node node_;
  std::vector<ValueType> in_types_, out_types_;
  std::vector<const Tensor*> constants_;
  std::vector<Datum> data_;
  PackCache packs_, dry_{PackCache::Mode::kDry};
  Status infer_status_;
};

/// A KernelContext that keeps its memory, for repeated runs.
class KernelRunnerContext final : public KernelContext {
 public:
  KernelRunnerContext(KernelRunner& runner, int threads, size_t scratch_bytes);
  ~KernelRunnerContext() override;
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
  KernelRunner& runner_;
  std::vector<Tensor> outputs_;
  ThreadPool pool_;
  Datum state_;
  void* fixed_ = nullptr;
  size_t fixed_bytes_ = 0;
  std::vector<void*> more_;
};

}  // namespace smelt::test
