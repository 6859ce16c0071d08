#include "formats/executorch/block_lowering.h"

#include <algorithm>

#include "base/error.h"
#include "formats/executorch/argument_attributes.h"
#include "ops/control/control.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt::executorch {

using Kind = PlanValue::Kind;

namespace {

Tensor scalar_tensor(DType dtype, int64_t i, double d) {
  Tensor t(dtype, Shape{});
  if (is_float(dtype))
    set_double(t, 0, d);
  else
    set_int(t, 0, i);
  return t;
}

}  // namespace

Result<ValueId> BlockLowering::value(int32_t at) {
  Binding& b = bindings_[static_cast<size_t>(at)];
  if (b.storage >= 0) {
    Storage& s = storages_[static_cast<size_t>(b.storage)];
    if (b.version == s.version) return b.seen;
    // Another view of the memory was written: the contents again, in this view's shape.
    const ValueType& mine = builder_.type(b.seen);
    const ValueType& theirs = builder_.type(s.current);
    ValueId v = s.current;
    if (!(mine.is_static() && theirs.is_static() && mine.shape == theirs.shape)) {
      SMELT_ASSIGN(const ValueId shape, builder_.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {b.seen}));
      SMELT_ASSIGN(v, builder_.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {s.current, shape}));
    }
    b.seen = v;
    b.version = s.version;
    return v;
  }
  if (const auto known = constants_.find(at); known != constants_.end()) return known->second;
  const PlanValue& v = m_.plan.values[static_cast<size_t>(at)];
  ValueId id = kNoValue;
  switch (v.kind) {
    case Kind::kTensor:
      if (!v.constant()) return InvalidModel("value ", at, " is used before it is computed");
      id = builder_.constant(v.qualified_name.empty() ? Cat("value", at) : v.qualified_name, *v.data);
      break;
    case Kind::kInt:
      id = builder_.constant("", scalar_tensor(DType::kI64, v.i, 0));
      break;
    case Kind::kBool:
      id = builder_.constant("", scalar_tensor(DType::kBool, v.i, 0));
      break;
    case Kind::kDouble:
      id = builder_.constant("", scalar_tensor(DType::kF64, 0, v.d));
      break;
    case Kind::kString: {
      Tensor text(DType::kString, Shape{});
      *text.data<std::string>() = v.text;
      id = builder_.constant("", std::move(text));
      break;
    }
    default:
      return InvalidModel("value ", at, " is a list or nothing where a value is expected");
  }
  constants_[at] = id;
  return id;
}

void BlockLowering::bind(int32_t at, ValueId value) {
  storages_.push_back({value, 0});
  bindings_[static_cast<size_t>(at)] = {static_cast<int>(storages_.size()) - 1, value, 0};
}

void BlockLowering::bind_view(int32_t at, int32_t of, ValueId value) {
  const int storage = bindings_[static_cast<size_t>(of)].storage;
  if (storage < 0) return bind(at, value);
  bindings_[static_cast<size_t>(at)] = {storage, value, storages_[static_cast<size_t>(storage)].version};
}

void BlockLowering::write(int32_t at, ValueId value) {
  Binding& b = bindings_[static_cast<size_t>(at)];
  if (b.storage < 0) return bind(at, value);
  Storage& s = storages_[static_cast<size_t>(b.storage)];
  s.current = value;
  b.seen = value;
  b.version = ++s.version;
}

ValueType BlockLowering::declared(int32_t at) const {
  const PlanValue& v = m_.plan.values[static_cast<size_t>(at)];
  return v.kind == Kind::kTensor ? v.type() : ValueType{};
}

Result<aten::Arg> BlockLowering::list_argument(const PlanValue& v) {
  switch (v.kind) {
    case Kind::kIntList: {
      std::vector<aten::Int> items;
      for (int64_t at : v.items) {
        SMELT_ASSIGN(const aten::Arg item, argument(static_cast<int32_t>(at)));
        items.push_back({item.i, item.kind == aten::Arg::Kind::kSymbol ? item.id : kNoValue});
      }
      return aten::Arg::int_list(std::move(items));
    }
    case Kind::kBoolList: {
      std::vector<aten::Int> items;
      for (int64_t b : v.items) items.push_back({b != 0, kNoValue});
      return aten::Arg::bool_list(std::move(items));
    }
    case Kind::kDoubleList:
      return aten::Arg::double_list(v.doubles);
    default: {
      std::vector<ValueId> ids;
      for (int64_t at : v.items) {
        if (at < 0 || m_.plan.values[static_cast<size_t>(at)].kind == Kind::kNull) {
          ids.push_back(kNoValue);
          continue;
        }
        SMELT_ASSIGN(const ValueId id, value(static_cast<int32_t>(at)));
        ids.push_back(id);
      }
      return aten::Arg::tensor_list(std::move(ids));
    }
  }
}

