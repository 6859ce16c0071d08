// Support vector machines of ai.onnx.ml as their kernel's values and linear models of those.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "convert/convert.h"
#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/ml/ml.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"

namespace smelt::convert {
namespace {

using Floats = std::vector<float>;

/// Classes whose pairwise probabilities are coupled: a round has some nodes for each.
constexpr size_t kMostCoupled = 64;

/// Float32 formulas as nodes of a graph; the first error stays.
class Formula {
 public:
  explicit Formula(Builder& b) : b_(b) {}
  const Status& status() const { return status_; }
  Builder& builder() { return b_; }

  ValueId number(double v) { return b_.f32_scalar(static_cast<float>(v)); }
  ValueId table(const Floats& values, const Shape& shape) {
    return b_.constant("", Tensor::from<float>(DType::kF32, shape, std::span<const float>(values)));
  }
  ValueId unary(Unary fn, ValueId x) { return node(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}); }
  ValueId clamp(ValueId x, double lo, double hi) {
    return node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kClamp, lo, hi), {x});
  }
  ValueId binary(Binary fn, ValueId a, ValueId b) { return node(Op::kBinary, make_attrs<BinaryAttrs>(fn), {a, b}); }
  ValueId add(ValueId a, ValueId b) { return binary(Binary::kAdd, a, b); }
  ValueId sub(ValueId a, ValueId b) { return binary(Binary::kSub, a, b); }
  ValueId mul(ValueId a, ValueId b) { return binary(Binary::kMul, a, b); }
  ValueId div(ValueId a, ValueId b) { return binary(Binary::kDiv, a, b); }
  ValueId where(ValueId condition, ValueId a, ValueId b) {
    return node(Op::kWhere, make_attrs<NoAttrs>(), {condition, a, b});
  }
  ValueId reduce(Reduction fn, ValueId x, std::initializer_list<int64_t> axes, bool keep) {
    ReduceAttrs a;
    a.fn = fn;
    a.keep_dims = keep;
    return node(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, b_.i64(axes)});
  }
  ValueId unsqueeze(ValueId x, int64_t axis) {
    return node(Op::kUnsqueeze, make_attrs<NoAttrs>(), {x, b_.i64({axis})});
  }
  ValueId reshape(ValueId x, std::initializer_list<int64_t> shape) {
    return node(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b_.i64(shape)});
  }
  /// Entry t of dimension 1, which stays if `keep`.
  ValueId entry(ValueId x, int64_t t, bool keep) {
    GatherAttrs a;
    a.axis = 1;
    return node(Op::kGather, make_attrs<GatherAttrs>(a), {x, keep ? b_.i64({t}) : b_.i64_scalar(t)});
  }
  /// Scores [n, targets] of x [n, k]: a matrix [targets, k] and one number for each target.
  ValueId linear(ValueId x, Floats matrix, Floats offsets, PostTransform post = PostTransform::kNone) {
    return node(Op::kLinearModel, model(std::move(matrix), std::move(offsets), post), {x});
  }
  static std::shared_ptr<LinearModelAttrs> model(Floats matrix, Floats offsets, PostTransform post) {
    auto a = std::make_shared<LinearModelAttrs>();
    a->targets = static_cast<int64_t>(offsets.size());
    a->coefficients = std::move(matrix);
    a->intercepts = std::move(offsets);
    a->post = post;
    return a;
  }
  ValueId node(Op op, AttrsPtr attrs, std::vector<ValueId> inputs) {
    if (!status_.ok()) return kNoValue;
    auto made = b_.op(op, std::move(attrs), inputs);
    if (made.ok()) return *made;
    status_ = made.error();
    return kNoValue;
  }
  /// The second of the three outputs of a node.
  ValueId second_of_three(Op op, AttrsPtr attrs, const std::vector<ValueId>& inputs) {
    if (!status_.ok()) return kNoValue;
    auto made = b_.node(op, std::move(attrs), inputs, 3);
    if (made.ok()) return (*made)[1];
    status_ = made.error();
    return kNoValue;
  }
  void join(const Status& other) {
    if (status_.ok()) status_ = other;
  }
  void bind(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    if (status_.ok()) status_ = b_.node_to(op, std::move(attrs), inputs, outputs);
  }

 private:
  Builder& b_;
  Status status_ = Ok();
};

