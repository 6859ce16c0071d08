// The CPU behind the back-end interface: every partition is one node, run by one kernel on the host's tensors, and
// what is appended to it: the kernel's epilogue, or convolutions that run with it by bands of rows.
#include <algorithm>
#include <unordered_set>

#include "backends/backend.h"
#include "backends/cpu/conv/row_chain.h"
#include "backends/cpu/conv/winograd_choice.h"
#include "backends/cpu/core/cost.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/strassen_f32.h"
#include "base/selection.h"

namespace smelt {
namespace {

class CpuSegment final : public Segment {
 public:
  CpuSegment(std::unique_ptr<Kernel> kernel, Sharing sharing) : Segment(sharing), kernel_(std::move(kernel)) {}
  Status run(KernelContext& context, std::span<const Datum>) override { return kernel_->run(context); }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  void fetch() const override {
    constexpr int kBytes = 512, kLine = 64;  // most kernels are smaller
    for (int at = 0; at < kBytes; at += kLine) __builtin_prefetch(reinterpret_cast<const char*>(kernel_.get()) + at);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

struct CpuNode final : PreparedNode {
  std::unique_ptr<Kernel> kernel;
  Sharing sharing = Sharing::kAll;
  const char* name = "";  ///< of the first node's kernel
  int inputs = 0;         ///< of the node, and of what was appended
  Shape made;             ///< of the output
};

class CpuPlanCompiler final : public PlanCompiler {
 public:
  CpuPlanCompiler(PackCache& model_packs, Isa isa, int threads)
      : model_packs_(model_packs), plan_packs_(model_packs.mode()), isa_(isa), threads_(threads) {}

  std::unique_ptr<PreparedNode> prepare(const NodeRequest& r, std::string* why) override {
    const Sharing sharing = this->sharing(r);
    const KernelInfo* chosen = nullptr;
    auto kernel = make_kernel({{r}, isa_, threads(sharing), packs(r), why, r.fixed_shapes}, &chosen);
    if (!kernel) {
      if (why && why->empty()) *why = Cat("no CPU kernel for ", to_string(r.node.op));
      return nullptr;
    }
    auto node = std::make_unique<CpuNode>();
    node->kernel = std::move(kernel);
    node->sharing = sharing;
    node->name = chosen->name;
    node->inputs = static_cast<int>(r.node.inputs.size());
    node->made = r.outputs[0].shape;
    note_spread(sharing, r.node);
    return node;
  }

  const char* append(PreparedNode& before, const NodeRequest& r, size_t operand) override {
    auto& node = static_cast<CpuNode&>(before);
    const char* name = r.node.op == Op::kConv ? append_conv(node, r, operand) : append_epilogue(node, r, operand);
    if (!name) return nullptr;
    node.inputs += static_cast<int>(r.node.inputs.size()) - 1;
    node.made = r.outputs[0].shape;
    note_spread(node.sharing, r.node);
    return name;
  }

  Result<CompiledPlan> compile(const PlanOutline& plan) override {
    CompiledPlan out;
    out.nodes.resize(plan.nodes.size());
    for (const NodeRange& p : plan.partitions) {
      auto& node = static_cast<CpuNode&>(*plan.nodes[static_cast<size_t>(p.first)].prepared);
      out.segments.push_back(std::make_shared<CpuSegment>(std::move(node.kernel), node.sharing));
      out.nodes[static_cast<size_t>(p.first)].kernel = node.name;
    }
    return out;
  }

 private:
  PackCache& packs(const NodeRequest& r) { return r.lifetime == ConstantLifetime::kModel ? model_packs_ : plan_packs_; }
  int threads(Sharing sharing) const { return sharing == Sharing::kNone ? 1 : threads_; }
  Sharing sharing(const NodeRequest& r) const {
    if (r.threads == ThreadUse::kAll || threads_ <= 1) return Sharing::kAll;
    const bool spread =
        std::ranges::any_of(r.node.inputs, [&](ValueId id) { return id != kNoValue && spread_.contains(id); });
    return worthwhile_sharing(r.node, r.inputs, r.outputs, isa_, spread);
  }
  void note_spread(Sharing sharing, const Node& node) {
    if (threads_ > 1 && sharing == Sharing::kAll) spread_.insert(node.outputs.begin(), node.outputs.end());
  }
  const char* append_epilogue(CpuNode& before, const NodeRequest& r, size_t operand) const {
    const Shape &made = before.made, &y = r.outputs[0].shape;
    if (made.rank() == 0 || y.rank() == 0 || made[made.rank() - 1] != y[y.rank() - 1]) return nullptr;
    const EpilogueF32 epilogue = EpilogueF32::make(r, operand, before.inputs, isa_);
    return epilogue && before.kernel->take_epilogue(epilogue) ? "epilogue" : nullptr;
  }
  const char* append_conv(CpuNode& before, const NodeRequest& r, size_t operand) {
    if (operand != 0 || !(r.inputs[0].shape == before.made)) return nullptr;
    const Sharing own = sharing(r), both = std::max(before.sharing, own);
    const KernelSpec spec{{r}, isa_, threads(own), packs(r)};
    if (!may_chain_rows(spec)) return nullptr;
    const KernelInfo* chosen = nullptr;
    auto next = make_kernel(spec, &chosen);
    if (!next || !chain_rows(before.kernel, next, threads(both))) return nullptr;
    before.sharing = both;
    return chosen->name;
  }

  PackCache& model_packs_;
  PackCache plan_packs_;  ///< of contents that planning computed: their addresses mean nothing to other plans
  Isa isa_;
  int threads_;
  std::unordered_set<ValueId> spread_;  ///< values that several threads make
};

class CpuSession final : public BackendSession {
 public:
  CpuSession(std::shared_ptr<PackCache> packs, Isa isa, int threads)
      : packs_(std::move(packs)), isa_(isa), threads_(threads) {}
  MemorySpace memory() const override { return MemorySpace::kHost; }
  std::unique_ptr<PlanCompiler> begin_plan(const std::function<Status(size_t)>&) override {
    return std::make_unique<CpuPlanCompiler>(*packs_, isa_, threads_);
  }
  const char* isa() const override { return to_string(isa_); }

 private:
  std::shared_ptr<PackCache> packs_;
  Isa isa_;
  int threads_;
};

/// The processor at one level: weights are packed for a level.
class CpuDevice final : public BackendDevice {
 public:
  explicit CpuDevice(Isa isa) : isa_(isa) {}
  bool same(const BackendDevice& other) const override { return isa_ == static_cast<const CpuDevice&>(other).isa_; }
  Isa isa() const { return isa_; }

 private:
  Isa isa_;
};

class CpuModel final : public BackendModel {
 public:
  CpuModel(Isa isa, CompileMode mode)
      : isa_(isa),
        packs_(mode == CompileMode::kDry
                   ? std::make_shared<PackCache>(PackCache::Mode::kDry)
                   : std::make_shared<PackCache>(PackCache::Mode::kPack,
                                                 kBuildsEverything ? PackStore::of_environment() : nullptr)) {}
  std::unique_ptr<BackendSession> make_session(const SessionOptions&, int threads) override {
    return std::make_unique<CpuSession>(packs_, isa_, threads);
  }
  size_t weight_bytes() const override { return packs_->bytes(); }

 private:
  Isa isa_;
  std::shared_ptr<PackCache> packs_;
};

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }
  MemorySpace memory() const override { return MemorySpace::kHost; }
  GraphRequirements requirements() const override {
    return {.widen_float16 = true,
            .fuse_integer_products = true,
            .tabulate_byte_functions = true,
            .share_dynamic_quantization = true};
  }
  Result<std::shared_ptr<BackendDevice>> open(const SessionOptions& options) const override {
    if (options.fp16) return InvalidInput("the CPU back-end multiplies in float32: fp16 is for others");
    if (const auto winograd = winograd_setting(); !winograd.ok()) return winograd.error();
    if (const auto strassen = strassen_setting(); !strassen.ok()) return strassen.error();
    SMELT_ASSIGN(const Isa isa,
                 options.isa.empty() ? selected_isa() : isa_named(options.isa.c_str(), "SessionOptions::isa"));
    return std::shared_ptr<BackendDevice>(
        std::make_shared<CpuDevice>(options.deterministic ? isa.with(IsaFeature::kOneOrder) : isa));
  }
  std::shared_ptr<BackendModel> make_model(std::shared_ptr<BackendDevice> device, CompileMode mode) const override {
    return std::make_shared<CpuModel>(static_cast<const CpuDevice&>(*device).isa(), mode);
  }
};

}  // namespace

const Backend& cpu_backend();
const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace smelt
