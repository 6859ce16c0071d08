// float16 and bfloat16 storage: operands become float32 in scratch, a float32 kernel of the list computes, the result
// is rounded back. Constants are converted once.
#include <array>
#include <span>
#include <vector>

#include "backends/cpu/core/constant_key.h"
#include "backends/cpu/core/float16.h"
#include "backends/cpu/core/inner_context.h"
#include "backends/cpu/core/kernel.h"
#include "base/error.h"
#include "ops/common/operands.h"
#include "ops/conv/conv.h"
#include "ops/matmul/matmul.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr size_t kMaxInputs = 8;

bool is_float16(const ValueType& t) { return (t.dtype == DType::kF16 || t.dtype == DType::kBF16) && !t.quant; }

bool is_real(const ValueType& t) { return is_float16(t) || is_unquantized_f32(t); }

/// Larger weights stay as they are: their float32 form would take too much memory.
constexpr int64_t kMaxWeights = 16 << 20;

int64_t padded(const ValueType& t) { return padded_floats(t.shape.elements()); }

class LegalizedKernel final : public Kernel {
 public:
  LegalizedKernel(const KernelSpec& spec, std::unique_ptr<Kernel> inner, std::vector<Tensor> constants,
                  std::vector<Packed> storage)
      : inner_(std::move(inner)),
        constants_(std::move(constants)),
        storage_(std::move(storage)),
        types_(spec.inputs.begin(), spec.inputs.end()),
        output_(spec.outputs[0]),
        convert_(converter(spec.isa)) {
    for (size_t i = 0; i < types_.size(); ++i)
      if (converts(i)) floats_ += padded(types_[i]);
    if (is_float16(output_)) floats_ += padded(output_);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(floats_) * sizeof(float) +
           static_cast<size_t>(round_up(static_cast<int64_t>(inner_->scratch_bytes()), 64));
  }
  Status run(KernelContext& ctx) const override {
    auto* workspace = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!workspace) return Error(ErrorCode::kLimit, "no memory to widen half-precision operands");
    std::array<Datum, kMaxInputs> inputs;
    for (size_t i = 0; i < types_.size(); ++i) {
      if (constants_[i].defined()) {
        inputs[i] = constants_[i];
      } else if (converts(i)) {
        widen(ctx.threads(), types_[i].dtype, ctx.input(static_cast<int>(i)).data<uint16_t>(),
              types_[i].shape.elements(), workspace);
        inputs[i] = Tensor::view(DType::kF32, types_[i].shape, workspace, nullptr);
        workspace += padded(types_[i]);
      }
    }
    if (!is_float16(output_)) {
      InnerContext inner(ctx, inputs, ctx.output(0), workspace);
      return inner_->run(inner);
    }
    float* result = workspace;
    Tensor y = Tensor::view(DType::kF32, output_.shape, result, nullptr);
    workspace += padded(output_);
    InnerContext inner(ctx, inputs, y, workspace);
    SMELT_TRY(inner_->run(inner));
    auto* to = ctx.output(0).data<uint16_t>();
    ctx.threads().parallel_for(output_.shape.elements(), 16384, [&](int64_t begin, int64_t end) {
      (output_.dtype == DType::kF16 ? convert_.to_f16 : convert_.to_bf16)(result + begin, end - begin, to + begin);
    });
    return Ok();
  }

 private:
  bool converts(size_t i) const { return is_float16(types_[i]) && !constants_[i].defined(); }
  void widen(ThreadPool& pool, DType dtype, const uint16_t* from, int64_t n, float* to) const {
    pool.parallel_for(n, 16384, [&](int64_t begin, int64_t end) {
      (dtype == DType::kF16 ? convert_.from_f16 : convert_.from_bf16)(from + begin, end - begin, to + begin);
    });
  }

  std::unique_ptr<Kernel> inner_;
  std::vector<Tensor> constants_;  ///< float32 forms of half-precision constants; undefined elsewhere
  std::vector<Packed> storage_;    ///< of the constants
  std::vector<ValueType> types_;
  ValueType output_;
  const Converter& convert_;
  int64_t floats_ = 0;
};

struct WidenedKey {
  ConstantKey constant;
  auto operator<=>(const WidenedKey&) const = default;
};

/// The kernel of the list that runs the node in float32, between conversions of the float16 and bfloat16 operands.
/// Constants are converted once. `quantized_weights`: input 1 may also be a quantized constant, which becomes float32.
/// Returns nullptr where nothing is to be converted, or no kernel runs the node in float32.
std::unique_ptr<Kernel> through_float32(const KernelSpec& spec, bool quantized_weights) {
  const bool quantized = quantized_weights && is_real(spec.inputs[0]) && is_real(spec.outputs[0]) && spec.constant(1) &&
                         spec.inputs[1].quant && is_integer(spec.inputs[1].dtype) &&
                         spec.inputs[1].shape.elements() <= kMaxWeights;
  bool any = is_float16(spec.outputs[0]) || quantized;
  for (size_t i = 0; i < spec.inputs.size(); ++i) any = any || (spec.has(i) && is_float16(spec.inputs[i]));
  if (!any) return spec.refuse("no operand is float16 or bfloat16");
  if (spec.outputs.size() != 1) return spec.refuse("several outputs");
  if (spec.inputs.size() > kMaxInputs) return spec.refuse("more than ", kMaxInputs, " inputs");
  std::vector<ValueType> types(spec.inputs.begin(), spec.inputs.end());
  std::vector<ValueType> outputs(spec.outputs.begin(), spec.outputs.end());
  std::vector<const Tensor*> pointers(spec.inputs.size(), nullptr);
  std::vector<Tensor> constants(spec.inputs.size());
  std::vector<Packed> storage;
  for (size_t i = 0; i < types.size(); ++i) {
    pointers[i] = spec.constant(i);
    const bool is_weights = i == 1 && quantized;
    if (!spec.has(i) || !(is_float16(types[i]) || is_weights)) continue;
    if (const Tensor* c = spec.constant(i)) {
      Packed wide = spec.packs.get(
          WidenedKey{ConstantKey(*c)},
          [&] {
            auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(c->elements()) * sizeof(float));
            if (!real_values(c->read_once(), packed->data<float>()).ok()) return Packed();
            return Packed(packed);
          },
          [&] {
            return PackContents{"legalized_types", {}, {c}};
          });
      if (!wide) return nullptr;
      constants[i] = Tensor::view(DType::kF32, c->shape(), wide->data<float>(), wide);
      pointers[i] = &constants[i];
      storage.push_back(std::move(wide));
    }
    types[i].dtype = DType::kF32;
    types[i].quant = nullptr;
  }
  if (is_float16(outputs[0])) outputs[0].dtype = DType::kF32;
  auto inner = make_kernel({{spec.node, types, pointers, outputs}, spec.isa, spec.threads, spec.packs});
  if (!inner) return spec.refuse("no kernel runs it in float32");
  return std::make_unique<LegalizedKernel>(spec, std::move(inner), std::move(constants), std::move(storage));
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_legalized_types(const KernelSpec& spec) {
  if (spec.node.op == Op::kConv) return through_float32(spec, !spec.attrs<ConvAttrs>().dynamic_quant);
  if (spec.node.op != Op::kMatMul) return through_float32(spec, false);
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (attrs.dynamic_quant || attrs.row_block > 0) return through_float32(spec, false);
  if (spec.constant(1) && spec.inputs[1].quant && bit_width(spec.inputs[1].dtype) == 4)
    if (auto kernel = through_float32(spec, false)) return kernel;
  return through_float32(spec, true);
}

}  // namespace smelt
