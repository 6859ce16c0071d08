// The GPU behind the back-end interface: a plan's partitions share one arena on the device, and each is a command
// buffer that is recorded once.
#include "backends/backend.h"
#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/storage_choice.h"
#include "backends/vulkan/record/program.h"
#include "backends/vulkan/record/program_layout.h"
#include "backends/vulkan/record/states.h"
#include "backends/vulkan/record/weights.h"

namespace smelt::vulkan {
namespace {

/// A submission and the wait for it take about 20 microseconds: less element operations are done sooner by the host.
constexpr double kMinIslandWork = 16'000;

struct VulkanDevice final : BackendDevice {
  explicit VulkanDevice(std::shared_ptr<Device> d) : device(std::move(d)) {}
  bool lost() const override { return device->lost(); }
  bool same(const BackendDevice& other) const override {
    return static_cast<const VulkanDevice&>(other).device == device;
  }
  std::shared_ptr<Device> device;
};

struct VulkanNode final : PreparedNode {
  std::unique_ptr<Kernel> kernel;
  const char* name = "";
  std::vector<ValueType> outputs;
};

class ProgramSegment final : public Segment {
 public:
  ProgramSegment(std::shared_ptr<Program> program, int index) : program_(std::move(program)), index_(index) {}
  Status run(KernelContext& context, std::span<const Datum> values) override {
    if (!program_) return Internal("a plan that only shows what would run was run");
    return program_->run(index_, values, context);
  }
  std::span<const double> node_micros() const override {
    return program_ ? std::span<const double>(program_->node_micros(index_)) : std::span<const double>();
  }

 private:
  std::shared_ptr<Program> program_;  ///< null: CompileMode::kDry
  int index_;
};

class VulkanPlanCompiler final : public PlanCompiler {
 public:
  VulkanPlanCompiler(const ProgramOptions& options, std::function<Status(size_t)> check_memory)
      : options_(options), check_memory_(std::move(check_memory)) {}

  std::unique_ptr<PreparedNode> prepare(const NodeRequest& request, std::string* why) override {
    KernelSpec spec{{request}, *options_.device};
    spec.fp16 = options_.fp16;
    const KernelInfo* chosen = nullptr;
    auto kernel = make_kernel(spec, &chosen);
    if (!kernel) {
      if (why) *why = refusal(spec);
      return nullptr;
    }
    auto node = std::make_unique<VulkanNode>();
    node->kernel = std::move(kernel);
    node->name = chosen->name;
    node->outputs.assign(request.outputs.begin(), request.outputs.end());
    return node;
  }

  Result<CompiledPlan> compile(const PlanOutline& plan) override {
    CompiledPlan out;
    std::vector<ProgramNode> nodes;
    for (PlannedNode& n : plan.nodes) {
      ProgramNode& node = nodes.emplace_back();
      node.node = n.node;
      node.placement = n.placement;
      if (n.placement != Placement::kHere) continue;
      auto& prepared = static_cast<VulkanNode&>(*n.prepared);
      node.kernel = std::move(prepared.kernel);
      node.kernel_name = prepared.name;
    }
    choose_storage(plan.graph, nodes, options_.storage, options_.device->info(),
                   [&](size_t k, const TextureForm& form, const InputImages& inputs, const char** name) {
                     return texture_kernel(plan, k, form, inputs, name);
                   });
    SMELT_ASSIGN(ProgramLayout layout, lay_out_program(plan, nodes, options_, check_memory_));
    const std::shared_ptr<Program> program = std::move(layout.program);
    for (size_t i = 0; i < plan.partitions.size(); ++i)
      out.segments.push_back(std::make_shared<ProgramSegment>(program, static_cast<int>(i)));
    for (ProgramNode& n : nodes) out.nodes.push_back({n.kernel_name, std::move(n.storage)});
    out.views = std::move(layout.views);
    out.use = layout.use;
    return out;
  }

