#include "ops/shape/copies.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {

Result<Ints> constant_ints(const NodeSpec& spec, size_t i) {
  if (!spec.has(i)) return InvalidModel("input ", i, " is missing");
  if (!spec.constant(i)) return Unsupported("where elements go depends on input ", i, ", which is computed");
  return ints_of(*spec.constant(i));
}

Result<Ints> optional_ints(const NodeSpec& spec, size_t i) { return spec.has(i) ? constant_ints(spec, i) : Ints{}; }

Result<int64_t> constant_int(const NodeSpec& spec, size_t i, int64_t absent) {
  if (!spec.has(i)) return absent;
  SMELT_ASSIGN(const Ints given, constant_ints(spec, i));
  if (given.size() != 1) return InvalidInput("input ", i, " has ", given.size(), " elements, one number expected");
  return given[0];
}

Status expect_shape(const ValueType& output, const Shape& shape) {
  if (output.shape == shape) return Ok();
  return InvalidInput("the result has shape ", shape.str(), " but ", output.shape.str(), " was planned");
}

StridedCopies one_copy(StridedCopy copy) {
  StridedCopies all;
  all.copies.push_back(std::move(copy));
  return all;
}

StridedCopy whole_copy(const NodeSpec& spec, size_t input) {
  StridedCopy c;
  c.input = input;
  c.dim(spec.inputs[input].shape.elements(), 1, 1);
  return c;
}

StridedCopy broadcast_copy(const NodeSpec& spec, size_t input) {
  StridedCopy c;
  c.input = input;
  c.dim(spec.outputs[0].shape.elements(), 0, 1);
  return c;
}

DimRun neighbours(int64_t in, int64_t out, int64_t count) {
  DimRun run;
  run.in = in;
  run.out = out;
  run.counts[1] = count;
  run.in_steps[1] = 1;
  return run;
}

std::vector<DimRun> dim_runs(const Ints& table) {
  std::vector<DimRun> runs;
  for (size_t i = 0; i < table.size();) {
    DimRun run = neighbours(table[i], static_cast<int64_t>(i), 1);
    const int64_t step = i + 1 < table.size() ? table[i + 1] - table[i] : 0;
    size_t end = i + 1;
    while (end < table.size() && table[end] - table[end - 1] == step) ++end;
    if (end - i == 2 && std::abs(step) > 1) end = i + 1;  // the second entry is likely to begin a longer run
    run.counts[1] = static_cast<int64_t>(end - i);
    run.in_steps[1] = run.counts[1] == 1 ? 1 : step;
    i = end;
    if (!runs.empty()) {
      DimRun& last = runs.back();
      const int64_t in = run.in - last.in - (last.counts[0] - 1) * last.in_steps[0];
      const bool alike = last.counts[1] == run.counts[1] && last.in_steps[1] == run.in_steps[1];
      if (alike && (last.counts[0] == 1 || in == last.in_steps[0])) {
        last.in_steps[0] = in;
        last.out_steps[0] = run.counts[1];
        ++last.counts[0];
        continue;
      }
    }
    runs.push_back(run);
  }
  return runs;
}

void add_separable(StridedCopies& all, const Shape& x, const Shape& y, const std::vector<std::vector<DimRun>>& dims) {
  const Shape from = x.strides(), to = y.strides();
  Shape counts = Shape::of_rank(y.rank(), 0);
  for (int d = 0; d < y.rank(); ++d) counts[d] = static_cast<int64_t>(dims[static_cast<size_t>(d)].size());
  for_each_index(counts, [&](const int64_t* index) {
    StridedCopy c;
    for (int d = 0; d < y.rank(); ++d) {
      const DimRun& run = dims[static_cast<size_t>(d)][static_cast<size_t>(index[d])];
      c.in_offset += run.in * from[d];
      c.out_offset += run.out * to[d];
      for (int k = 0; k < 2; ++k)
        if (run.counts[k] != 1) c.dim(run.counts[k], run.in_steps[k] * from[d], run.out_steps[k] * to[d]);
    }
    all.copies.push_back(std::move(c));
    return true;
  });
}

