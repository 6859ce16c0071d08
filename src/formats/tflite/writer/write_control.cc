// Control flow, variables, recurrent cells and custom operators.
#include <flatbuffers/flexbuffers.h>

#include "formats/tflite/writer/op_writer.h"
#include "ops/control/control.h"
#include "ops/detection/detection.h"
#include "ops/recurrent/recurrent.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

bool is_cell(Op op) { return op == Op::kTfLstm || op == Op::kTfRnn || op == Op::kTfSvdf; }

int state_of(const Node& node) { return static_cast<const StateAttrs&>(*node.attrs).state; }

tfl::ActivationFunctionType cell_activation(const Activation& act) {
  using enum tfl::ActivationFunctionType;
  return act.kind == ActKind::kTanh      ? TANH
         : act.kind == ActKind::kSignBit ? SIGN_BIT
                                         : fused_activation(act).value_or(NONE);
}

float clip(double v) { return static_cast<float>(v); }

/// Writes a cell whose outputs behind the first `count` are new states, which the format keeps in the state inputs.
bool write_cell(OpWriter& w, Code code, int count, const std::vector<ValueType>& intermediates,
                OperatorOptions options) {
  SubgraphWriter& s = w.subgraph();
  FileOperator op{.code = code, .inputs = w.all(), .options = std::move(options)};
  for (int i = 0; i < count; ++i) {
    const auto [dtype, quant] = w.wants(i) ? s.file_type(w.out_type(i)) : std::pair{DType::kF32, QuantPtr()};
    op.outputs.push_back(s.add_tensor({.dtype = dtype, .quant = quant}));
    if (w.wants(i)) s.bind(w.out_id(i), op.outputs.back());
  }
  for (const ValueType& t : intermediates)
    op.intermediates.push_back(
        t.dtype == DType::kInvalid
            ? -1
            : s.add_tensor({.dtype = t.dtype, .ranked = true, .shape = t.shape, .quant = t.quant}));
  s.out().operators.push_back(std::move(op));
  return true;
}

}  // namespace

bool belongs_to_cell(const Module& module, int state) {
  for (const Graph& g : module.graphs)
    for (const Node& n : g.nodes) {
      if (n.op != Op::kStateRead || state_of(n) != state) continue;
      for (const Node& user : g.nodes)
        if (is_cell(user.op) && std::ranges::count(user.inputs, n.outputs[0]) > 0) return true;
    }
  return false;
}

bool has_first_contents(const Module& module, int state) {
  const StateVar& v = module.states[static_cast<size_t>(state)];
  return (v.initial.is_tensor() || (v.initial.none() && v.type.is_static())) && !belongs_to_cell(module, state);
}

bool write_if(OpWriter& w) {
  const auto& a = w.attrs<IfAttrs>();
  const FileContext& f = w.subgraph().file();
  const int yes = f.subgraph_of(a.then_graph), no = f.subgraph_of(a.else_graph);
  return w.emit_all(Code::IF, w.all(),
                    options_of<tfl::IfOptions>([=](auto& b) { return tfl::CreateIfOptions(b, yes, no); }));
}

bool write_while(OpWriter& w) {
  const auto& a = w.attrs<WhileAttrs>();
  const FileContext& f = w.subgraph().file();
  const int cond = f.subgraph_of(a.cond_graph), body = f.subgraph_of(a.body_graph);
  return w.emit_all(Code::WHILE, w.all(),
                    options_of<tfl::WhileOptions>([=](auto& b) { return tfl::CreateWhileOptions(b, cond, body); }));
}

/// A call of another graph: STABLEHLO_COMPOSITE, which every runtime replaces by its decomposition.
bool write_call(OpWriter& w) {
  const int graph = w.attrs<CallAttrs>().graph;
  const FileContext& f = w.subgraph().file();
  const int callee = f.subgraph_of(graph);
  const std::string name = f.module.graphs[static_cast<size_t>(graph)].name;
  return w.emit_all(Code::STABLEHLO_COMPOSITE, w.all(), options_of<tfl::StableHLOCompositeOptions>([=](auto& b) {
                      return tfl::CreateStableHLOCompositeOptionsDirect(b, name.c_str(), callee);
                    }));
}

void SubgraphWriter::write_initializer() {
  out().name = "initializer";
  for (size_t i = 0; i < file_.module.states.size(); ++i) {
    const StateVar& v = file_.module.states[i];
    if (!has_first_contents(file_.module, static_cast<int>(i))) continue;
    const auto [dtype, quant] = file_type(v.type);
    Tensor first = v.initial.is_tensor() ? v.initial.tensor : Tensor(v.type.dtype, v.type.shape);
    if (!v.initial.is_tensor() && v.type.quant && v.type.dtype == DType::kU8) first = Tensor(dtype, v.type.shape);
    const int contents = constant(retyped(first, dtype, quant));
    add_to(tfl::BuiltinOperator::ASSIGN_VARIABLE, {handle(static_cast<int>(i)), contents}, {},
           options_of<tfl::AssignVariableOptions>([](auto& b) { return tfl::CreateAssignVariableOptions(b); }));
  }
}

bool write_state_read(OpWriter& w) {
  const int state = state_of(w.node());
  SubgraphWriter& s = w.subgraph();
  const StateVar& var = s.file().module.states[static_cast<size_t>(state)];
  if (belongs_to_cell(s.file().module, state)) {
    const auto [dtype, quant] = s.file_type(var.type);
    s.bind(w.out_id(0), s.variable(state, {.name = var.name,
                                           .dtype = dtype,
                                           .ranked = true,
                                           .shape = var.type.shape,
                                           .quant = quant,
                                           .variable = true}));
    return true;
  }
  return w.emit(Code::READ_VARIABLE, {s.handle(state)},
                options_of<tfl::ReadVariableOptions>([](auto& b) { return tfl::CreateReadVariableOptions(b); }));
}

