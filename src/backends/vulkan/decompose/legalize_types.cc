#include "backends/vulkan/decompose/legalize_types.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/vulkan/device/alignment.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/operands.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

bool is_quantized(const ValueType& t) { return t.quant != nullptr; }

/// The element type that the node is computed in.
enum class Width : uint8_t { kReal, kInt32, kInt64 };

/// True if the reference kernel of a quantized node computes on dequantized values.
bool computes_on_reals(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!(op_info(spec.node.op).flags & (kDataMovement | kQuantized))) return true;
  switch (spec.node.op) {
    case Op::kPool: {
      const auto& a = spec.attrs<PoolAttrs>();
      return a.kind != PoolKind::kAverage || a.rounding == Rounding::kFloatHalfEven ||
             !same_per_tensor(x.quant, y.quant);
    }
    case Op::kSoftmax:
      return spec.attrs<SoftmaxAttrs>().rounding == Rounding::kFloatHalfEven;
    case Op::kResize:
      return spec.attrs<ResizeAttrs>().rounding == Rounding::kFloatHalfEven;
    default:
      return false;
  }
}

bool takes_reals(const KernelSpec& spec) {
  if (spec.node.op == Op::kMatMul && spec.has(3)) return false;  // int8 rows with scales
  if (!(op_info(spec.node.op).flags & kWidensToFloat)) return false;
  const auto quantized = [](const ValueType& t) { return t.dtype != DType::kInvalid && is_quantized(t); };
  const bool any = quantized(spec.outputs[0]) || quantized(spec.inputs[0]);
  return !any || computes_on_reals(spec);
}

/// True if the node gives the same result on the quantized integers: maxima and minima of operands with equal
/// parameters, and scatters.
bool keeps_quantized(const KernelSpec& spec) {
  if (spec.node.op == Op::kScatterNew || spec.node.op == Op::kSparseToDense) return true;
  if (spec.node.op == Op::kBinary) {
    const auto& a = spec.attrs<BinaryAttrs>();
    const QuantPtr& q = spec.outputs[0].quant;
    return (a.fn == Binary::kMax || a.fn == Binary::kMin) && a.act.kind == ActKind::kNone &&
           same_per_tensor(spec.inputs[0].quant, q) && same_per_tensor(spec.inputs[1].quant, q);
  }
  if (spec.node.op != Op::kReduce) return false;
  const auto& a = spec.attrs<ReduceAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  return (a.fn == Reduction::kMax || a.fn == Reduction::kMin) && same_per_tensor(x.quant, y.quant);
}

bool takes_integers(const KernelSpec& spec) {
  if (!(op_info(spec.node.op).flags & kWidensToInt)) return false;
  return (!is_quantized(spec.inputs[0]) && !is_quantized(spec.outputs[0])) || keeps_quantized(spec);
}

bool widens(DType dtype, Width width) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
      return width == Width::kReal;
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kBool:
      return width != Width::kReal;
    case DType::kI32:
    case DType::kU32:
      return width == Width::kInt64;
    default:
      return false;
  }
}

DType wide_type(Width width) {
  return width == Width::kReal ? DType::kF32 : width == Width::kInt32 ? DType::kI32 : DType::kI64;
}

/// The type that an operand of type t is converted to.
ValueType wide(const ValueType& t, Width width) {
  if (t.dtype == DType::kInvalid) return t;
  const bool changes = is_quantized(t) ? width == Width::kReal || widens(t.dtype, width) : widens(t.dtype, width);
  if (!changes) return t;
  ValueType w = t;
  w.dtype = wide_type(width);
  w.quant = nullptr;
  return w;
}

bool same_element(const ValueType& a, const ValueType& b) { return a.dtype == b.dtype && a.quant == b.quant; }

/// The kernel that converts a tensor from one type to another.
std::unique_ptr<Kernel> conversion(const ValueType& from, const ValueType& to, Width width, const Device& device) {
  Node node;
  node.inputs = {0};
  node.outputs = {1};
  ValueType source = from, result = to;
  if (width != Width::kReal) source.quant = result.quant = nullptr;  // quantized integers as they are
  if (is_quantized(source)) {
    node.op = Op::kDequantize;
    node.attrs = make_attrs<NoAttrs>();
  } else if (is_quantized(result)) {
    node.op = Op::kQuantize;
    node.attrs = make_attrs<NoAttrs>();
  } else {
    node.op = Op::kCast;
    node.attrs = make_attrs<CastAttrs>(result.dtype);
  }
  const Tensor* const none = nullptr;
  return listed_kernel({{node, {&source, 1}, {&none, 1}, {&result, 1}}, device});
}

/// The key of a constant that legalized_constant() converted.
const char* derivation(const Tensor& wide) {
  return wide.dtype() == DType::kF32 ? "as float32, " : wide.dtype() == DType::kI32 ? "as int32, " : "as int64, ";
}

/// The content of a constant in another type.
std::optional<Tensor> legalized_constant(const Tensor& t, const ValueType& to, Width width) {
  Tensor wide(to.dtype, t.shape());
  if (width != Width::kReal) {
    for (int64_t i = 0; i < t.elements(); ++i) set_int(wide, i, get_int(t, i));
  } else if (!real_values(t, wide.data<float>()).ok()) {
    return std::nullopt;
  }
  return wide;
}

