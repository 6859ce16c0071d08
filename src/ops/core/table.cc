// Builds the operator table from the families' lists.
#include <array>
#include <string_view>
#include <type_traits>

#include "base/selection.h"
#include "ops/attention/attention.h"
#include "ops/container/container.h"
#include "ops/control/control.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/detection/detection.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/ml/ml.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/random/random.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/signal/signal.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"
#include "ops/strings/strings.h"

namespace smelt {
namespace {

struct Row {
  const char* family = nullptr;  // set on the rows that begin a family
  OpInfo info{};
};

template <class A>
bool fits(const Attrs* attrs) {
  return attrs && (std::is_same_v<A, Attrs> || attrs->type() == &attrs_type<A>);
}

template <class A>
std::vector<int> graphs([[maybe_unused]] const Attrs& attrs) {
  if constexpr (requires(const A& a) { a.graphs(); }) return static_cast<const A&>(attrs).graphs();
  return {};
}

template <class A>
double multiply_adds([[maybe_unused]] const Attrs& attrs, [[maybe_unused]] std::span<const ValueType> inputs,
                     [[maybe_unused]] const ValueType& output) {
  if constexpr (requires(const A& a) { a.multiply_adds(inputs, output); })
    return static_cast<const A&>(attrs).multiply_adds(inputs, output);
  return 0;
}

template <class A>
AttrsPtr channels_last(const AttrsPtr& attrs, [[maybe_unused]] int rank) {
  if constexpr (requires(A & a) { a.layout = Layout::kChannelsLast; }) {
    A moved = static_cast<const A&>(*attrs);
    if (moved.layout != Layout::kChannelsFirst) return nullptr;
    moved.layout = Layout::kChannelsLast;
    return make_attrs<A>(std::move(moved));
  } else if constexpr (requires(A & a) { a.axis = int64_t{}; }) {
    A moved = static_cast<const A&>(*attrs);
    moved.axis = channels_last_axis(moved.axis, rank);
    return make_attrs<A>(std::move(moved));
  } else {
    return attrs;
  }
}

template <class A>
AttrsPtr with_activation([[maybe_unused]] const Attrs& attrs, [[maybe_unused]] const Activation& act,
                         [[maybe_unused]] bool quantized) {
  if constexpr (requires(A & a) { a.act = act, a.rounding; }) {
    A fused = static_cast<const A&>(attrs);
    if constexpr (requires { fused.takes_activation(); })
      if (!fused.takes_activation()) return nullptr;
    if (fused.act.kind != ActKind::kNone || (quantized && fused.rounding != Rounding::kFloatHalfEven)) return nullptr;
    fused.act = act;
    return make_attrs<A>(std::move(fused));
  }
  return nullptr;
}

/// Attributes of an operator; of one that the build leaves out, those of any.
template <bool kBuilt, class A>
using BuiltAttrs = std::conditional_t<kBuilt, A, Attrs>;

Status infer_left_out(InferContext& ctx) {
  return Unsupported("operator ", to_string(ctx.node().op), " is left out of this build (SMELT_FOR)");
}
Status reference_left_out(KernelContext& ctx) {
  return Unsupported("the reference kernel of ", to_string(ctx.node().op), " is left out of this build (SMELT_FOR)");
}

#define SMELT_FAMILY_BEGIN(name) Row{name, {}},
#define SMELT_OP(name, attrs, min_in, max_in, min_out, max_out, flags, doc)                                        \
  Row{nullptr,                                                                                                     \
      {#name, nullptr, kBuildsEverything ? doc : "", min_in, max_in, min_out, max_out, flags,                      \
       builds_op(#name) ? infer_##name : infer_left_out,                                                           \
       builds_reference(#name) ? reference_##name : reference_left_out, fits<BuiltAttrs<builds_op(#name), attrs>>, \
       graphs<BuiltAttrs<builds_op(#name), attrs>>, multiply_adds<BuiltAttrs<builds_op(#name), attrs>>,            \
       channels_last<BuiltAttrs<builds_op(#name), attrs>>, with_activation<BuiltAttrs<builds_op(#name), attrs>>}},

consteval std::array<OpInfo, static_cast<size_t>(Op::kCount)> build() {
  constexpr Row rows[] = {
#include "ops/core/all_ops.inc"
  };
  std::array<OpInfo, static_cast<size_t>(Op::kCount)> table{};
  size_t ops = 0;
  const char* family = nullptr;
  for (const Row& row : rows) {
    if (row.family) {
      family = row.family;
      continue;
    }
    table[ops] = row.info;
    table[ops++].family = family;
  }
  return table;
}
#undef SMELT_OP
#undef SMELT_FAMILY_BEGIN

constexpr std::array kTable = build();

}  // namespace

const OpInfo& op_info(Op op) { return kTable[static_cast<size_t>(op)]; }
std::span<const OpInfo> all_ops() { return kTable; }

}  // namespace smelt
