// Concat of 8-bit values with several quantization parameters into those of the output. The reference kernel fills the
// tables of 256.
#include <cstring>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/elementwise/lookup_table.h"
#include "base/cat.h"
#include "ops/common/index.h"
#include "ops/common/run_reference.h"
#include "ops/shape/shape.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

class ConcatRequantize final : public Kernel {
 public:
  /// One input.
  struct Part {
    int64_t run = 0;  ///< bytes of an input at once
    bool copied = false;
  };
  ConcatRequantize(std::vector<Part> parts, int64_t outer, Packed tables, LookUp8 lookup)
      : parts_(std::move(parts)), outer_(outer), tables_(std::move(tables)), lookup_(lookup) {
    for (const Part& p : parts_) row_ += p.run;
  }
  Status run(KernelContext& ctx) const override {
    auto* y = ctx.output(0).data<uint8_t>();
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& p = parts_[i];
      if (p.run == 0) continue;
      const auto* x = ctx.input(static_cast<int>(i)).data<uint8_t>();
      const uint8_t* table = tables_->data<uint8_t>() + 256 * i;
      for (int64_t o = 0; o < outer_; ++o) {
        if (p.copied)
          std::memcpy(y + o * row_, x + o * p.run, static_cast<size_t>(p.run));
        else
          lookup_(table, x + o * p.run, p.run, y + o * row_);
      }
      y += p.run;
    }
    return Ok();
  }

 private:
  std::vector<Part> parts_;
  int64_t outer_, row_ = 0;
  Packed tables_;
  LookUp8 lookup_;
};

/// The output for each of the 256 values of every input, one table after the other; nullptr when the reference kernel
/// fails.
Packed make_tables(const KernelSpec& spec, int axis) {
  std::string key = "concat ";
  for (const ValueType& t : spec.inputs) key += Cat(t.quant->scale(), ':', t.quant->zero_point(), ' ');
  const QuantPtr& to = spec.outputs[0].quant;
  key += Cat(to->scale(), ':', to->zero_point(), ' ', static_cast<int>(spec.outputs[0].dtype), ' ', axis);
  return spec.packs.get(spec.node.attrs.get(), key, [&]() -> Packed {
    Shape shape = Shape::of_rank(spec.outputs[0].shape.rank(), 1);
    shape[axis] = 256;
    std::vector<Datum> in;
    for (const ValueType& type : spec.inputs) {
      Tensor t(type.dtype, shape);
      for (int i = 0; i < 256; ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(i);
      t.set_quant(type.quant);
      in.emplace_back(std::move(t));
    }
    shape[axis] = 256 * static_cast<int64_t>(spec.inputs.size());
    Tensor out(spec.outputs[0].dtype, shape);
    out.set_quant(to);
    const auto filled = run_reference(spec.node, std::move(in), {out});
    if (!filled.ok()) return nullptr;
    auto packed = std::make_shared<AlignedBuffer>(out.bytes());
    std::memcpy(packed->data<char>(), filled->front().raw(), out.bytes());
    return packed;
  });
}

}  // namespace

std::unique_ptr<Kernel> make_concat_requantize(const KernelSpec& spec) {
  const ValueType& y = spec.outputs[0];
  if ((y.dtype != DType::kI8 && y.dtype != DType::kU8) || !is_per_tensor(y.quant) || y.shape.elements() == 0)
    return nullptr;
  const auto axis = normalize_axis(spec.attrs<AxisAttrs>().axis, y.shape.rank());
  if (!axis.ok()) return nullptr;
  std::vector<ConcatRequantize::Part> parts;
  const AxisView view = axis_view(y.shape, *axis);
  bool all_copied = true;
  for (const ValueType& x : spec.inputs) {
    if (x.dtype != y.dtype || !is_per_tensor(x.quant)) return nullptr;
    ConcatRequantize::Part part;
    if (x.shape.elements() > 0) part.run = x.shape[*axis] * view.inner;
    part.copied = same_quant_params(x.quant, y.quant);
    all_copied = all_copied && part.copied;
    parts.push_back(part);
  }
  if (all_copied) return nullptr;  // a strided copy
  Packed tables = make_tables(spec, *axis);
  if (!tables) return nullptr;
  return std::make_unique<ConcatRequantize>(std::move(parts), view.outer, std::move(tables), lookup_8(spec.isa));
}

}  // namespace smelt