class LegalizedKernel final : public Kernel {
 public:
  static std::unique_ptr<Kernel> make(const KernelSpec& spec, Width width) {
    auto k = std::make_unique<LegalizedKernel>();
    std::vector<ValueType> inputs, outputs;
    std::vector<const Tensor*> constants;
    bool changes = false;
    k->inputs_.resize(spec.inputs.size());
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      const ValueType& t = spec.inputs[i];
      // Kernels of products take quantized weights.
      const bool weights =
          (spec.node.op == Op::kMatMul || spec.node.op == Op::kConv) && spec.constant(i) && is_quantized(t);
      inputs.push_back(weights ? t : wide(t, width));
      constants.push_back(spec.constant(i));
      if (same_element(t, inputs.back())) continue;
      changes = true;
      Part& part = k->inputs_[i];
      part.bytes = Tensor::byte_size(inputs.back().dtype, t.shape.elements());
      if (part.bytes > spec.device.max_binding()) return nullptr;
      if (const Tensor* c = spec.constant(i)) {
        if (c->elements() > kLargestConstant) return nullptr;
        auto content = legalized_constant(*c, inputs.back(), width);
        if (!content) return nullptr;
        part.constant = std::make_unique<Tensor>(std::move(*content));
        constants.back() = part.constant.get();
      } else if (!(part.kernel = conversion(t, inputs.back(), width, spec.device))) {
        return nullptr;
      }
    }
    k->outputs_.resize(spec.outputs.size());
    for (size_t i = 0; i < spec.outputs.size(); ++i) {
      const ValueType& t = spec.outputs[i];
      const bool answers = t.dtype == DType::kBool && spec.node.op != Op::kReduce;  // of comparisons
      outputs.push_back(answers || spec.node.outputs[i] == kNoValue ? t : wide(t, width));
      if (same_element(t, outputs.back())) continue;
      changes = true;
      Part& part = k->outputs_[i];
      part.bytes = Tensor::byte_size(outputs.back().dtype, t.shape.elements());
      part.kernel = conversion(outputs.back(), t, width, spec.device);
      if (!part.kernel || part.bytes > spec.device.max_binding()) return nullptr;
    }
    if (!changes) return nullptr;
    k->kernel_ = listed_kernel(spec.part({spec.node, inputs, constants, outputs}));
    if (!k->kernel_) return nullptr;
    for (Part& part : k->inputs_) k->place(part);
    for (Part& part : k->outputs_) k->place(part);
    return k;
  }
  size_t scratch_bytes() const override { return scratch_ + kernel_->scratch_bytes(); }
  bool reads(size_t i) const override { return kernel_->reads(i) && !inputs_[i].constant; }
  const char* fault() const override { return kernel_->fault(); }
  Status record(KernelRecorder& r) const override {
    std::vector<KernelRecorder::Operand> inputs;
    std::vector<std::string> names(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Part& part = inputs_[i];
      KernelRecorder::Operand operand = r.operand(i);
      if (part.constant) {
        names[i] = Cat(operand.derived, derivation(*part.constant));
        const void* of = operand.of ? operand.of : operand.constant->raw();
        operand = {{}, part.constant.get(), operand.store, of, names[i].c_str()};
      } else if (part.kernel && kernel_->reads(i)) {
        const KernelRecorder::Operand from[] = {operand};
        const Binding to[] = {r.scratch(part.offset, part.bytes, false)};
        KernelRecorder inner = r.nested(from, to, {});
        SMELT_TRY(part.kernel->record(inner));
        operand = {to[0]};
      }
      inputs.push_back(operand);
    }
    std::vector<Binding> outputs;
    for (size_t i = 0; i < outputs_.size(); ++i)
      outputs.push_back(outputs_[i].kernel ? r.scratch(outputs_[i].offset, outputs_[i].bytes, false) : r.place(i));
    KernelRecorder inner = r.nested(inputs, outputs, r.scratch(scratch_, kernel_->scratch_bytes(), false));
    SMELT_TRY(kernel_->record(inner));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].kernel) continue;
      const KernelRecorder::Operand from[] = {{outputs[i]}};
      const Binding to[] = {r.place(i)};
      KernelRecorder last = r.nested(from, to, {});
      SMELT_TRY(outputs_[i].kernel->record(last));
    }
    return Ok();
  }

 private:
  static constexpr int64_t kLargestConstant = 1 << 24;
  /// An operand that changes its type: by a kernel, or on the host.
  struct Part {
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<Tensor> constant;
    size_t offset = 0, bytes = 0;
  };
  void place(Part& part) {
    if (!part.kernel) return;
    part.offset = scratch_;
    scratch_ += align_binding(part.bytes);
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<Part> inputs_, outputs_;
  size_t scratch_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_legalized(const KernelSpec& spec) {
  if (spec.inputs.empty() || spec.outputs.empty() || !spec.has(0)) return nullptr;
  if (takes_reals(spec))
    if (auto kernel = LegalizedKernel::make(spec, Width::kReal)) return kernel;
  if (!takes_integers(spec)) return nullptr;
  if (auto kernel = LegalizedKernel::make(spec, Width::kInt32)) return kernel;
  return spec.device.info().int64 ? LegalizedKernel::make(spec, Width::kInt64) : nullptr;
}

}  // namespace smelt::vulkan