/// The kernel's value of each row of x [n, features] and each vector, [n, vectors].
ValueId kernel_values(Formula& f, const SvmAttrs& a, ValueId x, const Floats& vectors, int64_t features) {
  const auto count = static_cast<int64_t>(vectors.size()) / features;
  if (a.kernel == SvmAttrs::Kernel::kRbf) {
    const ValueId row = f.unsqueeze(x, 1), distance = f.sub(row, f.table(vectors, Shape{1, count, features}));
    const ValueId sum = f.reduce(Reduction::kSum, f.mul(distance, distance), {2}, false);
    return f.unary(Unary::kExp, f.mul(sum, f.number(-a.gamma)));
  }
  const ValueId product = f.linear(x, vectors, Floats(static_cast<size_t>(count), 0));
  if (a.kernel == SvmAttrs::Kernel::kLinear) return product;
  const ValueId scaled = f.mul(product, f.number(a.gamma)), line = f.add(scaled, f.number(a.coef0));
  return a.kernel == SvmAttrs::Kernel::kPoly ? f.binary(Binary::kPow, line, f.number(a.degree))
                                             : f.unary(Unary::kTanh, line);
}

/// One round of the iteration: the next probabilities, and true where a row is not settled yet.
struct Round {
  ValueId next = kNoValue, open = kNoValue;
};
Round couple(Formula& f, ValueId before, ValueId q, int64_t classes) {
  ValueId qp = f.reduce(Reduction::kSum, f.mul(q, f.unsqueeze(before, 1)), {2}, false), next = before;
  ValueId pqp = f.reduce(Reduction::kSum, f.mul(before, qp), {1}, true);
  const ValueId worst = f.reduce(Reduction::kMax, f.unary(Unary::kAbs, f.sub(qp, pqp)), {1}, true);
  for (int64_t t = 0; t < classes; ++t) {
    const ValueId row = f.entry(q, t, false), at = f.entry(row, t, true), own = f.entry(qp, t, true);
    const ValueId step = f.div(f.sub(pqp, own), at), grown = f.add(step, f.number(1));
    Floats unit(static_cast<size_t>(classes), 0);
    unit[static_cast<size_t>(t)] = 1;
    next = f.div(f.add(next, f.mul(step, f.table(unit, Shape{1, classes}))), grown);
    const ValueId square = f.mul(step, at), more = f.mul(step, f.add(square, f.mul(f.number(2), own)));
    pqp = f.div(f.div(f.add(pqp, more), grown), grown);
    qp = f.div(f.add(qp, f.mul(step, row)), grown);
  }
  const ValueId open = f.binary(Binary::kGreaterEqual, worst, f.number(0.005 / static_cast<double>(classes)));
  return {f.where(open, next, before), open};
}

