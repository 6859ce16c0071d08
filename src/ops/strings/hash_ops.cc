#include <cstring>
#include <vector>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/rules.h"
#include "ops/strings/hash.h"
#include "ops/strings/strings.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_Hash(InferContext& ctx) {
  const auto& a = ctx.attrs<HashAttrs>();
  if (a.kind == HashAttrs::Kind::kMurmur3) {
    SMELT_TRY(need_tensors(ctx, 1));
    ValueType out = ctx.input(0);
    out.dtype = a.positive ? DType::kU32 : DType::kI32;
    out.quant = nullptr;
    ctx.set(0, out);
    return Ok();
  }
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType &seeds = ctx.input(0), &x = ctx.input(1);
  if (x.dtype == DType::kString) return Unsupported("a projection of strings");
  if (x.ranked && x.shape.rank() < 1) return InvalidModel("the input is a scalar");
  if (seeds.dtype != DType::kF32 && seeds.dtype != DType::kInvalid)
    return InvalidModel("hash seeds of ", to_string(seeds.dtype), ", float32 expected");
  Shape out{-1};
  if (seeds.ranked) {
    if (seeds.shape.rank() != 2) return InvalidModel("hash seeds of rank ", seeds.shape.rank(), ", 2 expected");
    if (seeds.shape[1] > 32) return InvalidModel("a hash of ", seeds.shape[1], " bits, at most 32 expected");
    const bool dense = a.kind == HashAttrs::Kind::kLshDense;
    if (seeds.shape.is_static()) out[0] = dense ? seeds.shape[0] * seeds.shape[1] : seeds.shape[0];
  }
  const auto n = entries_of(ctx, 2);
  if (n && x.ranked && x.shape[0] >= 0 && *n < x.shape[0])
    return InvalidModel(*n, " weights for ", x.shape[0], " items");
  ctx.set(0, ValueType::tensor(DType::kI32, out));
  return Ok();
}

namespace {

Status murmur(KernelContext& ctx) {
  const auto& a = ctx.attrs<HashAttrs>();
  const Tensor& x = ctx.input(0);
  const auto seed = static_cast<uint32_t>(a.seed);
  const auto unit = static_cast<size_t>(bit_width(x.dtype())) / 8;
  if (x.dtype() != DType::kString && unit == 0) return Unsupported("a hash of ", to_string(x.dtype()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    uint32_t h;
    if (x.dtype() == DType::kString) {
      const std::string& s = x.data<std::string>()[i];
      h = murmur3(s.data(), s.size(), seed);
    } else {
      h = murmur3(x.data<char>() + static_cast<size_t>(i) * unit, unit, seed);
    }
    ctx.output(0).data<uint32_t>()[i] = h;
  }
  return Ok();
}

/// Sign of the weighted sum of the items' fingerprints under one seed.
bool sign_bit(float seed, const Tensor& x, const Tensor* weights, std::vector<char>& key) {
  const int64_t items = x.dim(0);
  const size_t bytes = key.size() - sizeof(float);
  double score = 0;
  std::memcpy(key.data(), &seed, sizeof seed);
  for (int64_t i = 0; i < items; ++i) {
    if (bytes > 0) std::memcpy(key.data() + sizeof seed, x.data<char>() + static_cast<size_t>(i) * bytes, bytes);
    const auto value = static_cast<double>(static_cast<int64_t>(fingerprint64(key.data(), key.size())));
    score += weights ? get_double(*weights, i) * value : value;
  }
  return score > 0;
}

}  // namespace

Status reference_Hash(KernelContext& ctx) {
  const auto& a = ctx.attrs<HashAttrs>();
  if (a.kind == HashAttrs::Kind::kMurmur3) return murmur(ctx);
  const Tensor &seeds = ctx.input(0), &x = ctx.input(1);
  const Tensor* weights = ctx.has(2) ? &ctx.input(2) : nullptr;
  auto* out = ctx.output(0).data<int32_t>();
  const int64_t hashes = seeds.dim(0), bits = seeds.dim(1);
  if (ctx.output(0).elements() == 0) return Ok();
  std::vector<char> key(sizeof(float) + (x.elements() == 0 ? 0 : x.bytes() / static_cast<size_t>(x.dim(0))));
  const bool empty = x.elements() == 0;
  for (int64_t h = 0; h < hashes; ++h) {
    SMELT_TRY(ctx.tick());
    uint32_t signature = 0;
    for (int64_t b = 0; b < bits; ++b) {
      const bool bit = !empty && sign_bit(seeds.data<float>()[h * bits + b], x, weights, key);
      signature = signature << 1 | static_cast<uint32_t>(bit);
      if (a.kind == HashAttrs::Kind::kLshDense) out[h * bits + b] = bit;
    }
    if (a.kind == HashAttrs::Kind::kLshSparse)
      out[h] = static_cast<int32_t>(signature + static_cast<uint32_t>(h) * (bits < 32 ? 1u << bits : 0u));
  }
  return Ok();
}

}  // namespace smelt
