#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/control/bodies.h"
#include "ops/control/control.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// The type of `slice` stacked along a new axis; what is not known stays so.
ValueType stacked_type(const ValueType& slice, int64_t axis, int64_t n) {
  ValueType t = slice;
  if (slice.kind != ValueType::Kind::kTensor) return {};
  if (!slice.ranked || slice.shape.rank() == Shape::kMaxRank) {
    t.ranked = false;
    return t;
  }
  const int rank = slice.shape.rank() + 1;
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    t.ranked = false;
    return t;
  }
  t.shape.insert(static_cast<int>(at), n);
  return t;
}

}  // namespace

Status infer_Loop(InferContext& ctx) {
  const auto& a = ctx.attrs<LoopAttrs>();
  if (a.carried < 0 || a.carried > ctx.inputs() - 2 || a.carried > ctx.outputs())
    return InvalidModel(a.carried, " carried values for ", ctx.inputs(), " inputs and ", ctx.outputs(), " outputs");
  const auto n = body_outputs(ctx.module(), a.body_graph);
  if (n && *n > 0 && *n < ctx.outputs() + 1)
    return InvalidModel("the body gives ", *n, " results, ", ctx.outputs() + 1, " expected");
  for (int i = 0; i < ctx.outputs(); ++i) {
    const ValueType result = body_output(ctx.module(), a.body_graph, i + 1);
    if (i >= a.carried)
      ctx.set(i, stacked_type(result, 0, -1));
    else if (ctx.has(i + 2))
      ctx.set(i, common_type(ctx.input(i + 2), result));
  }
  return Ok();
}

Status reference_Loop(KernelContext& ctx) {
  const auto& a = ctx.attrs<LoopAttrs>();
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (ctx.has(0)) {
    const Tensor& t = ctx.input(0);
    if (!ctx.datum(0).is_tensor() || t.elements() != 1 || !is_integer(t.dtype()))
      return InvalidInput("the trip count has to be one integer");
    trips = get_int(t, 0);
  }
  bool go_on = true;
  if (ctx.has(1)) {
    SMELT_ASSIGN(go_on, condition_of(ctx.datum(1)));
  }
  const auto carried = static_cast<size_t>(a.carried);
  const auto outputs = static_cast<size_t>(ctx.outputs());
  std::vector<Stacked> stacked(outputs - carried);
  std::vector<Datum> arguments(2);
  for (int i = 2; i < ctx.inputs(); ++i) arguments.push_back(ctx.datum(i));
  for (int64_t i = 0; i < trips && go_on; ++i) {
    SMELT_TRY(ctx.tick());
    arguments[0] = scalar_argument(ctx.module(), a.body_graph, 0, DType::kI64, i);
    arguments[1] = scalar_argument(ctx.module(), a.body_graph, 1, DType::kBool, 1);
    SMELT_ASSIGN(auto results, run_body(ctx, a.body_graph, arguments, outputs + 1));
    SMELT_ASSIGN(go_on, condition_of(results[0]));
    for (size_t k = 0; k < carried; ++k) arguments[k + 2] = std::move(results[k + 1]);
    for (size_t k = carried; k < outputs; ++k) SMELT_TRY(stacked[k - carried].add(ctx, std::move(results[k + 1])));
  }
  for (size_t k = 0; k < carried; ++k) ctx.set_output(static_cast<int>(k), arguments[k + 2]);
  for (size_t k = carried; k < outputs; ++k) {
    if (!ctx.wants(static_cast<int>(k))) continue;
    const ValueType type = body_output(ctx.module(), a.body_graph, static_cast<int64_t>(k) + 1);
    SMELT_ASSIGN(Datum joined, stacked[k - carried].join(0, false, type));
    ctx.set_output(static_cast<int>(k), std::move(joined));
  }
  return Ok();
}