bool write_state_write(OpWriter& w) {
  const int state = state_of(w.node());
  SubgraphWriter& s = w.subgraph();
  if (belongs_to_cell(s.file().module, state)) {
    // The cell writes its state tensor itself.
    const Node* from = s.producer(w.id(0));
    return from && is_cell(from->op);
  }
  s.add_to(Code::ASSIGN_VARIABLE, {s.handle(state), w.in(0)}, {},
           options_of<tfl::AssignVariableOptions>([](auto& b) { return tfl::CreateAssignVariableOptions(b); }));
  return true;
}

/// Operators that their user registered: options that the file held are gone, so that only those without can be
/// written.
bool write_custom(OpWriter& w) {
  const auto& a = w.attrs<CustomAttrs>();
  if (a.op) return false;
  SubgraphWriter& s = w.subgraph();
  w.emit_all(Code::CUSTOM, w.all());
  s.out().operators.back().custom_code = a.name;
  return true;
}

bool write_detection_postprocess(OpWriter& w) {
  const auto& a = w.attrs<DetectionAttrs>();
  flexbuffers::Builder b;
  b.Map([&] {
    b.Int("max_detections", a.max_detections);
    b.Int("max_classes_per_detection", a.max_classes_per_detection);
    b.Int("detections_per_class", a.detections_per_class);
    b.Int("num_classes", a.classes);
    b.Bool("use_regular_nms", a.regular_nms);
    b.Float("nms_score_threshold", static_cast<float>(a.score_threshold));
    b.Float("nms_iou_threshold", static_cast<float>(a.iou_threshold));
    b.Float("y_scale", static_cast<float>(a.y_scale));
    b.Float("x_scale", static_cast<float>(a.x_scale));
    b.Float("h_scale", static_cast<float>(a.h_scale));
    b.Float("w_scale", static_cast<float>(a.w_scale));
  });
  b.Finish();
  SubgraphWriter& s = w.subgraph();
  w.emit_all(Code::CUSTOM, w.all());
  s.out().operators.back().custom_code = "TFLite_Detection_PostProcess";
  s.out().operators.back().custom_options = b.GetBuffer();
  return true;
}

bool write_tf_lstm(OpWriter& w) {
  const auto& a = w.attrs<TfLstmAttrs>();
  const auto act = cell_activation(a.act);
  const float cell = clip(a.cell_clip), proj = clip(a.proj_clip);
  const bool asymmetric = a.asymmetric_inputs, major = a.time_major;
  if (a.bidirectional) {
    const bool merge = a.merge_outputs;
    return write_cell(w, Code::BIDIRECTIONAL_SEQUENCE_LSTM, merge ? 1 : 2, a.intermediates,
                      options_of<tfl::BidirectionalSequenceLSTMOptions>([=](auto& b) {
                        return tfl::CreateBidirectionalSequenceLSTMOptions(b, act, cell, proj, merge, major,
                                                                           asymmetric);
                      }));
  }
  if (a.sequence) {
    const bool diagonal = a.diagonal_recurrent;
    return write_cell(w, Code::UNIDIRECTIONAL_SEQUENCE_LSTM, 1, a.intermediates,
                      options_of<tfl::UnidirectionalSequenceLSTMOptions>([=](auto& b) {
                        return tfl::CreateUnidirectionalSequenceLSTMOptions(b, act, cell, proj, major, asymmetric,
                                                                            diagonal);
                      }));
  }
  const auto kernel = a.basic ? tfl::LSTMKernelType::BASIC : tfl::LSTMKernelType::FULL;
  return write_cell(w, Code::LSTM, a.basic ? 4 : 1, a.intermediates, options_of<tfl::LSTMOptions>([=](auto& b) {
                      return tfl::CreateLSTMOptions(b, act, cell, proj, kernel, asymmetric);
                    }));
}

bool write_tf_rnn(OpWriter& w) {
  const auto& a = w.attrs<TfRnnAttrs>();
  const auto act = cell_activation(a.act);
  const bool asymmetric = a.asymmetric_inputs, major = a.time_major, merge = a.merge_outputs;
  if (a.bidirectional)
    return write_cell(w, Code::BIDIRECTIONAL_SEQUENCE_RNN, merge ? 1 : 2, {},
                      options_of<tfl::BidirectionalSequenceRNNOptions>([=](auto& b) {
                        return tfl::CreateBidirectionalSequenceRNNOptions(b, major, act, merge, asymmetric);
                      }));
  if (a.sequence)
    return write_cell(w, Code::UNIDIRECTIONAL_SEQUENCE_RNN, 1, {}, options_of<tfl::SequenceRNNOptions>([=](auto& b) {
                        return tfl::CreateSequenceRNNOptions(b, major, act, asymmetric);
                      }));
  return write_cell(w, Code::RNN, 1, {},
                    options_of<tfl::RNNOptions>([=](auto& b) { return tfl::CreateRNNOptions(b, act, asymmetric); }));
}

bool write_tf_svdf(OpWriter& w) {
  const auto& a = w.attrs<TfSvdfAttrs>();
  const auto act = cell_activation(a.act);
  const auto rank = static_cast<int32_t>(a.rank);
  return write_cell(w, Code::SVDF, 1, a.intermediates,
                    options_of<tfl::SVDFOptions>([=, asym = a.asymmetric_inputs](auto& b) {
                      return tfl::CreateSVDFOptions(b, rank, act, asym);
                    }));
}

}  // namespace smelt::tflite