/// Probabilities [n, classes] from pairwise ones r [n, classes, classes] (r[i, j]: i against j), by the fixed-point
/// iteration of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", second
/// method.
ValueId coupled(Formula& f, ValueId r, int64_t classes) {
  Builder& b = f.builder();
  Floats eye(static_cast<size_t>(classes * classes), 0);
  for (int64_t t = 0; t < classes; ++t) eye[static_cast<size_t>(t * classes + t)] = 1;
  const ValueId own = f.reduce(Reduction::kSum, f.mul(r, r), {1}, true);
  const ValueId turned = f.node(Op::kTranspose, make_attrs<TransposeAttrs>(std::vector<int64_t>{0, 2, 1}), {r});
  const ValueId diagonal = f.mul(own, f.table(eye, Shape{classes, classes})), q = f.sub(diagonal, f.mul(turned, r));
  const ValueId total = f.reduce(Reduction::kSum, q, {2}, false), none = f.mul(total, f.number(0));
  const ValueId even = f.add(none, f.number(1.0 / static_cast<double>(classes)));
  if (!f.status().ok()) return kNoValue;
  // Carried: rounds so far, probabilities, q. A round in which all rows are settled is the last one.
  const std::vector<ValueId> first{b.i64_scalar(0), even, q};
  Module& module = b.module();
  WhileAttrs loop;
  loop.cond_graph = static_cast<int>(module.graphs.size());
  loop.body_graph = loop.cond_graph + 1;
  std::vector<ValueType> types;
  for (const ValueId id : first) types.push_back(b.type(id));
  module.graphs.resize(module.graphs.size() + 2);
  const int64_t rounds = std::max<int64_t>(100, classes);
  Status inner = Ok();
  for (const int g : {loop.cond_graph, loop.body_graph}) {
    Builder in(module, g);
    in.at("ai.onnx.ml.SVMClassifier", "", "");
    Formula body(in);
    std::vector<ValueId> carried;
    for (const char* name : {"round", "probabilities", "q"}) carried.push_back(in.input(name, types[carried.size()]));
    if (g == loop.cond_graph) {
      in.graph().outputs = {body.binary(Binary::kLess, carried[0], in.i64_scalar(rounds))};
    } else {
      const Round round = couple(body, carried[1], carried[2], classes);
      const ValueId zero = body.number(0), one = body.number(1);
      const ValueId some = body.reduce(Reduction::kMax, body.where(round.open, one, zero), {0, 1}, false);
      const ValueId go_on = body.binary(Binary::kGreater, some, zero);
      const ValueId later = body.add(carried[0], in.i64_scalar(1));
      const ValueId next = body.where(go_on, later, in.i64_scalar(rounds));
      in.graph().outputs = {next, round.next, carried[2]};
    }
    f.join(body.status());
  }
  return f.second_of_three(Op::kWhile, make_attrs<WhileAttrs>(loop), first);
}

/// Probabilities of the classes from the decision values of all pairs.
ValueId probabilities(Formula& f, const SvmAttrs& a, ValueId scores, int64_t classes, size_t pairs) {
  const auto first = [&](const Floats& v) { return Floats(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(pairs)); };
  const Shape row{1, static_cast<int64_t>(pairs)};
  const ValueId scaled = f.mul(scores, f.table(first(a.prob_a), row));
  const ValueId line = f.add(scaled, f.table(first(a.prob_b), row));
  const ValueId of_first = f.clamp(f.unary(Unary::kSigmoid, f.unary(Unary::kNeg, line)), 1e-7, 1 - 1e-7);
  // Entry [i, j] is that of its pair, entry [j, i] what remains of 1.
  Floats spread(static_cast<size_t>(classes * classes) * pairs, 0), rest(static_cast<size_t>(classes * classes), 0);
  size_t pair = 0;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      spread[static_cast<size_t>(i * classes + j) * pairs + pair] = 1;
      spread[static_cast<size_t>(j * classes + i) * pairs + pair] = -1;
      rest[static_cast<size_t>(j * classes + i)] = 1;
    }
  return coupled(f, f.reshape(f.linear(of_first, spread, rest), {-1, classes, classes}), classes);
}

/// A linear model of the kernel's values: a row of `matrix` and an entry of `offsets` for each score.
struct Scores {
  Floats matrix, offsets;
};

/// Binds the scores behind the transform. One score of two classes becomes one for each.
void bind_scores(Formula& f, const SvmAttrs& a, ValueId kernel, Scores scores, ValueId output) {
  if (output == kNoValue) return;
  PostTransform post = a.post;
  if (a.rho.size() == 1 && a.labels.size() == 2 && scores.offsets.size() == 1) {
    const bool positive = std::ranges::all_of(a.coefficients, [](float c) { return c >= 0; });
    const bool negative = post == PostTransform::kNone || (post == PostTransform::kLogistic && !positive);
    // Else the first class has 1 - the score, and no transform.
    Scores both{.matrix = scores.matrix, .offsets = {(negative ? 0 : 1) - scores.offsets[0], scores.offsets[0]}};
    for (float& c : both.matrix) c = -c;
    both.matrix.insert(both.matrix.end(), scores.matrix.begin(), scores.matrix.end());
    if (!negative) post = PostTransform::kNone;
    scores = std::move(both);
  }
  f.bind(Op::kLinearModel, Formula::model(std::move(scores.matrix), std::move(scores.offsets), post), {kernel},
         {output});
}

