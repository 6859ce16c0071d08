// ONNX's recurrent layers in operators of single steps: the format's own cells keep their states from one run to the
// next. Few steps are written one after the other, others as a WHILE.
#include "formats/tflite/writer/recurrent_cell.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// Steps of a sequence that are written one by one.
constexpr int64_t kMaxSteps = 512;

/// What one direction of a layer gives: all h [steps, batch, hidden], the last h and c [batch, hidden].
struct Direction {
  int sequence = -1, h = -1, c = -1;
};

class RecurrentWriter {
 public:
  RecurrentWriter(OpWriter& w, const std::vector<RecurrentGate>& gates)
      : w_(w), s_(w.subgraph()), a_(w.attrs<RecurrentAttrs>()), gates_(gates) {
    const Shape& x = w.in_type(0).shape;
    steps_ = x[a_.batch_first ? 1 : 0];
    batch_ = x[a_.batch_first ? 0 : 1];
    hidden_ = w.in_type(2).shape[2];
    x_ = w.real(0);
    if (a_.batch_first) x_ = s_.transpose(x_, {1, 0, 2});
    if (a_.dynamic_quantization) x_ = requantized(w, x_, 3);
    if (w.has(4)) lengths_ = s_.cast(w.in(4), DType::kI32);
  }

  Direction direction(int d) {
    const bool backward = a_.backward && (!a_.forward || d == 1);
    RecurrentCell cell(w_, gates_, d);
    int x = cell.projected(x_);
    // Sequences of their own lengths run from their ends: they are turned around before and after.
    const bool turned = backward && lengths_ >= 0;
    if (turned) x = turned_around(x);
    cell.h = w_.has(5) ? state(5, d) : zeros();
    cell.c = w_.has(6) ? state(6, d) : a_.cell == RecurrentAttrs::Cell::kLstm ? zeros() : -1;
    Direction out = steps_ >= 1 && steps_ <= kMaxSteps ? unrolled(cell, x, backward && !turned)
                                                       : looped(cell, x, d, backward && !turned);
    if (turned) out.sequence = turned_around(out.sequence);
    if (lengths_ < 0) return out;
    // Empty sequences end with zeros.
    const int any = s_.reshape(w_.compare(Code::GREATER, lengths_, s_.i32_scalar(0)), {-1, 1});
    out.h = w_.select(any, out.h, s_.f32(0));
    if (out.c >= 0) out.c = w_.select(any, out.c, s_.f32(0));
    return out;
  }

  int packed(const std::vector<int>& parts, int axis) {
    const auto n = static_cast<int32_t>(parts.size());
    return s_.add(Code::PACK, parts, DType::kF32,
                  options_of<tfl::PackOptions>([=](auto& b) { return tfl::CreatePackOptions(b, n, axis); }));
  }

 private:
  /// An int32 vector [batch, hidden] or, with `steps`, [steps, batch, hidden].
  int dims(bool steps) {
    if (batch_ >= 0 && (!steps || steps_ >= 0))
      return s_.i32(steps ? std::vector{steps_, batch_, hidden_} : std::vector{batch_, hidden_});
    const int all = s_.add(Code::SHAPE, {x_}, DType::kI32, options_of<tfl::ShapeOptions>([](auto& b) {
                             return tfl::CreateShapeOptions(b, tfl::TensorType::INT32);
                           }));
    const int front = s_.add(Code::SLICE, {all, s_.i32({steps ? 0 : 1}), s_.i32({steps ? 2 : 1})}, DType::kI32);
    return s_.add(Code::CONCATENATION, {front, s_.i32({hidden_})}, DType::kI32, concat_options(0));
  }
  int zeros() {
    if (batch_ >= 0) return s_.constant(Tensor(DType::kF32, Shape{batch_, hidden_}));
    return s_.add(Code::FILL, {dims(false), s_.f32(0)}, DType::kF32);
  }
  /// The direction's initial state [batch, hidden].
  int state(int input, int d) {
    int x = w_.real(input);
    if (a_.batch_first) x = s_.transpose(x, {1, 0, 2});
    const int row = s_.add(Code::SLICE, {x, s_.i32({d, 0, 0}), s_.i32({1, -1, -1})}, DType::kF32);
    return s_.reshape(row, {batch_, hidden_});
  }
  int turned_around(int x) {
    return s_.add(
        Code::REVERSE_SEQUENCE, {x, lengths_}, DType::kF32,
        options_of<tfl::ReverseSequenceOptions>([](auto& b) { return tfl::CreateReverseSequenceOptions(b, 0, 1); }));
  }

  Direction unrolled(RecurrentCell& cell, int x, bool backward) {
    const std::vector<int> inputs = unpacked(s_, x, steps_);
    std::vector<int> outputs(inputs.size(), -1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t t = backward ? inputs.size() - 1 - i : i;
      const int h = cell.h, c = cell.c;
      cell.step(inputs[t]);
      outputs[t] = cell.h;
      if (lengths_ >= 0) outputs[t] = keep_ended(w_, cell, h, c, lengths_, s_.i32_scalar(static_cast<int64_t>(i)));
    }
    return {packed(outputs, 0), cell.h, cell.c};
  }

  /// Leaves h and c of sequences that end at or before the step as they were; returns h with zeros for these.
  static int keep_ended(OpWriter& w, RecurrentCell& cell, int h, int c, int lengths, int step) {
    SubgraphWriter& s = w.subgraph();
    const int runs = s.reshape(w.compare(Code::GREATER, lengths, step), {-1, 1});
    const int y = w.select(runs, cell.h, s.f32(0));
    cell.h = w.select(runs, cell.h, h);
    if (c >= 0) cell.c = w.select(runs, cell.c, c);
    return y;
  }