Result<aten::Arg> BlockLowering::argument(int32_t at) {
  const PlanValue& v = m_.plan.values[static_cast<size_t>(at)];
  if (v.kind == Kind::kTensor || bound(at)) {
    SMELT_ASSIGN(const ValueId id, value(at));
    return v.kind == Kind::kTensor ? aten::Arg::tensor(id) : aten::Arg::symbol(id);
  }
  switch (v.kind) {
    case Kind::kNull:
      return aten::Arg::none();
    case Kind::kInt:
      return aten::Arg::integer(v.i);
    case Kind::kBool:
      return aten::Arg::boolean(v.i != 0);
    case Kind::kDouble:
      return aten::Arg::real(v.d);
    case Kind::kString:
      return aten::Arg::string(v.text);
    default:
      return list_argument(v);
  }
}

namespace {

/// True if a result, as far as its shape is known, fits what the program declares.
bool fits(const PlanValue& declared, const ValueType& result) {
  if (!result.ranked) return true;
  if (result.shape.rank() != declared.shape.rank()) return false;
  for (int i = 0; i < result.shape.rank() && !declared.dynamic; ++i)
    if (result.shape[i] >= 0 && result.shape[i] != declared.shape[i]) return false;
  return !declared.bounded || !result.shape.is_static() || result.shape.elements() <= declared.shape.elements();
}

/// A node of the declared types for an operator that nobody implements; its constant arguments are left out.
Result<aten::Lowered> unknown_call(Builder& builder, const Instruction& in, std::span<const aten::Arg> args,
                                   std::span<const ValueType> outputs) {
  CustomAttrs unknown;
  unknown.name = in.label();
  std::vector<ValueId> ids;
  for (const aten::Arg& a : args) {
    if (a.id != kNoValue) ids.push_back(a.id);
    ids.insert(ids.end(), a.ids.begin(), a.ids.end());
  }
  aten::Lowered out;
  for (const ValueType& type : outputs) out.outputs.push_back(builder.value("", type));
  SMELT_TRY(builder.node_to(Op::kCustom, make_attrs<CustomAttrs>(std::move(unknown)), ids, out.outputs));
  return out;
}

}  // namespace

Status BlockLowering::call(const Instruction& in) {
  std::vector<aten::Arg> args;
  for (size_t k = 0; k < in.inputs.size(); ++k) {
    const int32_t at = in.inputs[k];
    const bool overwritten = k == 0 && !in.changed.empty() && in.changed[0] == at && !bound(at) &&
                             m_.plan.values[static_cast<size_t>(at)].kind == Kind::kTensor;
    if (overwritten) {
      SMELT_ASSIGN(const ValueId fresh, initial(at, 0, 0));
      bind(at, fresh);
    }
    SMELT_ASSIGN(args.emplace_back(), argument(at));
  }
  if (auto* wanted = FileAttributes::wanted())
    wanted->record(builder_, Cat("instruction ", &in - m_.plan.code.data()), argument_attributes(args));
  std::vector<ValueType> outputs;
  for (int32_t at : in.outputs) outputs.push_back(declared(at));
  const bool unknown = m_.keep_unknown && !aten::is_known(in.label());
  if (!unknown) SMELT_TRY(aten::check_overload(in.name, in.overload));
  SMELT_ASSIGN(const aten::Lowered lowered, unknown ? unknown_call(builder_, in, args, outputs)
                                                    : aten::lower(builder_, {in.name, in.overload, args, outputs}));
  for (const auto& [k, id] : lowered.mutated)
    if (k < in.inputs.size()) write(in.inputs[k], id);
  if (lowered.outputs.size() < in.outputs.size())
    return InvalidModel(in.outputs.size(), " outputs, the operator gives ", lowered.outputs.size());
  for (size_t k = 0; k < in.outputs.size(); ++k) {
    const int32_t at = in.outputs[k];
    if (std::ranges::find(in.changed, at) != in.changed.end()) continue;
    const PlanValue& v = m_.plan.values[static_cast<size_t>(at)];
    if (in.name == "executorch_prim::et_view" && !in.inputs.empty())
      bind_view(at, in.inputs[0], lowered.outputs[k]);
    else if (v.kind == Kind::kTensor && !fits(v, builder_.type(lowered.outputs[k])))
      return InvalidModel("the result has shape ", builder_.type(lowered.outputs[k]).shape.str(),
                          ", the program declares ", v.dynamic ? "at most " : "", v.shape.str());
    else
      write(at, lowered.outputs[k]);
  }
  return Ok();
}

