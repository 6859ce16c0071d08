#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/executorch/delegate.h"
#include "formats/executorch/plan.h"
#include "ops/core/builder.h"

namespace smelt::executorch {

/// State that all blocks of a method share.
struct MethodContext {
  Module& module;
  const ProgramFile& file;
  const Plan& plan;
  size_t budget = 0;                   ///< instructions that may still be lowered: hostile nests of loops end here
  std::map<uint32_t, int> partitions;  ///< delegate -> Module::partitions
  bool keep_unknown = false;           ///< the rule unknown-operator is waived
};

/// Lowers a range of a plan's instructions into one graph. Every program value that lies in memory has a current graph
/// value, and views of one memory share a storage, so that a write through one is seen by all.
class BlockLowering {
 public:
  BlockLowering(MethodContext& context, int graph) : m_(context), builder_(context.module, graph) {
    bindings_.resize(context.plan.values.size());
  }
  Builder& builder() { return builder_; }

  /// Lowers instructions [begin, end). `loop` is the header of the loop whose body this is, else SIZE_MAX.
  Status run(size_t begin, size_t end, int depth, size_t loop = SIZE_MAX);

  bool bound(int32_t at) const { return bindings_[static_cast<size_t>(at)].storage >= 0; }
  /// The current graph value: of a tensor, or of a number as a scalar tensor.
  Result<ValueId> value(int32_t at);
  /// Gives `at` a storage of its own that holds `value`.
  void bind(int32_t at, ValueId value);
  /// `at` becomes a view of the storage of `of`, seen as `value`.
  void bind_view(int32_t at, int32_t of, ValueId value);
  /// The memory of `at` takes new contents: its views see them.
  void write(int32_t at, ValueId value);
  /// The entry of a delegate of the method among the module's partitions; calls of one delegate share it.
  int partition(uint32_t delegate, std::string backend, size_t blob_bytes);

 private:
  struct Binding {
    int storage = -1;
    ValueId seen = kNoValue;  ///< the value as of `version`
    int version = 0;
  };
  struct Storage {
    ValueId current = kNoValue;
    int version = 0;
  };

  /// Instructions [begin, end): the one at `end` jumps back to `begin`. `exit` is the jump that leaves the loop, or
  /// `end` when the jump back itself decides.
  struct Loop {
    size_t begin = 0, end = 0, exit = 0;
    bool leaves_early() const { return exit != end; }
  };

  Status step(size_t at);
  Status call(const Instruction& in);
  Status delegate(const Instruction& in);
  Status move(const Instruction& in);
  Status view(const Instruction& in);
  Result<aten::Arg> argument(int32_t at);
  Result<aten::Arg> list_argument(const PlanValue& v);
  ValueType declared(int32_t at) const;

  // Control flow.
  std::optional<bool> constant_condition(int32_t at) const;
  Result<ValueId> condition(int32_t at);
  Result<size_t> branch(size_t at, size_t end, int depth);
  Status loop(size_t begin, size_t end, int depth);
  Status build_loop(const Loop& loop, int depth, const std::vector<int32_t>& carried,
                    const std::vector<int32_t>& captured);
  Result<ValueId> initial(int32_t at, size_t begin, size_t end);
  /// A block of a new graph whose inputs are the given values of this one.
  std::unique_ptr<BlockLowering> inner(const std::string& name, const std::vector<int32_t>& captured);
  int new_graph(const std::string& name);

  MethodContext& m_;
  Builder builder_;
  std::vector<Binding> bindings_;
  std::vector<Storage> storages_;
  std::map<int32_t, ValueId> constants_;
};

}  // namespace smelt::executorch
