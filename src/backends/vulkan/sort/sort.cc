// TopK and Sort.
#include <algorithm>
#include <bit>
#include <string>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/sort/sort.h"

namespace smelt::vulkan {
namespace {

constexpr uint32_t kMaxSlots = 1024;  // of sort.comp, and of a chunk of sort_long.comp
constexpr int64_t kMaxExtent = 1 << 22;

struct Push {
  uint32_t rows, extent, inner, keep;
};

class SortKernel final : public Kernel {
 public:
  SortKernel(std::string shader, std::vector<uint32_t> constants, const Push& push)
      : shader_(std::move(shader)), constants_(std::move(constants)), push_(push) {}
  bool reads(size_t i) const override { return i == 0; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const bool indices = constants_[3] > 0, values = constants_[4] != 0;
    const Binding any = r.output(values ? 0 : 1);
    Dispatch d{shader_.c_str(), constants_, {x, any, indices ? r.output(1) : any}};
    set_grid(d, push_.rows, 1);
    return r.dispatch(d, push_);
  }

 private:
  std::string shader_;
  std::vector<uint32_t> constants_;
  Push push_;
};

/// Bitonic sort of longer rows in global memory (sort_long.comp).
class LongSortKernel final : public Kernel {
 public:
  struct LongPush {
    Push order;
    uint32_t slots, run, apart;
  };
  enum Part : uint32_t { kSortChunks, kStep, kMergeChunks, kWrite };

  LongSortKernel(std::string shader, std::vector<uint32_t> flags, const Push& push, uint32_t slots)
      : shader_(std::move(shader)), flags_(std::move(flags)), push_(push), slots_(slots) {}
  bool reads(size_t i) const override { return i == 0; }
  size_t scratch_bytes() const override { return size_t{push_.rows} * slots_ * sizeof(uint32_t); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const bool values = flags_[2] != 0, indices = flags_[1] > 0;
    const Binding any = r.output(values ? 0 : 1), index = indices ? r.output(1) : any;
    const auto pass = [&](Part part, uint64_t items, uint32_t size, uint32_t run, uint32_t apart) {
      std::vector<uint32_t> constants{size == 1 ? 256 : kWidth, part};
      constants.insert(constants.end(), flags_.begin(), flags_.end());
      Dispatch d{shader_.c_str(), std::move(constants), {x, any, index, r.scratch(0, scratch_bytes(), part != kWrite)}};
      set_grid(d, items, size);
      return r.dispatch(d, LongPush{push_, slots_, run, apart});
    };
    const uint64_t chunks = uint64_t{push_.rows} * (slots_ / kMaxSlots), all = uint64_t{push_.rows} * slots_;
    SMELT_TRY(pass(kSortChunks, chunks, 1, 0, 0));
    for (uint32_t run = 2 * kMaxSlots; run <= slots_; run *= 2) {
      for (uint32_t apart = run / 2; apart >= kMaxSlots; apart /= 2)
        SMELT_TRY(pass(kStep, all / 2, kWidth, run, apart));
      SMELT_TRY(pass(kMergeChunks, chunks, 1, run, 0));
    }
    return pass(kWrite, uint64_t{push_.rows} * push_.keep, kWidth, 0, 0);
  }

 private:
  std::string shader_;
  std::vector<uint32_t> flags_;
  Push push_;
  uint32_t slots_;
};

/// TopK that orders equal values as PyTorch does (topk_unstable.comp).
class UnstableTopKKernel final : public Kernel {
 public:
  UnstableTopKKernel(std::string shader, std::vector<uint32_t> constants, const Push& push)
      : shader_(std::move(shader)), constants_(std::move(constants)), push_(push) {}
  bool reads(size_t i) const override { return i == 0; }
  size_t scratch_bytes() const override { return size_t{push_.rows} * push_.extent * sizeof(uint32_t); }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const bool indices = constants_[2] > 0, values = constants_[3] != 0;
    const Binding any = r.output(values ? 0 : 1);
    Dispatch d{shader_.c_str(), constants_, {x, any, indices ? r.output(1) : any, r.scratch(0, scratch_bytes(), true)}};
    set_grid(d, push_.rows, constants_.front());
    return r.dispatch(d, push_);
  }

 private:
  std::string shader_;
  std::vector<uint32_t> constants_;
  Push push_;
};

/// Loop iterations of selecting and sorting one row.
int64_t unstable_iterations(int64_t extent, int64_t keep, bool few) {
  const int64_t kept = std::bit_width(static_cast<uint64_t>(keep)), all = std::bit_width(static_cast<uint64_t>(extent));
  return few ? extent * (2 + 2 * kept) + 3 * keep * kept : extent * (1 + 4 * all) + keep * (16 + 5 * kept);
}

bool sorts(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kI32:
    case DType::kI64:
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
      return true;
    default:
      return false;
  }
}

/// `ties`: set if equal values are to be ordered as PyTorch does.
std::unique_ptr<Kernel> make_sort_kernel(const KernelSpec& spec, int64_t axis, bool descending,
                                         const TopKAttrs* ties = nullptr) {
  const Shape& in = spec.inputs[0].shape;
  const bool values = wanted(spec, 0), indices = wanted(spec, 1);
  const DType dtype = spec.inputs[0].dtype;
  if (!sorts(dtype) || (dtype == DType::kI64 && !spec.device.info().int64)) return nullptr;
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
  const Push push{static_cast<uint32_t>(v.outer * v.inner), static_cast<uint32_t>(v.extent),
                  static_cast<uint32_t>(v.inner), static_cast<uint32_t>(keep)};
  std::vector<uint32_t> flags{descending ? 1u : 0u, words, values ? 1u : 0u};
  if (ties) {
    const bool few = keep * 64 <= v.extent;
    const uint64_t places = uint64_t{push.rows} * push.extent;
    if (unstable_iterations(v.extent, keep, few) > kMaxLoopIterations ||
        places * sizeof(uint32_t) > std::min<uint64_t>(spec.device.max_binding(), UINT32_MAX))
      return spec.refuse("ties of rows of ", v.extent, " elements in PyTorch's order");
    std::vector<uint32_t> constants{kWidth};
    constants.insert(constants.end(), flags.begin(), flags.end());
    constants.insert(constants.end(), {few ? 1u : 0u, ties->sorted ? 1u : 0u});
    return std::make_unique<UnstableTopKKernel>("order_unstable_" + type_suffix(dtype), std::move(constants), push);
  }
  if (v.extent > kMaxSlots) {
    const uint64_t places = uint64_t{push.rows} * slots;
    if (places > UINT32_MAX / 4 || places * sizeof(uint32_t) > spec.device.max_binding()) return nullptr;
    return std::make_unique<LongSortKernel>("order_long_" + type_suffix(dtype), std::move(flags), push, slots);
  }
  std::vector<uint32_t> constants{kWidth, slots};
  constants.insert(constants.end(), flags.begin(), flags.end());
  return std::make_unique<SortKernel>("order_" + type_suffix(dtype), std::move(constants), push);
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
