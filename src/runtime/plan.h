#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/vulkan/device/backend.h"
#include "runtime/arena.h"
#include "runtime/environment.h"
#include "runtime/loop_values.h"
#include "runtime/shape_guard.h"

namespace smelt::vulkan {
class Program;
}

namespace smelt {

class PlannedEnvironment;

/// What one node became.
struct Step {
  enum class Kind : uint8_t {
    kKernel,     ///< a fast kernel on preallocated outputs
    kReference,  ///< the reference kernel on preallocated outputs
    kGeneric,    ///< shapes depend on data, or containers: allocates as it runs
    kAlias,      ///< the output is the input's storage under another shape
    kStateRead,  ///< the variable's own storage
    kStateCopy,  ///< a copy of the variable, because it is written while the value is still used
    kStateWrite,
    kDevice,       ///< part of a segment that runs on the device, all of it with its first step
    kDeviceAlias,  ///< another shape of a value on the device
    kDeviceRead,   ///< the variable's own memory on the device
    kDeviceWrite,  ///< done by the segment that is done with the variable
  };
  Kind kind = Kind::kGeneric;
  const Node* node = nullptr;
  std::shared_ptr<const Kernel> kernel;  ///< plans of one graph share it where it does the same
  const char* kernel_name = "reference";
  std::vector<int32_t> in, out;      ///< slots; -1: absent
  std::vector<int32_t> dead;         ///< heap values that nobody uses after this step
  Shape shape;                       ///< kAlias
  DType dtype{};                     ///< kAlias
  QuantPtr quant;                    ///< kAlias
  std::string host_reason;           ///< with a device: why the step is not on it
  std::string storage;               ///< kDevice: the form of textures that it works on; "": buffers
  std::unique_ptr<LoopValues> loop;  ///< While: made by its first run
  bool alone = false;                ///< kKernel: one thread, for little work
  bool empty = false;                ///< kReference: no output has elements, so the kernel does not run
  int32_t segment = -1;              ///< kDevice: this step runs that segment of the program
  double micros = 0;
  uint64_t calls = 0;
};

/// What crosses between the host and the device in one run.
struct Copies {
  size_t up = 0, down = 0, bytes_up = 0, bytes_down = 0;
  size_t conversions = 0;  ///< on the device, of a value between buffer and texture or two textures
};

/// Memory of activations, allocated without contents.
class ArenaMemory {
 public:
  /// Null: there is no memory.
  static std::shared_ptr<ArenaMemory> make(size_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

/// A graph made ready for one set of input shapes: kernels chosen, activations laid out in one arena.
class Plan {
 public:
  /// `inputs` are the concrete types of the graph's inputs; `given` they themselves, or none: unknown contents.
  /// `before`: another plan of the graph, from which this one takes what holds for both; null: none.
  static Result<std::unique_ptr<Plan>> build(PlannedEnvironment& env, int graph, std::span<const ValueType> inputs,
                                             std::span<const Datum> given, int depth, const Plan* before);

  /// Contents are read where shapes follow from them, unless `by_types`.
  bool fits(std::span<const Datum> inputs, bool by_types) const;
  /// Whether it was made for depth 0: such plans share one arena, and run one at a time.
  bool outermost() const { return outermost_; }
  /// Lets go of what it was given to run on: plans that wait keep no caller's memory.
  void release_inputs();
  /// Outputs at depth 0 may lie in the arena and are valid until the next run at depth 0; deeper they own their
  /// storage, unless they are borrowed until the next run.
  Status run(PlannedEnvironment& env, std::span<const Datum> inputs, int depth, std::vector<Datum>& outputs,
             bool borrow = false);

  size_t arena_bytes() const { return arena_bytes_; }
  size_t arena_lower_bound() const { return arena_lower_bound_; }
  const std::vector<Step>& steps() const { return steps_; }
  const Graph& graph() const { return *graph_; }
  /// Of a value as planned. Precondition: a value of the graph.
  const ValueType& type(ValueId id) const { return types_[static_cast<size_t>(id)]; }
  /// What runs on the device; null: nothing.
  const vulkan::Program* program() const { return program_.get(); }
  size_t device_arena_bytes() const { return device_arena_bytes_; }
  size_t device_arena_lower_bound() const { return device_arena_lower_bound_; }
  const Copies& copies() const { return copies_; }
  Plan();
  ~Plan();
  /// "float32[1,10]" of a value as planned; "" for kNoValue.
  std::string type_text(ValueId id) const;

 private:
  friend class PlanBuilder;
  friend class KnownValues;
  Status run_step(PlannedEnvironment& env, Step& step, int depth);
  Status run_while(PlannedEnvironment& env, Step& step, int depth);
  /// Whether an output is an input that owns its storage: it goes on as it is.
  bool passed_on(ValueId id) const;
  /// Adds what the nodes of the segment that starts at step `first` took on the device.
  void device_times(std::ptrdiff_t first);

  const Graph* graph_ = nullptr;
  std::vector<ValueType> inputs_;
  std::vector<ShapeGuard> guards_;
  std::vector<ValueType> types_;  ///< of every value, as far as planning knew
  std::vector<bool> settled_;     ///< by value: its slot holds what planning knew, and no step makes it
  bool complete_ = false;         ///< no slot of these was emptied
  bool outermost_ = false;
  std::vector<int32_t> step_of_;  ///< by node of the graph; -1: none
  std::vector<Step> steps_;
  std::vector<Datum> slots_;
  std::unique_ptr<PackCache> packs_;  ///< of constants that planning computed
  std::shared_ptr<ArenaMemory> arena_;
  size_t arena_bytes_ = 0, arena_lower_bound_ = 0;
  size_t device_arena_bytes_ = 0, device_arena_lower_bound_ = 0;
  Copies copies_;
  std::unique_ptr<vulkan::Program> program_;
  std::vector<Datum> generic_in_, generic_out_;
};

/// The device that a session asks for; null with other back-ends. An error where it lacks what the options ask of it.
Result<std::shared_ptr<vulkan::Device>> device_for(const SessionOptions& options);

/// Runs graphs by plans, which it keeps per graph and input shapes.
class PlannedEnvironment final : public Environment {
 public:
  /// What runs on a GPU: none of it without one.
  struct Gpu {
    std::shared_ptr<vulkan::Device> device;
    std::shared_ptr<vulkan::WeightStore> weights;  ///< null: plans are laid out, never run
  };
  PlannedEnvironment(std::shared_ptr<const Module> module, const SessionOptions& options,
                     std::shared_ptr<PackCache> packs, Gpu gpu = {});
  Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs, int depth) override;
  Result<bool> run_fast(const Graph& graph, const Node& node, KernelContext& ctx, std::span<const ValueType> inputs,
                        std::span<const ValueType> outputs) override;
  /// The entry: outputs are valid until the next run; those of graphs inside own their storage unless borrowed.
  Status run(int graph, std::span<const Datum> inputs, int depth, std::vector<Datum>& outputs, bool borrow = false);

  Isa isa() const { return isa_; }
  PackCache& packs() { return *packs_; }
  const std::vector<std::unique_ptr<Plan>>& plans(int graph) const { return plans_[static_cast<size_t>(graph)]; }
  const Plan* latest(int graph) const;  ///< the plan that ran last; null before the first run
  /// Makes the plan for inputs of these types without running it.
  Result<const Plan*> prepare(int graph, std::span<const ValueType> inputs);
  friend class KnownValues;
  /// The kernel of a node whose shapes are known only as it runs, for the types that it ran with last.
  struct LateKernel {
    std::vector<ValueType> inputs, outputs;
    std::unique_ptr<Kernel> kernel;
  };
  /// Finds or makes the plan for inputs like these. `by_types`: contents are not to be read.
  Result<Plan*> plan_for(int graph, std::span<const Datum> inputs, int depth = 0, bool by_types = false);
  void reset_state() override;
  /// Memory for a plan of the outermost graph, which all of them use in turn: of what was made last if that suits.
  /// Null: there is none.
  std::shared_ptr<ArenaMemory> outermost_arena(size_t bytes);
  ScratchStack scratch;
  const Gpu gpu;
  /// Variables on the device; null without one.
  const std::shared_ptr<vulkan::StateStore> device_states;

 private:
  Result<Plan*> add_plan(int graph, std::span<const ValueType> inputs, std::span<const Datum> given, int depth);
  Isa isa_;
  std::shared_ptr<PackCache> packs_;
  std::shared_ptr<ArenaMemory> outermost_arena_;
  std::map<const Node*, LateKernel> late_;
  bool planning_ = false;                                  ///< what is computed now runs only once
  std::vector<std::vector<std::unique_ptr<Plan>>> plans_;  ///< by graph, most recently used first
};

}  // namespace smelt