  /// A WHILE over: step, number of steps, inputs of all steps, outputs of all steps, h, c of an LSTM, lengths.
  Direction looped(RecurrentCell& outer, int x, int d, bool backward) {
    int count = s_.i32_scalar(steps_);
    if (steps_ < 0) count = s_.reshape(s_.add(Code::SLICE, {dims(true), s_.i32({0}), s_.i32({1})}, DType::kI32), {});
    const int sequence = s_.add(Code::FILL, {dims(true), s_.f32(0)}, DType::kF32);
    std::vector<int> variables{s_.i32_scalar(0), count, x, sequence, outer.h};
    if (outer.c >= 0) variables.push_back(outer.c);
    if (lengths_ >= 0) variables.push_back(lengths_);
    const Shape all{steps_, batch_, hidden_ * outer.gates()}, out{steps_, batch_, hidden_}, row{batch_, hidden_};
    std::vector<FileTensor> types{{.dtype = DType::kI32, .ranked = true}, {.dtype = DType::kI32, .ranked = true}};
    for (const Shape& shape : {all, out, row, row}) types.push_back({.ranked = true, .shape = shape});
    if (outer.c < 0) types.pop_back();
    if (lengths_ >= 0) types.push_back({.dtype = DType::kI32, .ranked = true, .shape = Shape{batch_}});
    const int body = add_body(types, d, outer.c >= 0, backward), cond = add_condition(types);
    std::vector<int> results;
    for (const FileTensor& t : types) results.push_back(s_.add_tensor(t));
    s_.add_to(Code::WHILE, variables, results,
              options_of<tfl::WhileOptions>([=](auto& b) { return tfl::CreateWhileOptions(b, cond, body); }));
    return {results[3], results[4], outer.c >= 0 ? results[5] : -1};
  }

  int add_condition(const std::vector<FileTensor>& types) {
    const int index = s_.file().add_subgraph("condition of the steps");
    SubgraphWriter s(s_.file(), index, s_.graph(), false);
    for (const FileTensor& t : types) s.out().inputs.push_back(s.add_tensor(t));
    s.out().outputs = {s.add(Code::LESS, {0, 1}, DType::kBool)};
    return index;
  }

  int add_body(const std::vector<FileTensor>& types, int d, bool lstm, bool backward) {
    const int index = s_.file().add_subgraph("a step");
    SubgraphWriter s(s_.file(), index, s_.graph(), false);
    for (const FileTensor& t : types) s.out().inputs.push_back(s.add_tensor(t));
    std::vector<int> in = s.out().inputs;
    OpWriter w(s, w_.node());
    RecurrentCell cell(w, gates_, d);
    cell.h = in[4];
    cell.c = lstm ? in[5] : -1;
    const int step = in[0], one = s.i32_scalar(1);
    const int at = backward ? w.sub(w.sub(in[1], one), step) : step;
    cell.step(s.add(Code::GATHER, {in[2], at}, DType::kF32,
                    options_of<tfl::GatherOptions>([](auto& b) { return tfl::CreateGatherOptions(b, 0); })));
    int y = cell.h;
    if (lengths_ >= 0) y = keep_ended(w, cell, in[4], lstm ? in[5] : -1, in.back(), step);
    const int row = s.add(Code::EXPAND_DIMS, {y, s.i32_scalar(0)}, DType::kF32);
    const int place = s.add(Code::CONCATENATION, {s.reshape(at, {1}), s.i32({0, 0})}, DType::kI32, concat_options(0));
    std::vector<int> out = in;
    out[0] = w.add(step, one);
    out[3] = s.add(Code::DYNAMIC_UPDATE_SLICE, {in[3], row, place}, DType::kF32);
    out[4] = cell.h;
    if (lstm) out[5] = cell.c;
    s.out().outputs = out;
    return index;
  }

  OpWriter& w_;
  SubgraphWriter& s_;
  const RecurrentAttrs& a_;
  const std::vector<RecurrentGate>& gates_;
  int x_ = -1, lengths_ = -1;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0;
};

}  // namespace

bool write_recurrent(OpWriter& w) {
  const auto& a = w.attrs<RecurrentAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType& x = w.in_type(0);
  if (!x.ranked || x.shape.rank() != 3 || !w.in_type(1).is_static() || !w.in_type(2).is_static()) return false;
  const int64_t steps = x.shape[a.batch_first ? 1 : 0];
  const bool constants = w.constant(1) && w.constant(2) && (!w.has(3) || w.constant(3)) && (!w.has(7) || w.constant(7));
  // The body of a WHILE has weights of its own.
  if ((steps < 1 || steps > kMaxSteps) && !constants) return false;
  const int directions = a.forward && a.backward ? 2 : 1;
  const auto gates = recurrent_gates(a, directions);
  if (!gates.ok()) return false;
  RecurrentWriter writer(w, *gates);
  std::vector<int> sequences, hidden, cells;
  for (int d = 0; d < directions; ++d) {
    const Direction done = writer.direction(d);
    sequences.push_back(done.sequence);
    hidden.push_back(done.h);
    cells.push_back(done.c);
  }
  const auto ordered = [&](int v, const std::vector<int64_t>& perm) {
    return a.batch_first ? s.transpose(v, perm) : v;
  };
  if (w.wants(0)) w.out(0, ordered(writer.packed(sequences, 1), {2, 0, 1, 3}));
  if (w.wants(1)) w.out(1, ordered(writer.packed(hidden, 0), {1, 0, 2}));
  if (w.wants(2)) w.out(2, ordered(writer.packed(cells, 0), {1, 0, 2}));
  return true;
}

}  // namespace smelt::tflite