namespace {

int64_t entry(const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 0; }

Status check_scan(const ScanAttrs& a, int inputs, int outputs) {
  const int64_t first = a.batched ? 1 : 0;
  if (a.states < 0 || a.scans < 0 || a.states > inputs || a.scans > inputs || first + a.states + a.scans > inputs ||
      a.states > outputs)
    return InvalidModel(a.states, " states and ", a.scans, " scanned values for ", inputs, " inputs and ", outputs,
                        " outputs");
  if (a.scans < 1) return InvalidModel("nothing is scanned");
  return Ok();
}

/// The values that one scan works on.
struct ScanRun {
  std::vector<Datum> states;
  std::vector<Tensor> scanned;
  std::vector<int> axes;
  std::vector<bool> reversed;
  std::vector<Datum> captures;
  int64_t length = 0;
};

/// Runs the body over all slices; the final states stay in `run`.
[[gnu::cold]] Result<std::vector<Stacked>> scan(KernelContext& ctx, const ScanAttrs& a, ScanRun& run) {
  const auto outputs = static_cast<size_t>(ctx.outputs());
  std::vector<Stacked> stacked(outputs - run.states.size());
  for (int64_t i = 0; i < run.length; ++i) {
    SMELT_TRY(ctx.tick());
    std::vector<Datum> arguments = run.states;
    for (size_t k = 0; k < run.scanned.size(); ++k) {
      const int64_t n = run.reversed[k] ? run.length - 1 - i : i;
      SMELT_ASSIGN(Tensor slice, select_slice(run.scanned[k], run.axes[k], n));
      arguments.emplace_back(std::move(slice));
    }
    arguments.insert(arguments.end(), run.captures.begin(), run.captures.end());
    SMELT_ASSIGN(auto results, run_body(ctx, a.body_graph, arguments, outputs));
    for (size_t k = 0; k < outputs; ++k) {
      if (k < run.states.size())
        run.states[k] = std::move(results[k]);
      else
        SMELT_TRY(stacked[k - run.states.size()].add(ctx, std::move(results[k])));
    }
  }
  return stacked;
}

[[gnu::cold]] Status scan_unbatched(KernelContext& ctx, const ScanAttrs& a) {
  ScanRun run;
  const auto states = static_cast<int>(a.states), scans = static_cast<int>(a.scans);
  for (int i = 0; i < states; ++i) run.states.push_back(ctx.datum(i));
  for (int i = 0; i < scans; ++i) {
    const auto k = static_cast<size_t>(i);
    if (!ctx.datum(states + i).is_tensor()) return InvalidInput("a scanned value has to be a tensor");
    run.scanned.push_back(ctx.input(states + i));
    SMELT_ASSIGN(const int axis, axis_of(entry(a.input_axes, k), run.scanned[k].rank()));
    run.axes.push_back(axis);
    run.reversed.push_back(entry(a.input_directions, k) == 1);
    const int64_t length = run.scanned[k].dim(axis);
    if (i > 0 && length != run.length)
      return InvalidInput("scanned values have ", run.length, " and ", length, " entries");
    run.length = length;
  }
  for (int i = states + scans; i < ctx.inputs(); ++i) run.captures.push_back(ctx.datum(i));
  SMELT_ASSIGN(const auto stacked, scan(ctx, a, run));
  for (int i = 0; i < states; ++i) ctx.set_output(i, run.states[static_cast<size_t>(i)]);
  for (int i = states; i < ctx.outputs(); ++i) {
    const auto k = static_cast<size_t>(i - states);
    SMELT_ASSIGN(Datum joined, stacked[k].join(entry(a.output_axes, k), entry(a.output_directions, k) == 1,
                                               body_output(ctx.module(), a.body_graph, i)));
    ctx.set_output(i, std::move(joined));
  }
  return Ok();
}

/// x with `extent` entries along dimension 0, zeros added.
Result<Tensor> lengthened(const Tensor& x, int64_t extent) {
  Shape shape = x.shape();
  shape[0] = extent;
  SMELT_ASSIGN(Tensor y, Tensor::allocate(x.dtype(), shape));
  y.set_quant(x.quant());
  const CopySource source(x);
  CopyTarget target(y);
  copy_run(source, 0, target, 0, x.elements());
  return y;
}

/// Opset 8: every value has a leading batch dimension, the scanned ones a sequence dimension behind it.
[[gnu::cold]] Status scan_batched(KernelContext& ctx, const ScanAttrs& a) {
  const auto states = static_cast<int>(a.states), scans = static_cast<int>(a.scans);
  for (int i = 1; i < 1 + states + scans; ++i)
    if (!ctx.datum(i).is_tensor() || ctx.input(i).rank() < (i <= states ? 1 : 2))
      return InvalidInput("input ", i, " has to be a tensor with a batch dimension");
  const int64_t batch = ctx.input(1).dim(0), longest = ctx.input(1 + states).dim(1);
  for (int i = 1; i < 1 + states + scans; ++i)
    if (ctx.input(i).dim(0) != batch || (i > states && ctx.input(i).dim(1) != longest))
      return InvalidInput("input ", i, " of shape ", ctx.input(i).shape().str(), " has another batch or length");
  std::vector<int64_t> lengths;
  if (ctx.has(0)) lengths = ints_of(ctx.input(0));
  if (!lengths.empty() && static_cast<int64_t>(lengths.size()) != batch)
    return InvalidInput(lengths.size(), " sequence lengths for a batch of ", batch);
  std::vector<Stacked> results(static_cast<size_t>(ctx.outputs()));
  for (int64_t b = 0; b < batch; ++b) {
    SMELT_TRY(ctx.tick());
    ScanRun run;
    run.length = lengths.empty() ? longest : lengths[static_cast<size_t>(b)];
    if (run.length < 0 || run.length > longest) return InvalidInput("a sequence length of ", run.length);
    for (int i = 1; i < 1 + states + scans; ++i) {
      SMELT_ASSIGN(Tensor slice, select_slice(ctx.input(i), 0, b));
      if (i <= states) {
        run.states.emplace_back(std::move(slice));
        continue;
      }
      run.scanned.push_back(std::move(slice));
      run.axes.push_back(0);
      run.reversed.push_back(entry(a.input_directions, static_cast<size_t>(i - 1 - states)) == 1);
    }
    for (int i = 1 + states + scans; i < ctx.inputs(); ++i) run.captures.push_back(ctx.datum(i));
    SMELT_ASSIGN(const auto stacked, scan(ctx, a, run));
    for (int i = 0; i < ctx.outputs(); ++i) {
      const auto k = static_cast<size_t>(i);
      if (i < states) {
        SMELT_TRY(results[k].add(ctx, run.states[k]));
        continue;
      }
      SMELT_ASSIGN(const Datum joined,
                   stacked[static_cast<size_t>(i - states)].join(0, false, body_output(ctx.module(), a.body_graph, i)));
      SMELT_ASSIGN(Tensor full, lengthened(joined.tensor, longest));
      SMELT_TRY(results[k].add(ctx, std::move(full)));
    }
  }
  for (int i = 0; i < ctx.outputs(); ++i) {
    SMELT_ASSIGN(Datum joined,
                 results[static_cast<size_t>(i)].join(0, false, body_output(ctx.module(), a.body_graph, i)));
    ctx.set_output(i, std::move(joined));
  }
  return Ok();
}

}  // namespace

