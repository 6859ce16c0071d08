// TopK and Sort.
#include <algorithm>
#include <bit>

#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/device/device.h"
#include "ops/common/index.h"
#include "ops/sort/sort.h"
#include "shaders/sort.h"
#include "shaders/sort_long.h"
#include "shaders/topk_unstable.h"

namespace smelt::vulkan {
namespace {

constexpr uint32_t kMaxSlots = 1024;  // of sort.comp, and the chunks of sort_long.comp
constexpr int64_t kMaxExtent = 1 << 22;

/// Bitonic sort of longer rows in global memory (sort_long.comp).
class LongSortKernel final : public Kernel {
 public:
  enum Part : uint32_t { kSortChunks, kStep, kMergeChunks, kWrite };

  /// `push`: without run and apart, which differ from pass to pass.
  LongSortKernel(shaders::Variant<shaders::SortLong> shader, const shaders::SortLong::Constants& constants,
                 const shaders::SortLong::Push& push)
      : shader_(shader), constants_(constants), push_(push) {}
  bool reads(size_t i) const override { return i == 0; }
  size_t scratch_bytes() const override { return size_t{push_.axis.rows} * push_.slots * sizeof(uint32_t); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const Binding any = r.output(constants_.values ? 0 : 1), index = constants_.index_words > 0 ? r.output(1) : any;
    const auto pass = [&](Part part, uint64_t items, uint32_t size, uint32_t run, uint32_t apart) {
      shaders::SortLong::Constants constants = constants_;
      constants.width = size == 1 ? 256 : kWidth;
      constants.part = part;
      shaders::SortLong::Push push = push_;
      push.run = run;
      push.apart = apart;
      return r.run(shader_, constants, {x, any, index, r.scratch(0, scratch_bytes(), part != kWrite)},
                   Grid::flat(items, size), push);
    };
    const uint32_t rows = push_.axis.rows, slots = push_.slots;
    const uint64_t chunks = uint64_t{rows} * (slots / kMaxSlots), all = uint64_t{rows} * slots;
    SMELT_TRY(pass(kSortChunks, chunks, 1, 0, 0));
    for (uint32_t run = 2 * kMaxSlots; run <= slots; run *= 2) {
      for (uint32_t apart = run / 2; apart >= kMaxSlots; apart /= 2)
        SMELT_TRY(pass(kStep, all / 2, kWidth, run, apart));
      SMELT_TRY(pass(kMergeChunks, chunks, 1, run, 0));
    }
    return pass(kWrite, uint64_t{rows} * push_.keep, kWidth, 0, 0);
  }

 private:
  shaders::Variant<shaders::SortLong> shader_;
  shaders::SortLong::Constants constants_;
  shaders::SortLong::Push push_;
};

/// Loop iterations of selecting and sorting one row.
int64_t unstable_iterations(int64_t extent, int64_t keep, bool few) {
  const int64_t kept = std::bit_width(static_cast<uint64_t>(keep)), all = std::bit_width(static_cast<uint64_t>(extent));
  return few ? extent * (2 + 2 * kept) + 3 * keep * kept : extent * (1 + 4 * all) + keep * (16 + 5 * kept);
}

/// `ties`: they are to lie where PyTorch leaves them.
std::unique_ptr<Kernel> make_sort_kernel(const KernelSpec& spec, int64_t axis, bool descending,
                                         const TopKAttrs* ties = nullptr) {
  const Shape& in = spec.inputs[0].shape;
  const bool values = wanted(spec, 0), indices = wanted(spec, 1);
  const DType dtype = spec.inputs[0].dtype;
  const auto shader = shaders::find_variant<shaders::Sort>("sort_" + type_suffix(dtype));
  if (!shader || (dtype == DType::kI64 && !spec.device.info().int64)) return nullptr;
  if (in.rank() == 0 || (!values && !indices)) return nullptr;
  const auto a = normalize_axis(axis, in.rank());
  if (!a.ok() || in[*a] > kMaxExtent) return nullptr;
  if (values && spec.outputs[0].dtype != spec.inputs[0].dtype) return nullptr;
  const uint32_t words = indices ? index_words(spec.outputs[1].dtype) : 0;
  if (indices && words == 0) return nullptr;
  const AxisView v = axis_view(in, *a);
  const int64_t keep = spec.outputs[values ? 0 : 1].shape[*a];
  if (keep < 1 || keep > v.extent) return nullptr;
  const auto slots = std::max(2u, std::bit_ceil(static_cast<uint32_t>(v.extent)));
  const AxisPush rows(v);
  const auto kept = static_cast<uint32_t>(keep);
  const size_t any = values ? 0 : 1;  // an output that there is
  if (ties) {
    const bool few = keep * 64 <= v.extent;
    const uint64_t places = uint64_t{rows.rows} * rows.extent;
    if (unstable_iterations(v.extent, keep, few) > kMaxLoopIterations ||
        places * sizeof(uint32_t) > std::min<uint64_t>(spec.device.max_binding(), UINT32_MAX))
      return spec.refuse("ties of rows of ", v.extent, " elements in PyTorch's order");
    const size_t bytes = places * sizeof(uint32_t);
    auto kernel = shader_kernel(
        *shaders::find_variant<shaders::TopkUnstable>("topk_unstable_" + type_suffix(dtype)),
        {.descending = descending, .index_words = words, .values = values, .few = few, .sorted = ties->sorted},
        {input(0), output(any), output(words > 0 ? 1 : any), scratch(bytes)}, rows.rows, {.axis = rows, .keep = kept});
    kernel->scratch_size = bytes;
    return kernel;
  }
  if (v.extent > kMaxSlots) {
    const uint64_t places = uint64_t{rows.rows} * slots;
    if (places > UINT32_MAX / 4 || places * sizeof(uint32_t) > spec.device.max_binding()) return nullptr;
    return std::make_unique<LongSortKernel>(
        *shaders::find_variant<shaders::SortLong>("sort_long_" + type_suffix(dtype)),
        shaders::SortLong::Constants{.descending = descending, .index_words = words, .values = values},
        shaders::SortLong::Push{.axis = rows, .keep = kept, .slots = slots, .run = 0, .apart = 0});
  }
  return shader_kernel(*shader, {.slots = slots, .descending = descending, .index_words = words, .values = values},
                       {input(0), output(any), output(words > 0 ? 1 : any)}, Grid::flat(rows.rows, 1),
                       {.axis = rows, .keep = kept});
}

}  // namespace

std::unique_ptr<Kernel> make_top_k(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<TopKAttrs>();
  if (!spec.constant(1)) return spec.refuse("the number of results (input 1) is computed");
  // Values alone, in order, don't show the order of ties.
  const bool ties = attrs.torch_order && (!attrs.sorted || wanted(spec, 1));
  return make_sort_kernel(spec, attrs.axis, attrs.largest, ties ? &attrs : nullptr);
}

std::unique_ptr<Kernel> make_sort(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SortAttrs>();
  return make_sort_kernel(spec, attrs.axis, attrs.descending);
}

}  // namespace smelt::vulkan
