// The CPU behind the back-end interface: every partition is one node, run by one kernel on the host's tensors, and
// what is appended to it: the kernel's epilogue, or convolutions that run with it by bands of rows.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backends/backend.h"
#include "backends/cpu/conv/winograd_choice.h"
#include "backends/cpu/core/cost.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/segment_kernel.h"
#include "backends/cpu/gemm/strassen_f32.h"
#include "base/huge_pages.h"
#include "base/large_memory.h"
#include "base/packing_threads.h"
#include "base/recycled_memory.h"
#include "base/selection.h"

namespace smelt {
namespace {

/// Bytes that the weights of one segment take in the first run at most; larger ones have memory of their own.
constexpr size_t kMostRecycled = size_t{64} << 20;

/// The segments of a plan whose weights are packed in its second run. In the first one they pack them one after the
/// other into the same memory, each for itself.
struct LatePacking {
  explicit LatePacking(std::shared_ptr<PackCache> model_packs) : packs(std::move(model_packs)) {}
  /// For a segment's second run: gives the kernel weights that stay. False where they can't be packed.
  bool complete(const SegmentRecipe& recipe, Isa isa, std::unique_ptr<Kernel>& kernel) {
    if (memory) expect_blocks(constants, kHugePage);  // the arena is in use already: no page is filled in part
    memory.reset();
    const bool has_weights = recipe.complete(isa, *packs, kernel);
    if (--segments == 0) {
      trim_blocks();
      copies.release();
    }
    return has_weights;
  }

  std::shared_ptr<PackCache> packs;
  size_t segments = 0;                   ///< without weights that stay
  size_t constants = 0;                  ///< bytes that those are packed from, in all
  std::optional<RecycledMemory> memory;  ///< of one segment's weights; nullopt from the second run on
  PackingThreads::Copies copies;
};

class CpuSegment final : public Segment {
 public:
  CpuSegment(std::unique_ptr<Kernel> kernel, Sharing sharing) : Segment(sharing), kernel_(std::move(kernel)) {}
  /// A segment that packs its weights as it runs. `dry`: its kernel without weights.
  CpuSegment(std::unique_ptr<Kernel> dry, Sharing sharing, SegmentRecipe recipe, Isa isa,
             std::shared_ptr<LatePacking> packing)
      : Segment(sharing),
        kernel_(std::move(dry)),
        unpacked_(new Unpacked{std::move(recipe), isa, std::move(packing)}) {}
  Status run(KernelContext& context, std::span<const Datum>) override {
    return unpacked_ ? run_unpacked(context) : kernel_->run(context);
  }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  bool borrows() const override { return unpacked_ && !unpacked_->ran; }
  void lend(std::span<std::byte> memory) override {
    if (unpacked_) unpacked_->lent = memory;
  }
  void fetch() const override {
    constexpr int kBytes = 512, kLine = 64;  // most kernels are smaller
    for (int at = 0; at < kBytes; at += kLine) __builtin_prefetch(reinterpret_cast<const char*>(kernel_.get()) + at);
  }

 private:
  struct Unpacked {
    SegmentRecipe recipe;
    Isa isa;
    std::shared_ptr<LatePacking> packing;
    bool ran = false;
    std::span<std::byte> lent;
  };

  [[gnu::cold]] Status run_unpacked(KernelContext& context) {
    LatePacking& packing = *unpacked_->packing;
    const PackingThreads::Use threads(context.threads(), packing.copies);
    if (!std::exchange(unpacked_->ran, true) && packing.memory) {
      packing.memory->lend(unpacked_->lent);
      return unpacked_->recipe.run_once(unpacked_->isa, *packing.packs, *packing.memory, context, *kernel_);
    }
    if (!packing.complete(unpacked_->recipe, unpacked_->isa, kernel_))
      return Unsupported("the weights can't be packed");
    unpacked_.reset();
    return kernel_->run(context);
  }

  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Unpacked> unpacked_;  ///< null: the kernel has its weights
};

struct CpuNode final : PreparedNode {
  bool may_overwrite(size_t input) const override { return made.kernel->may_overwrite(input); }

  SegmentKernel made;
  Sharing sharing = Sharing::kAll;
  const char* name = "";  ///< of the first node's kernel
  SegmentRecipe recipe;   ///< empty unless the plan's weights are packed in its second run
  size_t unpacked = 0;    ///< bytes of constants; 0: the kernel has its weights
};

class CpuPlanCompiler final : public PlanCompiler {
 public:
  CpuPlanCompiler(std::shared_ptr<PackCache> model_packs, Isa isa, int threads)
      : model_packs_(std::move(model_packs)),
        plan_packs_(model_packs_->mode()),
        packs_late_(model_packs_->mode() == PackCache::Mode::kPack && !model_packs_->has_store() &&
                    model_packs_->bytes() < kLargeConstant),
        isa_(isa),
        threads_(threads) {}