int BlockLowering::partition(uint32_t delegate, std::string backend, size_t blob_bytes) {
  auto& list = m_.module.partitions;
  const auto [entry, fresh] = m_.partitions.emplace(delegate, static_cast<int>(list.size()));
  if (fresh) list.push_back({Cat(m_.plan.name, ", delegate ", delegate), std::move(backend), blob_bytes});
  return entry->second;
}

Status BlockLowering::delegate(const Instruction& in) {
  const auto* table = m_.plan.table->delegates()->Get(in.delegate);
  DelegateCall call;
  if (!table->id()) return InvalidModel("a delegate without a backend");
  call.backend = table->id()->str();
  SMELT_ASSIGN(call.blob, m_.file.delegate_data(table->processed()));
  call.owner = m_.file.owner();
  if (const auto* specs = table->compile_specs())
    for (const auto* spec : *specs) {
      const auto* bytes = spec->value();
      call.compile_specs.emplace_back(
          spec->key() ? spec->key()->str() : "",
          Bytes(reinterpret_cast<const std::byte*>(bytes ? bytes->data() : nullptr), bytes ? bytes->size() : 0));
    }
  call.named_data = [file = &m_.file](std::string_view key) { return file->named(key); };
  for (int32_t at : in.inputs) {
    const PlanValue& v = m_.plan.values[static_cast<size_t>(at)];
    DelegateCall::Argument a;
    if (v.kind != Kind::kTensor || bound(at) || v.constant()) {
      SMELT_ASSIGN(a.value, argument(at));
    }
    a.declared = v.kind == Kind::kTensor ? ValueType::tensor(v.dtype, v.shape) : ValueType{};
    a.dim_order = v.dim_order;
    call.args.push_back(std::move(a));
  }
  builder_.in_partition(partition(in.delegate, call.backend, call.blob.size()));
  const auto lowered = lower_delegate(builder_, call);
  builder_.in_partition(-1);
  SMELT_ASSIGN(const DelegateResults results, lowered);
  for (const auto& [k, id] : results) {
    if (k >= in.inputs.size()) return Internal("the delegate gives argument ", k, " of ", in.inputs.size());
    const PlanValue& v = m_.plan.values[static_cast<size_t>(in.inputs[k])];
    const ValueType& result = builder_.type(id);
    if (v.kind == Kind::kTensor && (!v.dynamic || v.bounded) && result.ranked && result.shape.is_static() &&
        result.shape.elements() > v.shape.elements())
      return InvalidModel("argument ", k, " becomes ", result.shape.str(), ", the program declares ", v.shape.str());
    write(in.inputs[k], id);
  }
  return Ok();
}

Status BlockLowering::move(const Instruction& in) {
  SMELT_ASSIGN(const ValueId id, value(in.from));
  if (bound(in.from))
    bind_view(in.to, in.from, id);
  else
    bind(in.to, id);
  return Ok();
}

/// The memory of `from` seen in the shape of `to`.
Status BlockLowering::view(const Instruction& in) {
  const Binding& from = bindings_[static_cast<size_t>(in.from)];
  const Binding& to = bindings_[static_cast<size_t>(in.to)];
  if (from.storage >= 0 && to.storage == from.storage) return Ok();
  SMELT_ASSIGN(ValueId id, value(in.from));
  const Shape& shape = m_.plan.values[static_cast<size_t>(in.to)].shape;
  if (!builder_.type(id).ranked || !(builder_.type(id).shape == shape)) {
    const auto dims = shape.dims();
    const ValueId wanted = builder_.i64(std::vector<int64_t>(dims.begin(), dims.end()));
    SMELT_ASSIGN(id, builder_.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {id, wanted}));
  }
  if (from.storage >= 0)
    bind_view(in.to, in.from, id);
  else
    bind(in.to, id);
  return Ok();
}

Status BlockLowering::step(size_t at) {
  const Instruction& in = m_.plan.code[at];
  builder_.at(in.label(), Cat(in.label(), " #", at), Cat("instruction ", at));
  switch (in.kind) {
    case Instruction::Kind::kCall:
      return call(in);
    case Instruction::Kind::kDelegate:
      return delegate(in);
    case Instruction::Kind::kMove:
      return move(in);
    case Instruction::Kind::kView:
      return view(in);
    default:
      return Ok();
  }
}

}  // namespace smelt::executorch