Status infer_Scan(InferContext& ctx) {
  const auto& a = ctx.attrs<ScanAttrs>();
  SMELT_TRY(check_scan(a, ctx.inputs(), ctx.outputs()));
  int64_t length = -1;
  if (!a.batched && ctx.has(static_cast<int>(a.states))) {
    const ValueType& x = ctx.input(static_cast<int>(a.states));
    if (x.kind == ValueType::Kind::kTensor && x.ranked) {
      SMELT_ASSIGN(const int axis, axis_of(entry(a.input_axes, 0), x.shape.rank()));
      length = x.shape[axis];
    }
  }
  for (int i = 0; i < ctx.outputs(); ++i) {
    const ValueType result = body_output(ctx.module(), a.body_graph, i);
    if (a.batched) {
      const ValueType one = i < a.states ? result : stacked_type(result, 0, -1);
      ctx.set(i, stacked_type(one, 0, -1));
    } else if (i < a.states) {
      ctx.set(i, ctx.has(i) ? common_type(ctx.input(i), result) : ValueType{});
    } else {
      ctx.set(i, stacked_type(result, entry(a.output_axes, static_cast<size_t>(i - a.states)), length));
    }
  }
  return Ok();
}

Status reference_Scan(KernelContext& ctx) {
  const auto& a = ctx.attrs<ScanAttrs>();
  return a.batched ? scan_batched(ctx, a) : scan_unbatched(ctx, a);
}

}  // namespace smelt