  std::unique_ptr<PreparedNode> prepare(const NodeRequest& r, std::string* why) override {
    const Sharing sharing = this->sharing(r);
    auto node = std::make_unique<CpuNode>();
    node->unpacked = packed_later(r);
    const KernelSpec spec{{r}, isa_, threads(sharing), packs(r, node->unpacked > 0), why, r.fixed_shapes};
    const KernelInfo* const chosen = node->made.begin(spec);
    if (!chosen) {
      if (why && why->empty()) *why = Cat("no CPU kernel for ", to_string(r.node.op));
      return nullptr;
    }
    if (packs_later(r) && (node->unpacked > 0 || r.node.op == Op::kConv)) node->recipe.begin(spec, r.lifetime);
    node->sharing = sharing;
    node->name = chosen->name;
    note_spread(sharing, r.node);
    return node;
  }

  const char* append(PreparedNode& before, const NodeRequest& r, size_t operand) override {
    auto& node = static_cast<CpuNode&>(before);
    const bool conv = r.node.op == Op::kConv;
    const Sharing own = conv ? sharing(r) : node.sharing, both = std::max(node.sharing, own);
    const size_t later = node.recipe.empty() ? 0 : packed_later(r);
    const KernelSpec spec{{r}, isa_, threads(own), packs(r, node.unpacked + later > 0)};
    const char* name = node.made.append(spec, operand, threads(both));
    if (!name) return nullptr;
    if (!node.recipe.empty()) node.recipe.append(spec, r.lifetime, operand, threads(both));
    node.unpacked += later;
    node.sharing = both;
    note_spread(both, r.node);
    return name;
  }

  Result<CompiledPlan> compile(const PlanOutline& plan) override {
    CompiledPlan out;
    out.nodes.resize(plan.nodes.size());
    std::shared_ptr<LatePacking> packing;
    size_t most = 0;  // bytes of constants of a node
    for (const NodeRange& p : plan.partitions) {
      auto& node = static_cast<CpuNode&>(*plan.nodes[static_cast<size_t>(p.first)].prepared);
      if (node.unpacked > 0) {
        if (!packing) packing = std::make_shared<LatePacking>(model_packs_);
        packing->constants += node.unpacked;
        most = std::max(most, node.unpacked);
        ++packing->segments;
        out.segments.push_back(std::make_shared<CpuSegment>(std::move(node.made.kernel), node.sharing,
                                                            std::move(node.recipe), isa_, packing));
      } else {
        out.segments.push_back(std::make_shared<CpuSegment>(std::move(node.made.kernel), node.sharing));
      }
      out.nodes[static_cast<size_t>(p.first)].kernel = node.name;
    }
    if (packing) packing->memory.emplace(kMostRecycled, most);
    return out;
  }

 private:
  bool packs_later(const NodeRequest& r) const { return packs_late_ && r.pack_time == PackTime::kSecondRun; }
  /// Bytes of the node's constants, if they are packed as it runs; else 0. What several nodes read is packed once.
  size_t packed_later(const NodeRequest& r) {
    if (!packs_later(r) || r.lifetime != ConstantLifetime::kModel) return 0;
    size_t bytes = 0;
    bool shared = false;
    for (const Tensor* constant : r.constants) {
      if (!constant) continue;
      bytes += constant->bytes();
      if (constant->bytes() < kLargeConstant) continue;
      const auto [reader, is_new] = readers_.try_emplace(constant, &r.node);
      shared = shared || reader->second != &r.node;
    }
    return !shared && bytes >= kLargeConstant ? bytes : 0;
  }
  PackCache& packs(const NodeRequest& r, bool unpacked) {
    if (unpacked) return dry_packs_;
    return r.lifetime == ConstantLifetime::kModel ? *model_packs_ : plan_packs_;
  }
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

  std::shared_ptr<PackCache> model_packs_;
  PackCache plan_packs_;  ///< of contents that planning computed: their addresses mean nothing to other plans
  PackCache dry_packs_{PackCache::Mode::kDry};
  bool packs_late_;  ///< where asked to: the model has no packed weights yet
  Isa isa_;
  int threads_;
  std::unordered_set<ValueId> spread_;                      ///< values that several threads make
  std::unordered_map<const Tensor*, const Node*> readers_;  ///< the first one of each large constant
};

class CpuSession final : public BackendSession {
 public:
  CpuSession(std::shared_ptr<PackCache> packs, Isa isa, int threads)
      : packs_(std::move(packs)), isa_(isa), threads_(threads) {}
  MemorySpace memory() const override { return MemorySpace::kHost; }
  std::unique_ptr<PlanCompiler> begin_plan(const std::function<Status(size_t)>&) override {
    return std::make_unique<CpuPlanCompiler>(packs_, isa_, threads_);
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
            .share_dynamic_quantization = true,
            .widen_weights = true};
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
