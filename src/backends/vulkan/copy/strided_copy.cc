#include "backends/vulkan/copy/strided_copy.h"

#include <cstring>

#include "backends/vulkan/core/common.h"
#include "base/cat.h"
#include "ops/shape/shape.h"

namespace smelt::vulkan {
namespace {

struct Push {
  Walk<2> walk;
  int32_t x_offset, y_offset;
};

/// The shaders for elements of 8, 16, 32 and 64 bits.
constexpr const char* kCopy[] = {"copy_8", "copy_16", "copy_32", "copy_64"};
constexpr const char* kPick[] = {"pick_8", "pick_16", "pick_32", "pick_64"};

/// Sees pairs of neighbours as elements of twice the width; false when they don't move together.
bool pair_up(Move& m) {
  Walk<2>& w = m.walk;
  if (w.rank == 0 || w.size[0] % 2 || w.stride[0][0] != 1 || w.stride[1][0] != 1 || m.x_offset % 2 || m.y_offset % 2)
    return false;
  for (uint32_t d = 1; d < w.rank; ++d)
    if (w.stride[0][d] % 2 || w.stride[1][d] % 2) return false;
  for (uint32_t d = 1; d < w.rank; ++d)
    for (auto& stride : w.stride) stride[d] /= 2;
  w.size[0] /= 2;
  w.n /= 2;
  m.x_offset /= 2;
  m.y_offset /= 2;
  return true;
}

class MoveKernel final : public Kernel {
 public:
  MoveKernel(int width, std::vector<Move> moves, uint64_t fill) : width_(width), moves_(std::move(moves)), fill_(fill) {
    for (Move& m : moves_) {
      widths_.push_back(width);
      while (m.in != Move::kFill && m.places.empty() && m.table.empty() && widths_.back() < 3 && pair_up(m))
        ++widths_.back();
    }
  }
  bool reads(size_t i) const override {
    for (const Move& m : moves_)
      if (m.in == i) return true;
    return false;
  }
  Status record(KernelRecorder& r) const override {
    for (size_t k = 0; k < moves_.size(); ++k) {
      const Move& m = moves_[k];
      SMELT_ASSIGN(const Binding x, m.in == Move::kFill ? fill_value(r) : r.input(m.in));
      if (!m.places.empty()) {
        SMELT_TRY(pick(r, m, x, k));
        continue;
      }
      Dispatch d{kCopy[widths_[k]], {kWidth}, {x, r.output(m.out)}};
      if (!m.table.empty()) {
        SMELT_ASSIGN(const Binding table, upload(r, "table", k, m.table.data(), m.table.size()));
        d = {"copy_table", {kWidth}, {x, table, r.output(m.out)}};
      }
      set_grid(d, m.walk.n, kWidth);
      SMELT_TRY(r.dispatch(d, Push{m.walk, m.x_offset, m.y_offset}));
    }
    return Ok();
  }

 private:
  Result<Binding> fill_value(KernelRecorder& r) const {
    return r.table(Cat("fill ", fill_), sizeof fill_, [&](void* to) { std::memcpy(to, &fill_, sizeof fill_); });
  }
  Result<Binding> upload(KernelRecorder& r, const char* what, size_t k, const void* data, size_t bytes) const {
    return r.table(Cat(what, ' ', reinterpret_cast<uintptr_t>(this), ' ', k), bytes,
                   [&](void* to) { std::memcpy(to, data, bytes); });
  }
  Status pick(KernelRecorder& r, const Move& m, const Binding& x, size_t k) const {
    SMELT_ASSIGN(const Binding places, upload(r, "places", k, m.places.data(), m.places.size() * sizeof(int32_t)));
    const auto n = static_cast<uint32_t>(m.places.size());
    Dispatch d{kPick[width_], {kWidth}, {x, places, r.output(m.out)}};
    set_grid(d, n, kWidth);
    return r.dispatch(d, n);
  }

  int width_;
  std::vector<Move> moves_;
  std::vector<int> widths_;  ///< of the elements that each move sees
  uint64_t fill_;
};

}  // namespace

std::unique_ptr<Kernel> make_moves(DType dtype, std::vector<Move> moves, uint64_t fill) {
  const int width = width_index(dtype);
  if (width < 0) return nullptr;
  return std::make_unique<MoveKernel>(width, std::move(moves), fill);
}

std::unique_ptr<Kernel> make_transpose(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<TransposeAttrs>();
  const Shape& in = spec.inputs[0].shape;
  const Shape& out = spec.outputs[0].shape;
  if (spec.has(1)) return nullptr;
  const Shape own = in.strides();
  Shape strides = Shape::of_rank(out.rank(), 0);
  for (int i = 0; i < out.rank(); ++i) {
    int64_t from = attrs.perm.empty() ? out.rank() - 1 - i : attrs.perm[static_cast<size_t>(i)];
    if (from < 0) from += out.rank();
    strides[i] = own[static_cast<int>(from)];
  }
  const auto walk = Walk<2>::make(out, {strides, out.strides()});
  if (!walk) return nullptr;
  return make_moves(spec.outputs[0].dtype, {{.walk = *walk}});
}

}  // namespace smelt::vulkan
