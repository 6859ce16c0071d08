#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "backends/cpu/core/isa.h"
#include "backends/cpu/core/pack_cache.h"
#include "backends/cpu/core/workspace.h"
#include "base/cat.h"
#include "ops/core/kernel_condition.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"

namespace smelt {

/// What a kernel is chosen and prepared for. The spans and references are only valid during make_kernel().
struct KernelSpec : NodeSpec {
  Isa isa = Isa::kBaseline;
  int threads = 1;  ///< of the pool that run() will see
  PackCache& packs;
  std::string* why = nullptr;  ///< where refuse() writes; nullptr: nobody asks
  bool fixed_shapes = false;   ///< no kernel for other shapes is expected after this one

  /// What a packed form of the node's constants is made of: they, the level, `numbers` and `more` of them.
  PackContents contents(const char* form, std::vector<int64_t> numbers, std::initializer_list<int64_t> more = {}) const;

  /// Returns nullptr, for make_NAME() to return, and records why the kernel cannot run the node.
  std::nullptr_t refuse(const char* reason) const;
  template <class... Parts>
  std::nullptr_t refuse(const Parts&... parts) const {
    return why ? refuse(Cat(parts...).c_str()) : nullptr;
  }
};

struct EpilogueF32;
class RowStage;

/// A kernel whose packed weights can be changed.
class TakesWeights {
 public:
  /// Takes the packed weights from spec.packs: `spec` is what the kernel was made for, but for its packs.
  virtual void take_weights(const KernelSpec& spec) = 0;

 protected:
  ~TakesWeights() = default;
};

/// A prepared kernel: knows all shapes, holds packed weights. run() changes nothing, so one object may run in several
/// threads at once, each with a context of its own.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Bytes that run() asks ctx.scratch() for, in one call.
  virtual size_t scratch_bytes() const { return 0; }
  /// True if run() may be given an only output that is the storage of that input, which has as many bytes: it reads an
  /// element for the last time before it writes what takes its place.
  virtual bool may_overwrite(size_t /*input*/) const { return false; }
  /// Makes run() compute the epilogue on its output. False: the kernel takes none, or no further one.
  virtual bool take_epilogue(const EpilogueF32& /*epilogue*/) { return false; }
  /// What kernels that run others by bands of rows need of it; null: not to be run so.
  virtual RowStage* row_stage() { return nullptr; }
  /// Makes run() compute `next`, too, a convolution of its output. False: `next` stays where it is.
  virtual bool take_next(std::unique_ptr<Kernel>& /*next*/) { return false; }
  /// Inputs have the types of the spec, outputs are allocated with theirs. Allocates nothing.
  virtual Status run(KernelContext& ctx) const = 0;
  /// The kernel, if its weights can be changed; nullptr: another kernel has to be made.
  TakesWeights* takes_weights() const { return takes_weights_; }

 protected:
  TakesWeights* takes_weights_ = nullptr;
};

/// One entry of the kernel list, backends/cpu/core/kernels.inc.
struct KernelInfo {
  const char* name;
  Op op;
  Isa isa;  ///< features that it needs
  const char* doc;
  KernelCondition condition;
  std::unique_ptr<Kernel> (*make)(const KernelSpec&);  ///< may assume the condition; nullptr: cannot run the node

  /// The kernel prepared for the node; nullptr where isa, condition or make() say no.
  std::unique_ptr<Kernel> prepare(const KernelSpec& spec) const;
};

std::span<const KernelInfo> all_kernels();

/// The first kernel of the list that can run the node; nullptr: the reference kernel runs it, and spec.why, unless
/// nullptr, says for each kernel of the operator why it cannot.
std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);

}  // namespace smelt
