// Jumps become branches and loops.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "formats/executorch/block_lowering.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"

namespace smelt::executorch {
namespace {

using Kind = PlanValue::Kind;
constexpr int kMaxDepth = 48;

/// Makes unknown in `type` what differs in `other`; true if anything did.
bool widen(ValueType& type, const ValueType& other) {
  if (!type.ranked) return false;
  if (!other.ranked || other.shape.rank() != type.shape.rank()) {
    type = ValueType::tensor(type.dtype);
    return true;
  }
  bool changed = false;
  for (int i = 0; i < type.shape.rank(); ++i)
    if (type.shape[i] >= 0 && type.shape[i] != other.shape[i]) {
      type.shape[i] = -1;
      changed = true;
    }
  return changed;
}

Error unstructured(size_t at) {
  return Unsupported("the jump at instruction ", at, " is no branch and no loop that nests with the others");
}

}  // namespace

int BlockLowering::new_graph(const std::string& name) {
  m_.module.graphs.push_back({.name = name});
  return static_cast<int>(m_.module.graphs.size()) - 1;
}

std::unique_ptr<BlockLowering> BlockLowering::inner(const std::string& name, const std::vector<int32_t>& captured) {
  auto out = std::make_unique<BlockLowering>(m_, new_graph(name));
  std::map<int, int> storages;
  for (int32_t at : captured) {
    const Binding& b = bindings_[static_cast<size_t>(at)];
    const ValueId id = out->builder_.input(Cat("value", at), builder_.type(b.seen));
    const auto known = b.storage >= 0 ? storages.find(b.storage) : storages.end();
    if (known == storages.end()) {
      out->bind(at, id);
      if (b.storage >= 0) storages[b.storage] = out->bindings_[static_cast<size_t>(at)].storage;
    } else {
      out->bindings_[static_cast<size_t>(at)] = {known->second, id, 0};
    }
  }
  return out;
}

std::optional<bool> BlockLowering::constant_condition(int32_t at) const {
  const PlanValue& v = m_.plan.values[static_cast<size_t>(at)];
  if (v.kind != Kind::kBool || m_.plan.written[static_cast<size_t>(at)] || bound(at)) return std::nullopt;
  return v.i != 0;
}

Result<ValueId> BlockLowering::condition(int32_t at) {
  SMELT_ASSIGN(const ValueId id, value(at));
  const ValueType& type = builder_.type(id);
  if (type.dtype != DType::kBool) return InvalidModel("the condition is ", to_string(type.dtype), ", bool expected");
  if (type.ranked && type.shape.rank() == 0) return id;
  ReduceAttrs all;
  all.fn = Reduction::kAll;
  return builder_.op(Op::kReduce, make_attrs<ReduceAttrs>(all), {id});
}

Status BlockLowering::run(size_t begin, size_t end, int depth, size_t loop_header) {
  if (depth > kMaxDepth) return LimitReached("branches and loops nest more than ", kMaxDepth, " deep");
  std::map<size_t, size_t> loops;  // header -> last jump back to it
  for (size_t i = begin; i < end; ++i) {
    const Instruction& in = m_.plan.code[i];
    if (in.kind == Instruction::Kind::kJumpFalse && static_cast<size_t>(in.to) <= i) {
      if (static_cast<size_t>(in.to) < begin) return unstructured(i);
      loops[static_cast<size_t>(in.to)] = i;
    }
  }
  loops.erase(loop_header);
  for (size_t i = begin; i < end;) {
    if (m_.budget == 0) return LimitReached("too many instructions");
    --m_.budget;
    const Instruction& in = m_.plan.code[i];
    const auto where = [&](const Error& e) { return e.within(Cat("instruction ", i, " ", in.label())); };
    if (const auto header = loops.find(i); header != loops.end()) {
      if (header->second >= end) return unstructured(header->second);
      SMELT_TRY(loop(i, header->second, depth));
      i = header->second + 1;
    } else if (in.kind == Instruction::Kind::kJumpFalse) {
      auto next = branch(i, end, depth);
      if (!next.ok()) return where(next.error());
      i = *next;
    } else {
      if (auto s = step(i); !s.ok()) return where(s.error());
      ++i;
    }
  }
  return Ok();
}

/// A jump forward: `if` with the code up to its destination, and `else` when that code ends in an unconditional jump.
Result<size_t> BlockLowering::branch(size_t at, size_t end, int depth) {
  const Instruction& jump = m_.plan.code[at];
  const size_t to = static_cast<size_t>(jump.to);
  if (to <= at || to > end) return unstructured(at);
  if (const auto known = constant_condition(jump.from)) return *known ? at + 1 : to;
  size_t then_end = to, else_end = to;
  if (to - 1 > at) {
    const Instruction& last = m_.plan.code[to - 1];
    if (last.kind == Instruction::Kind::kJumpFalse && static_cast<size_t>(last.to) >= to &&
        constant_condition(last.from) == std::optional<bool>(false)) {
      then_end = to - 1;
      else_end = static_cast<size_t>(last.to);
      if (else_end > end) return unstructured(to - 1);
    }
  }
  builder_.at("jump_false", Cat("branch #", at), Cat("instruction ", at));
  SMELT_ASSIGN(const ValueId test, condition(jump.from));
  const Uses then_uses = Uses::of(m_.plan, at + 1, then_end), else_uses = Uses::of(m_.plan, to, else_end);
  std::set<int32_t> touched;
  for (const Uses* u : {&then_uses, &else_uses})
    for (const auto* list : {&u->reads, &u->maybe, &u->writes}) touched.insert(list->begin(), list->end());
  std::vector<int32_t> captured;
  std::vector<ValueId> inputs{test};
  for (int32_t v : touched) {
    if (!bound(v)) continue;
    captured.push_back(v);
    SMELT_ASSIGN(inputs.emplace_back(), value(v));
  }
  // Results: what either branch writes, when it has a value on both ways.
  const std::set<int32_t> then_writes(then_uses.writes.begin(), then_uses.writes.end());
  const std::set<int32_t> else_writes(else_uses.writes.begin(), else_uses.writes.end());
  const auto has_value = [&](int32_t v) {
    const Kind k = m_.plan.values[static_cast<size_t>(v)].kind;
    return bound(v) || k == Kind::kInt || k == Kind::kBool || k == Kind::kDouble;
  };
  const auto build = [&](const char* name, size_t from, size_t until,
                         int& graph) -> Result<std::unique_ptr<BlockLowering>> {
    graph = static_cast<int>(m_.module.graphs.size());
    auto block = inner(Cat(m_.plan.name, "/", name, "@", at), captured);
    SMELT_TRY(block->run(from, until, depth + 1));
    return block;
  };
  IfAttrs a;
  SMELT_ASSIGN(const auto then_block, build("then", at + 1, then_end, a.then_graph));
  SMELT_ASSIGN(const auto else_block, build("else", to, else_end, a.else_graph));
  std::vector<int32_t> results;
  std::set<int32_t> all = then_writes;
  all.insert(else_writes.begin(), else_writes.end());
  for (int32_t v : all) {
    if (!has_value(v) && !(then_block->bound(v) && else_block->bound(v))) continue;
    results.push_back(v);
    for (BlockLowering* block : {then_block.get(), else_block.get()}) {
      SMELT_ASSIGN(const ValueId id, block->value(v));
      block->builder_.graph().outputs.push_back(id);
    }
  }
  builder_.at("jump_false", Cat("branch #", at), Cat("instruction ", at));
  SMELT_ASSIGN(const auto outputs,
               builder_.node(Op::kIf, make_attrs<IfAttrs>(a), inputs, static_cast<int>(results.size())));
  for (size_t k = 0; k < results.size(); ++k) write(results[k], outputs[k]);
  return else_end;
}

/// The contents of a value before the first write: the number in the file, a tensor without entries that et_copy_index
/// extends, or zeros.
Result<ValueId> BlockLowering::initial(int32_t at, size_t begin, size_t end) {
  const PlanValue& v = m_.plan.values[static_cast<size_t>(at)];
  if (v.kind != Kind::kTensor || v.constant()) return value(at);
  Shape shape = v.shape;
  bool grows = begin == end;
  for (size_t i = begin; i < end; ++i) {
    const Instruction& in = m_.plan.code[i];
    grows = grows || (in.name == "executorch_prim::et_copy_index" && !in.inputs.empty() && in.inputs[0] == at);
  }
  if (grows && begin != end && shape.rank() > 0) shape[0] = 0;
  const auto dims = shape.dims();
  return builder_.op(Op::kFill, make_attrs<NoAttrs>(),
                     {builder_.i64(std::vector<int64_t>(dims.begin(), dims.end())), builder_.scalar(v.dtype, 0)});
}

/// Code that a jump leads back to. Either the jump decides: the code runs again as long as its condition is false. Or
/// it always jumps, and one jump inside leaves the loop when its condition is false.
Status BlockLowering::loop(size_t begin, size_t end, int depth) {
  const Instruction& jump = m_.plan.code[end];
  Loop parts{begin, end, end};
  if (constant_condition(jump.from) == std::optional<bool>(false)) {
    for (size_t i = begin; i < end && !parts.leaves_early(); ++i) {
      const Instruction& in = m_.plan.code[i];
      if (in.kind == Instruction::Kind::kJumpFalse && static_cast<size_t>(in.to) == end + 1) parts.exit = i;
    }
    if (!parts.leaves_early()) return InvalidModel("the loop at instruction ", begin, " never ends");
    SMELT_TRY(run(begin, parts.exit, depth + 1));  // up to the first decision
  }
  const Uses uses = Uses::of(m_.plan, begin, end);
  std::set<int32_t> reads(uses.reads.begin(), uses.reads.end());
  reads.insert(uses.maybe.begin(), uses.maybe.end());
  const std::set<int32_t> writes(uses.writes.begin(), uses.writes.end());
  const std::set<int32_t> given(m_.plan.outputs.begin(), m_.plan.outputs.end());
  // What is wanted outside the loop.
  const auto wanted = [&](int32_t at) {
    const auto& [first, last] = m_.plan.readers[static_cast<size_t>(at)];
    return given.contains(at) || m_.plan.states.contains(at) || last > end || first < begin;
  };
  std::vector<int32_t> carried, captured;
  builder_.at("loop", Cat("loop #", begin), Cat("instruction ", begin));
  for (int32_t at : writes) {
    const Kind kind = m_.plan.values[static_cast<size_t>(at)].kind;
    const bool number = kind == Kind::kInt || kind == Kind::kBool || kind == Kind::kDouble;
    if (kind != Kind::kTensor && !number) continue;
    if (!bound(at) && !reads.contains(at) && !wanted(at)) continue;
    if (!bound(at)) {
      SMELT_ASSIGN(const ValueId first, initial(at, begin, end));
      bind(at, first);
    }
    carried.push_back(at);
  }
  for (int32_t at : reads)
    if (bound(at) && !std::count(carried.begin(), carried.end(), at)) captured.push_back(at);
  return build_loop(parts, depth, carried, captured);
}

Status BlockLowering::build_loop(const Loop& loop, int depth, const std::vector<int32_t>& carried,
                                 const std::vector<int32_t>& captured) {
  std::vector<int32_t> all = carried;
  all.insert(all.end(), captured.begin(), captured.end());
  const std::string name = Cat(m_.plan.name, "/loop@", loop.begin);
  const int32_t decider = m_.plan.code[loop.exit].from;
  std::vector<ValueId> arguments{builder_.scalar(DType::kBool, 1)};
  if (loop.leaves_early()) {
    SMELT_ASSIGN(arguments[0], condition(decider));
  }
  std::vector<ValueType> types;
  for (int32_t at : all) {
    SMELT_ASSIGN(arguments.emplace_back(), value(at));
    types.push_back(builder_.type(arguments.back()));
  }
  const size_t graphs = m_.module.graphs.size();
  WhileAttrs a;
  // The first try takes the types that go in; what the body changes is unknown in the next.
  for (int attempt = 0;; ++attempt) {
    m_.module.graphs.resize(graphs);
    a.body_graph = static_cast<int>(graphs);
    auto body = inner(name, all);
    Graph& g = body->builder_.graph();
    for (size_t k = 0; k < all.size(); ++k) g.value(g.inputs[k]).type = types[k];
    const ValueId go = body->builder_.value("go", ValueType::tensor(DType::kBool, Shape{}));
    body->builder_.graph().inputs.insert(body->builder_.graph().inputs.begin(), go);
    SMELT_TRY(body->run(loop.leaves_early() ? loop.exit + 1 : loop.begin, loop.end, depth + 1, loop.begin));
    if (loop.leaves_early()) SMELT_TRY(body->run(loop.begin, loop.exit, depth + 1, loop.begin));
    body->builder_.at("jump_false", Cat("loop #", loop.begin), Cat("instruction ", loop.exit));
    auto decided = body->condition(decider);
    if (!decided.ok()) return decided.error().within(Cat("instruction ", loop.exit));
    ValueId again = *decided;
    if (!loop.leaves_early()) {
      SMELT_ASSIGN(again, body->builder_.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNot), {again}));
    }
    std::vector<ValueId> outputs{again};
    bool changed = false;
    for (size_t k = 0; k < all.size(); ++k) {
      SMELT_ASSIGN(const ValueId id, body->value(all[k]));
      outputs.push_back(id);
      const ValueType out = body->builder_.type(id);
      if (out.dtype != types[k].dtype && out.dtype != DType::kInvalid)
        return InvalidModel("value ", all[k], " is ", types[k].str(), " before the loop and ", out.str(), " in it");
      changed = widen(types[k], out) || changed;
    }
    body->builder_.graph().outputs = std::move(outputs);
    if (!changed) break;
    if (attempt == Shape::kMaxRank)
      return Unsupported("the shapes in the loop at instruction ", loop.begin, " do not settle");
  }
  a.cond_graph = new_graph(name + "/condition");
  Builder test(m_.module, a.cond_graph);
  const ValueId go = test.input("go", ValueType::tensor(DType::kBool, Shape{}));
  for (size_t k = 0; k < all.size(); ++k) test.input(Cat("value", all[k]), types[k]);
  test.graph().outputs = {go};
  builder_.at("loop", Cat("loop #", loop.begin), Cat("instruction ", loop.begin));
  const int count = static_cast<int>(arguments.size());
  SMELT_ASSIGN(const auto outputs, builder_.node(Op::kWhile, make_attrs<WhileAttrs>(a), arguments, count));
  for (size_t k = 0; k < carried.size(); ++k) write(carried[k], outputs[k + 1]);
  return Ok();
}

}  // namespace smelt::executorch