/// Binds the labels of the classes with the largest scores; of one score, the second label above 0.
void bind_labels(Formula& f, const SvmAttrs& a, ValueId x, Scores scores, ValueId output) {
  if (output == kNoValue) return;
  auto attrs = Formula::model(std::move(scores.matrix), std::move(scores.offsets), PostTransform::kNone);
  attrs->classifier = true;
  attrs->labels = a.labels;
  f.bind(Op::kLinearModel, std::move(attrs), {x}, {output, kNoValue});
}

/// A score for each entry of x [n, count].
Scores identity(size_t count, float offset) {
  Scores out{.matrix = Floats(count * count, 0), .offsets = Floats(count, offset)};
  for (size_t k = 0; k < count; ++k) out.matrix[k * count + k] = 1;
  return out;
}

/// True if a bound decides between the two classes of a classifier without support vectors.
bool has_bound(const SvmAttrs& a) { return a.rho.size() == 1 && a.labels.size() == 2 && a.prob_a.empty(); }

/// A classifier without support vectors: a score for each class.
void classify_linearly(Formula& f, const SvmAttrs& a, ValueId kernel, size_t count,
                       const std::vector<ValueId>& outputs) {
  const float rho = a.rho.empty() ? 0 : a.rho[0];
  if (has_bound(a)) {
    // The second of two classes where it has the larger score, or a score is 0.5 at least, or above 0 if there are
    // negative coefficients.
    const bool positive = std::ranges::all_of(a.coefficients, [](float c) { return c >= 0; });
    const ValueId top = f.reduce(Reduction::kMax, f.add(kernel, f.number(rho)), {1}, true);
    const ValueId above =
        f.binary(positive ? Binary::kGreaterEqual : Binary::kGreater, top, f.number(positive ? 0.5 : 0));
    const ValueId own = f.entry(kernel, 1, true);
    const ValueId larger = f.binary(Binary::kGreater, own, f.entry(kernel, 0, true));
    const ValueId second = f.binary(Binary::kLogicalOr, above, larger), yes = f.number(1);
    bind_labels(f, a, f.where(second, yes, f.number(-1)), identity(1, 0), outputs[0]);
  } else {
    bind_labels(f, a, kernel, identity(count, rho), outputs[0]);
  }
  if (outputs.size() > 1) bind_scores(f, a, kernel, identity(count, rho), outputs[1]);
}

/// Decision values of all pairs of classes, and the votes that they cast.
void pairwise(Formula& f, const SvmAttrs& a, ValueId kernel, const std::vector<ValueId>& outputs) {
  const size_t classes = a.vectors_per_class.size(), pairs = classes * (classes - 1) / 2;
  size_t total = 0;
  std::vector<size_t> start;
  for (const int64_t n : a.vectors_per_class) {
    start.push_back(total);
    total += static_cast<size_t>(n);
  }
  Scores decisions{.matrix = Floats(pairs * total, 0),
                   .offsets = {a.rho.begin(), a.rho.begin() + static_cast<std::ptrdiff_t>(pairs)}};
  Scores votes{.matrix = Floats(classes * pairs, 0), .offsets = Floats(classes, 0)};
  for (size_t i = 0, p = 0; i < classes; ++i)
    for (size_t j = i + 1; j < classes; ++j, ++p) {
      const auto set = [&](size_t of, size_t row) {
        for (size_t m = start[of]; m < start[of] + static_cast<size_t>(a.vectors_per_class[of]); ++m)
          decisions.matrix[p * total + m] = a.coefficients[row * total + m];
      };
      set(i, j - 1);
      set(j, i);
      votes.matrix[i * pairs + p] = 1;
      votes.matrix[j * pairs + p] = -1;
      votes.offsets[j] += 1;
    }
  const ValueId scores = f.linear(kernel, decisions.matrix, decisions.offsets);
  const ValueId zero = f.number(0), one = f.number(1);
  const ValueId won = f.where(f.binary(Binary::kGreater, scores, zero), one, zero);
  bind_labels(f, a, won, std::move(votes), outputs[0]);
  if (outputs.size() < 2 || outputs[1] == kNoValue) return;
  if (a.prob_a.empty()) return bind_scores(f, a, kernel, std::move(decisions), outputs[1]);
  Scores same = identity(classes, 0);
  const ValueId p = probabilities(f, a, scores, static_cast<int64_t>(classes), pairs);
  f.bind(Op::kLinearModel, Formula::model(std::move(same.matrix), std::move(same.offsets), a.post), {p}, {outputs[1]});
}