namespace {

/// Rescales x's stored integers to the parameters of y. TFLite's rule for 8-bit values: round(q * s + bias), half away
/// from zero; else through real numbers, half to even. real: scratch for x's elements.
void rescale(const Tensor& x, Tensor& y, float* real) {
  const Quantization& from = *x.quant();
  const Quantization& to = *y.quant();
  if (to.kind != Quantization::Kind::kPerTensor || to.rounding == Rounding::kFloatHalfEven) {
    dequantize(x, real);
    quantize(real, y);
    return;
  }
  const float inverse = 1.0f / to.scale(), scale = from.scale() * inverse;
  const float bias = -static_cast<float>(from.zero_point()) * scale;
  const int64_t lo = int_min(y.dtype()), hi = int_max(y.dtype());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto q = static_cast<int64_t>(std::round(static_cast<float>(get_int(x, i)) * scale + bias));
    set_int(y, i, std::clamp(q + to.zero_point(), lo, hi));
  }
}

/// True if output `y` holds the elements of x in other quantization parameters.
bool is_rescaled(const KernelContext& ctx, const Tensor& x, const Tensor& y) {
  return x.quant() && y.quant() && (op_info(ctx.node().op).flags & kQuantized) != 0 && is_integer(x.dtype()) &&
         x.quant()->kind == Quantization::Kind::kPerTensor && !same_quant_params(x.quant(), y.quant());
}

/// x in the quantization parameters of y.
Result<Tensor> rescaled(KernelContext& ctx, const Tensor& x, const Tensor& y) {
  SMELT_ASSIGN(Tensor out, Tensor::allocate(y.dtype(), x.shape()));
  out.set_quant(y.quant());
  auto* real = static_cast<float*>(ctx.scratch(static_cast<size_t>(x.elements()) * sizeof(float)));
  if (!real) return LimitReached("no memory to rescale ", x.elements(), " values");
  rescale(x, out, real);
  return out;
}

ValueType type_of(const Tensor& t) { return ValueType::tensor(t.dtype(), t.shape(), t.quant()); }

}  // namespace

Status run_copies(KernelContext& ctx) {
  std::vector<ValueType> inputs, outputs;
  std::vector<const Tensor*> contents;
  inputs.reserve(static_cast<size_t>(ctx.inputs()));
  outputs.reserve(static_cast<size_t>(ctx.outputs()));
  contents.reserve(inputs.capacity());
  for (int i = 0; i < ctx.inputs(); ++i) {
    contents.push_back(ctx.has(i) ? &ctx.input(i) : nullptr);
    inputs.push_back(ctx.has(i) ? type_of(ctx.input(i)) : ValueType{});
  }
  for (int i = 0; i < ctx.outputs(); ++i) outputs.push_back(ctx.wants(i) ? type_of(ctx.output(i)) : ValueType{});
  SMELT_ASSIGN(StridedCopies all, strided_copies({ctx.node(), inputs, contents, outputs}));
  std::vector<std::optional<CopySource>> sources(inputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!ctx.wants(static_cast<int>(o))) continue;
    Tensor& y = ctx.output(static_cast<int>(o));
    CopyTarget target(y);
    if (o == 0 && all.fill.defined()) fill_run(CopySource(all.fill), 0, target, 0, y.elements());
    for (const StridedCopy& c : all.copies) {
      if (c.output != o) continue;
      if (!sources[c.input]) {
        const Tensor& x = ctx.input(static_cast<int>(c.input));
        if (is_rescaled(ctx, x, y)) {
          SMELT_ASSIGN(const Tensor as_y, rescaled(ctx, x, y));
          sources[c.input].emplace(as_y);
        } else {
          sources[c.input].emplace(x);
        }
      }
      const bool in_place = sources[c.input]->data() == target.data() && c.in_offset == c.out_offset &&
                            std::ranges::equal(c.in_strides, c.out_strides);
      if (!in_place) copy(*sources[c.input], target, c);
    }
  }
  return Ok();
}

std::optional<RescaleTable> rescale_table(const ValueType& x, const ValueType& y) {
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || x.dtype != y.dtype) return std::nullopt;
  if (y.dtype != DType::kI8 && y.dtype != DType::kU8) return std::nullopt;
  Tensor all(x.dtype, Shape{256}), out(y.dtype, Shape{256});
  std::iota(all.data<uint8_t>(), all.data<uint8_t>() + 256, uint8_t{0});
  all.set_quant(x.quant);
  out.set_quant(y.quant);
  float real[256];
  rescale(all, out, real);
  RescaleTable table;
  std::copy_n(out.data<uint8_t>(), 256, table.begin());
  return table;
}

#define SMELT_COPY_OP(name) \
  Status reference_##name(KernelContext& ctx) { return run_copies(ctx); }
#define SMELT_COPY_CASE(name)
#define SMELT_COPY_INDEXED(name)
#include "ops/core/copy_ops.inc"
#undef SMELT_COPY_OP
#undef SMELT_COPY_CASE
#undef SMELT_COPY_INDEXED

}  // namespace smelt
