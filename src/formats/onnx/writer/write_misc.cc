// Random numbers and strings.
#include "formats/onnx/writer/op_writers.h"
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
  if (a.kind == Kind::kBernoulli) return n.bind(0, n.op("Bernoulli", {n.in(0)}, attributes));
  if (a.kind == Kind::kMultinomial) {
    attributes.emplace_back("sample_size", a.samples);
    return n.bind(0, n.op("Multinomial", {n.in(0)}, attributes));
  }
  if ((a.kind != Kind::kUniform && a.kind != Kind::kNormal) || !is_float(a.to))
    return n.fail("random values of kind ", to_string(a.kind));
  const bool normal = a.kind == Kind::kNormal;
  attributes.emplace_back(normal ? "mean" : "low", a.a);
  attributes.emplace_back(normal ? "scale" : "high", a.b);
  if (const auto shape = n.ints(0)) {
    attributes.emplace_back("shape", *shape);
    return n.bind(0, n.op(normal ? "RandomNormal" : "RandomUniform", {}, attributes));
  }
  const Name like = n.op("ConstantOfShape", {n.in_i64(0)});
  n.bind(0, n.op(normal ? "RandomNormalLike" : "RandomUniformLike", {like}, attributes));
}

void write_string_concat(NodeWriter& n) { n.bind_raw(0, n.op("StringConcat", {n.in(0), n.in(1)})); }

constexpr OpWriter kMisc[] = {
    {Op::kRandom, write_random, "RandomUniform, RandomNormal, Bernoulli, Multinomial"},
    {Op::kStringConcat, write_string_concat, "StringConcat"},
};

}  // namespace

std::span<const OpWriter> misc_writers() { return kMisc; }

}  // namespace smelt::onnx
