// Gathers rows of a block-quantized table and dequantizes them: embeddings of language models.
#include <cstring>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "ops/gather/gather.h"
#include "shaders/gather_block_quantized.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

class GatherBlockQuantized final : public Kernel {
 public:
  shaders::GatherBlockQuantized::Push push{};
  uint32_t bits = 4, words = 1;
  bool is_signed = false, fp16 = false;
  Tensor data, zeros;
  FloatConstant scales;
  bool reads(size_t i) const override { return i == 1; }
  size_t bytes() const { return (data.bytes() + 3) / 4 * 4; }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.table(0, "whole words", bytes(), [&](void* to) {
      std::memset(to, 0, bytes());
      std::memcpy(to, data.raw(), data.bytes());
    }));
    SMELT_ASSIGN(const Binding indices, r.input(1));
    SMELT_ASSIGN(const Binding scale, scales.bind(r));
    Binding zero = scale;
    if (zeros.defined()) {
      const auto blocks = static_cast<size_t>(zeros.elements());
      SMELT_ASSIGN(zero, r.table(3, "zero points of blocks", blocks * sizeof(int32_t), [&](void* to) {
        for (size_t i = 0; i < blocks; ++i) static_cast<int32_t*>(to)[i] = zeros.data<int32_t>()[i];
      }));
    }
    return run_checked(r, fp16 ? shaders::gather_block_quantized_f16 : shaders::gather_block_quantized_f32,
                       {.bits = bits, .is_signed = is_signed, .zeros = zeros.defined(), .index_words = words},
                       {x, indices, scale, zero, r.output(0), r.faults()}, push.n, push);
  }
};

/// Zero points as int32. With `per` of them in a byte, each row begins with a new byte. Undefined if there are too few.
Tensor unpack_zero_points(const Tensor& t, int64_t rows, int64_t blocks, int64_t per) {
  const int64_t row = (blocks + per - 1) / per, bits = 8 / per;
  if (t.elements() < rows * row) return {};
  Tensor out(DType::kI32, Shape{rows * blocks});
  for (int64_t i = 0; i < rows * blocks; ++i) {
    const int64_t at = i / blocks * row + i % blocks / per, v = get_int(t, at);
    out.data<int32_t>()[i] =
        static_cast<int32_t>(per == 1 ? v : v >> (i % blocks % per * bits) & ((int64_t{1} << bits) - 1));
  }
  return out;
}

}  // namespace

std::unique_ptr<Kernel> make_gather_block_quantized(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherBlockQuantizedAttrs>();
  const Tensor *x = spec.constant(0), *scales = spec.constant(2);
  const DType to = spec.outputs[0].dtype;
  if (!x || !scales || (spec.has(3) && !spec.constant(3)) || (to != DType::kF32 && to != DType::kF16)) return nullptr;
  const int rank = x->rank();
  const DType dtype = x->dtype();
  const bool bytes = dtype == DType::kU8 || dtype == DType::kI8;
  const int64_t per = dtype == DType::kU8 && a.bits < 8 ? 8 / a.bits : 1;
  if (rank < 2 || (a.gather_axis != 0 && a.gather_axis != -rank)) return nullptr;
  if (a.quantize_axis != rank - 1 && a.quantize_axis != -1) return nullptr;
  if (per > 2 || (!bytes && dtype != DType::kU4 && dtype != DType::kI4)) return nullptr;
  auto k = std::make_unique<GatherBlockQuantized>();
  k->bits = bytes && per == 1 ? 8 : 4;
  k->is_signed = dtype == DType::kI8 || dtype == DType::kI4;
  k->fp16 = to == DType::kF16;
  k->words = index_words(spec.inputs[1].dtype);
  const int64_t row = x->dim(rank - 1) * per, blocks = scales->dim(rank - 1), inner = x->elements() * per / x->dim(0);
  if (k->words == 0 || x->elements() * per > INT32_MAX || k->bytes() > 0x7fffffff) return nullptr;
  k->data = *x;
  if (k->bytes() > spec.device.max_binding()) return nullptr;
  k->scales = FloatConstant(2, *scales);
  if (k->scales.bytes() > spec.device.max_binding()) return nullptr;
  if (spec.has(3)) {
    k->zeros = unpack_zero_points(*spec.constant(3), scales->elements() / blocks, blocks, per);
    if (!k->zeros.defined()) return nullptr;
  }
  const auto u32 = [](int64_t v) { return static_cast<uint32_t>(v); };
  k->push = {.n = u32(spec.outputs[0].shape.elements()),
             .extent = u32(x->dim(0)),
             .inner = u32(inner),
             .row = u32(row),
             .block = u32(a.block),
             .blocks = u32(blocks),
             .zero = dtype == DType::kU8 ? 1 << (a.bits - 1) : 0,
             .fault_code = 0};
  return k;
}

}  // namespace smelt::vulkan