/// True if the node's attributes and input are such that split() has a form for it.
bool can_split(const SvmAttrs& a, const ValueType& x) {
  if (!x.ranked || x.shape.rank() != 2 || x.shape[1] < 1 || x.quant || x.dtype == DType::kF64 ||
      x.dtype == DType::kString || is_complex(x.dtype))
    return false;
  const auto features = static_cast<size_t>(x.shape[1]);
  const bool supported = a.classifier ? !a.vectors_per_class.empty() : a.supports > 0;
  const Floats& vectors = supported ? a.support_vectors : a.coefficients;
  if (vectors.empty() || vectors.size() % features != 0) return false;
  if (!supported) return !a.classifier || vectors.size() == features * a.labels.size();
  const size_t count = vectors.size() / features;
  if (!a.classifier) return a.coefficients.size() == count;
  if (std::ranges::any_of(a.vectors_per_class, [](int64_t n) { return n < 0; })) return false;
  const size_t classes = a.vectors_per_class.size(), pairs = classes * (classes - 1) / 2;
  return classes >= 2 && a.labels.size() == classes && a.rho.size() >= pairs &&
         a.coefficients.size() >= count * (classes - 1) &&
         (a.prob_a.empty() || (classes <= kMostCoupled && a.prob_a.size() >= pairs && a.prob_b.size() >= pairs));
}

Status split(Builder& b, const Node& node) {
  const auto& a = static_cast<const SvmAttrs&>(*node.attrs);
  Formula f(b);
  ValueId x = node.inputs[0];
  const int64_t features = b.type(x).shape[1];
  if (b.type(x).dtype != DType::kF32) x = f.node(Op::kCast, make_attrs<CastAttrs>(DType::kF32), {x});
  const bool supported = a.classifier ? !a.vectors_per_class.empty() : a.supports > 0;
  const Floats& vectors = supported ? a.support_vectors : a.coefficients;
  const ValueId kernel = kernel_values(f, a, x, vectors, features);
  if (a.classifier) {
    if (supported)
      pairwise(f, a, kernel, node.outputs);
    else
      classify_linearly(f, a, kernel, vectors.size() / static_cast<size_t>(features), node.outputs);
    return f.status();
  }
  const Floats sum = supported ? a.coefficients : Floats(vectors.size() / static_cast<size_t>(features), 1);
  const Floats rho{a.rho.empty() ? 0 : a.rho[0]};
  if (!a.one_class) {
    f.bind(Op::kLinearModel, Formula::model(sum, rho, PostTransform::kNone), {kernel}, {node.outputs[0]});
    return f.status();
  }
  const ValueId score = f.linear(kernel, sum, rho), inside = f.binary(Binary::kGreater, score, f.number(0));
  f.bind(Op::kWhere, make_attrs<NoAttrs>(), {inside, f.number(1), f.number(-1)}, {node.outputs[0]});
  return f.status();
}

}  // namespace

Status decompose_svm(Module& module) {
  for (size_t g = 0, count = module.graphs.size(); g < count; ++g) {
    const std::vector<Node> nodes = std::move(module.graphs[g].nodes);
    module.graphs[g].nodes.clear();
    Builder b(module, static_cast<int>(g));
    for (const Node& node : nodes) {
      b.at(node.origin, node.name, node.where);
      const bool splits = node.op == Op::kSvm && can_split(static_cast<const SvmAttrs&>(*node.attrs),
                                                           module.graphs[g].value(node.inputs[0]).type);
      if (splits)
        SMELT_TRY(split(b, node));
      else
        module.graphs[g].nodes.push_back(node);
    }
  }
  return Ok();
}

}  // namespace smelt::convert