 private:
  /// The kernel that gives the results of node k as textures; null: there is none.
  std::unique_ptr<Kernel> texture_kernel(const PlanOutline& plan, size_t k, const TextureForm& form,
                                         const InputImages& inputs, const char** name) const {
    const PlannedNode& n = plan.nodes[k];
    std::vector<ValueType> types;
    std::vector<const Tensor*> constants;
    for (ValueId id : n.node->inputs) {
      const PlannedValue* v = id == kNoValue ? nullptr : &plan.values[static_cast<size_t>(id)];
      types.push_back(v ? *v->type : ValueType{});
      constants.push_back(!v ? nullptr : v->model_lifetime ? plan.graph.value(id).constant.get() : v->content);
    }
    KernelSpec spec{
        {*n.node, types, constants, static_cast<const VulkanNode&>(*n.prepared).outputs}, *options_.device, form};
    spec.images = inputs;
    spec.fp16 = spec.form.float16 = options_.fp16;
    const KernelInfo* chosen = nullptr;
    auto kernel = make_texture_kernel(spec, &chosen);
    if (kernel) *name = chosen->name;
    return kernel;
  }

  const ProgramOptions& options_;
  std::function<Status(size_t)> check_memory_;
};

class VulkanSession final : public BackendSession {
 public:
  explicit VulkanSession(ProgramOptions options) : options_(std::move(options)), states_(*options_.states) {}
  MemorySpace memory() const override { return MemorySpace::kDevice; }
  std::unique_ptr<PlanCompiler> begin_plan(const std::function<Status(size_t)>& check_memory) override {
    return std::make_unique<VulkanPlanCompiler>(options_, check_memory);
  }
  PartitionCost partition_cost() const override { return {kMinIslandWork}; }
  bool holds(const ValueType& type) const override { return options_.device->stores(type.dtype); }
  Status fetch_state(int index, Tensor& host) override { return states_.to_host(index, host); }
  void state_written(int index) override { states_.written_on_host(index); }
  void all_states_written() override { states_.all_written_on_host(); }
  size_t state_bytes() const override { return states_.bytes(); }
  uint64_t state_copies() const override { return states_.copies(); }

 private:
  ProgramOptions options_;
  StateStore& states_;
};

class VulkanModel final : public BackendModel {
 public:
  VulkanModel(std::shared_ptr<Device> device, CompileMode mode)
      : device_(std::move(device)),
        weights_(mode == CompileMode::kRun ? std::make_shared<WeightStore>(device_) : nullptr) {}
  std::unique_ptr<BackendSession> make_session(const SessionOptions& options, int threads) override {
    return std::make_unique<VulkanSession>(ProgramOptions{.device = device_,
                                                          .weights = weights_,
                                                          .states = std::make_shared<StateStore>(device_),
                                                          .storage = options.device_storage,
                                                          .fp16 = options.fp16,
                                                          .profile = options.profile,
                                                          .threads = threads});
  }
  size_t weight_bytes() const override { return weights_ ? weights_->bytes() : 0; }

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<WeightStore> weights_;
};

class VulkanBackend final : public Backend {
 public:
  const char* name() const override { return "vulkan"; }
  MemorySpace memory() const override { return MemorySpace::kDevice; }
  GraphRequirements requirements() const override { return {.dynamic_quantize = true}; }
  Result<std::shared_ptr<BackendDevice>> open(const SessionOptions& options) const override {
    SMELT_ASSIGN(auto device, Device::open(options.device));
    const DeviceInfo& info = device->info();
    if (options.fp16 && !info.fp16)
      return Error(ErrorCode::kDevice, Cat("device ", info.index, ", ", info.name,
                                           ", can't multiply in float16: it has no 16-bit arithmetic or storage "
                                           "(shaderFloat16, storageBuffer16BitAccess)"));
    return std::shared_ptr<BackendDevice>(std::make_shared<VulkanDevice>(std::move(device)));
  }
  std::shared_ptr<BackendModel> make_model(std::shared_ptr<BackendDevice> device, CompileMode mode) const override {
    return std::make_shared<VulkanModel>(static_cast<const VulkanDevice&>(*device).device, mode);
  }
};

}  // namespace
}  // namespace smelt::vulkan

namespace smelt {

const Backend& vulkan_backend();
const Backend& vulkan_backend() {
  static const vulkan::VulkanBackend backend;
  return backend;
}

}  // namespace smelt
