#include "vulkan/kernels/move.h"

#include "ops/shape/shape.h"
#include "vulkan/kernels/common.h"

namespace smelt::vulkan {
namespace {

struct Push {
  Walk<2> walk;
  int32_t x_offset, y_offset;
};

class MoveKernel final : public Kernel {
 public:
  MoveKernel(const char* shader, std::vector<Move> moves) : shader_(shader), moves_(std::move(moves)) {}
  bool reads(size_t i) const override {
    for (const Move& m : moves_)
      if (m.in == i) return true;
    return false;
  }
  Status record(KernelRecorder& r) const override {
    for (const Move& m : moves_) {
      SMELT_ASSIGN(const Binding x, r.input(m.in));
      Dispatch d{shader_, {kWidth}, {x, r.output(m.out)}};
      set_grid(d, m.walk.n, kWidth);
      SMELT_TRY(r.dispatch(d, Push{m.walk, m.x_offset, m.y_offset}));
    }
    return Ok();
  }

 private:
  const char* shader_;
  std::vector<Move> moves_;
};

}  // namespace

std::unique_ptr<Kernel> make_moves(DType dtype, std::vector<Move> moves) {
  const char* shader = nullptr;
  switch (bit_width(dtype)) {
    case 8:
      shader = "copy_8";
      break;
    case 16:
      shader = "copy_16";
      break;
    case 32:
      shader = "copy_32";
      break;
    case 64:
      shader = "copy_64";
      break;
    default:
      return nullptr;
  }
  return std::make_unique<MoveKernel>(shader, std::move(moves));
}

std::unique_ptr<Kernel> make_transpose(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<TransposeAttrs>();
  const Shape& in = spec.inputs[0].shape;
  const Shape& out = spec.outputs[0].shape;
  if (spec.has(1)) return nullptr;
  const Shape own = in.strides();
  Shape strides = Shape::of_rank(out.rank(), 0);
  for (int i = 0; i < out.rank(); ++i)
    strides[i] = own[attrs.perm.empty() ? out.rank() - 1 - i : static_cast<int>(attrs.perm[static_cast<size_t>(i)])];
  const auto walk = Walk<2>::make(out, {strides, out.strides()});
  if (!walk) return nullptr;
  return make_moves(spec.outputs[0].dtype, {{.walk = *walk}});
}

}  // namespace smelt::vulkan
