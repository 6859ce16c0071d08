// Random numbers, detection, signals and strings.
#include <algorithm>

#include "formats/onnx/writer/op_writers.h"
#include "ops/detection/detection.h"
#include "ops/random/random.h"
#include "ops/signal/signal.h"
#include "ops/strings/strings.h"

namespace smelt::onnx {
namespace {

void write_random(NodeWriter& n) {
  using Kind = RandomAttrs::Kind;
  const auto& a = n.attrs<RandomAttrs>();
  std::vector<Attribute> attributes{{"dtype", type_code(a.to)}};
  if (a.seeded) attributes.emplace_back("seed", a.seed);
  if (a.kind == Kind::kBernoulli) return n.bind(0, n.op("Bernoulli", {n.in(0)}, std::move(attributes)));
  if (a.kind == Kind::kMultinomial) {
    attributes.emplace_back("sample_size", a.samples);
    return n.bind(0, n.op("Multinomial", {n.in(0)}, std::move(attributes)));
  }
  if ((a.kind != Kind::kUniform && a.kind != Kind::kNormal) || !is_float(a.to))
    return n.fail("random values of kind ", to_string(a.kind));
  const bool normal = a.kind == Kind::kNormal;
  attributes.emplace_back(normal ? "mean" : "low", a.a);
  attributes.emplace_back(normal ? "scale" : "high", a.b);
  if (const auto shape = n.ints(0)) {
    attributes.emplace_back("shape", *shape);
    return n.bind(0, n.op(normal ? "RandomNormal" : "RandomUniform", {}, std::move(attributes)));
  }
  const Name like = n.op("ConstantOfShape", {n.in_i64(0)});
  n.bind(0, n.op(normal ? "RandomNormalLike" : "RandomUniformLike", {like}, std::move(attributes)));
}

void write_nms(NodeWriter& n) {
  const auto& a = n.attrs<NmsAttrs>();
  if (a.form == NmsAttrs::Form::kOnnx) {
    std::vector<Name> in{n.in(0), n.in(1), n.has(2) ? n.in_i64(2) : kNoName, n.in(3), n.in(4)};
    return n.bind_raw(0, n.op("NonMaxSuppression", in, {{"center_point_box", a.center}}));
  }
  if (a.form != NmsAttrs::Form::kTflite4) return n.fail("soft suppression");
  // One class of one image; the list of indices is filled up with zeros.
  const Name limit = n.reshape(n.in_i64(2), {1});
  const Name chosen = n.op("NonMaxSuppression", {n.unsqueeze(n.in(0), {0}), n.unsqueeze(n.in(1), {0, 1}), limit,
                                                 n.reshape(n.in(3), {1}), n.reshape(n.in(4), {1})});
  const Name index = n.squeeze(n.slice(chosen, 2, 3, 1), {1});
  const Name count = n.op("Shape", {index});
  const Name zeros = n.op("ConstantOfShape", {n.op("Sub", {limit, count})}, {{"value", Tensor(DType::kI64, Shape{1})}});
  n.bind_raw(0, n.cast(n.op("Concat", {index, zeros}, {{"axis", int64_t{0}}}), n.out_type(0).dtype));
  if (n.wants(1)) n.bind_raw(1, n.cast(n.reshape(count, {}), n.out_type(1).dtype));
}

void write_string_concat(NodeWriter& n) { n.bind_raw(0, n.op("StringConcat", {n.in(0), n.in(1)})); }

constexpr OpWriter kMisc[] = {
    {Op::kRandom, write_random, "RandomUniform, RandomNormal, Bernoulli, Multinomial"},
    {Op::kNonMaxSuppression, write_nms, "NonMaxSuppression"},
    {Op::kStringConcat, write_string_concat, "StringConcat"},
};

}  // namespace

std::span<const OpWriter> misc_writers() { return kMisc; }

}  // namespace smelt::onnx
