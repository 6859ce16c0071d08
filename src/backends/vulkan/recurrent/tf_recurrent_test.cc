#include "ops/recurrent/recurrent.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanTfCells : public VulkanTest {};

constexpr int64_t kBatch = 2, kTime = 3, kFeatures = 5, kUnits = 6, kOutputs = 4;

QuantPtr symmetric(float scale) { return per_tensor(scale, 0); }

/// Weights of float32, float16 or 8 bits.
Tensor weights(DType dtype, const Shape& shape, uint32_t seed) {
  if (dtype == DType::kF32 || dtype == DType::kF16) return random_tensor(dtype, shape, -0.6, 0.6, seed);
  Tensor t = random_tensor(dtype, shape, dtype == DType::kU8 ? 0 : -127, 127, seed);
  t.set_quant(symmetric(0.006f));
  return t;
}
Tensor real(const Shape& shape, uint32_t seed) { return random_tensor(DType::kF32, shape, -1, 1, seed); }

/// Every input behind the first is a constant, but for the states and the auxiliary input.
void finish(OpCase& c, std::initializer_list<size_t> dynamic, size_t outputs) {
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (std::ranges::count(dynamic, i) == 0) c.constants.push_back(i);
  c.outputs = std::vector<ValueType>(outputs);
}

struct Parts {
  bool coupled = false, peephole = false, projection = false, norm = false, diagonal = false;
  friend std::string to_string(const Parts& p) {
    return Cat(" coupled ", p.coupled, " peephole ", p.peephole, " projection ", p.projection, " norm ", p.norm,
               " diagonal ", p.diagonal);
  }
};

/// Sets weights from input w on: four of x, four of h, three peepholes, four biases, the projection and its bias.
void put_lstm(OpCase& c, size_t w, int64_t features, int64_t batch, size_t h, size_t cell, DType dtype,
              const Parts& p) {
  const int64_t outputs = p.projection ? kOutputs : kUnits;
  for (size_t g = p.coupled ? 1 : 0; g < 4; ++g) {
    const auto seed = static_cast<uint32_t>(w + g);
    c.inputs[w + g] = weights(dtype, {kUnits, features}, seed + 1);
    c.inputs[w + 4 + g] = p.diagonal ? real({kUnits}, seed + 2) : weights(dtype, {kUnits, outputs}, seed + 5);
    c.inputs[w + 11 + g] = real({kUnits}, seed + 9);
    if (p.peephole && g != 2) c.inputs[w + 8 + (g == 3 ? 2 : g)] = real({kUnits}, seed + 20);
    if (p.norm) c.inputs[20 + g] = real({kUnits}, seed + 30);
  }
  if (p.projection) {
    c.inputs[w + 15] = weights(dtype, {kOutputs, kUnits}, 40);
    c.inputs[w + 16] = real({kOutputs}, 41);
  }
  c.inputs[h] = real({batch, outputs}, 42);
  c.inputs[cell] = real({batch, kUnits}, 43);
}

const std::vector<Parts> kParts = {{},
                                   {.coupled = true, .peephole = true},
                                   {.projection = true, .norm = true},
                                   {.coupled = true, .peephole = true, .projection = true, .norm = true},
                                   {.diagonal = true}};

/// DynamicQuantFloat rows round: a value at the middle of two may fall on either side of what the host has.
Tolerance near_of(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 ? Tolerance{1e-4, 1e-4} : Tolerance{};
}

TEST_F(VulkanTfCells, Lstm) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI8, DType::kU8})
    for (const Parts& p : kParts)
      for (bool sequence : {false, true})
        for (bool time_major : {false, true}) {
          TfLstmAttrs a;
          a.sequence = sequence;
          a.time_major = time_major;
          a.asymmetric_inputs = time_major;
          a.diagonal_recurrent = p.diagonal;
          a.act = {ActKind::kTanh};
          a.cell_clip = p.peephole ? 0.9 : 0;
          a.proj_clip = p.norm ? 0.7 : 0;
          OpCase c{Cat(to_string(dtype), to_string(p), " sequence ", sequence, " time major ", time_major), Op::kTfLstm,
                   make_attrs<TfLstmAttrs>(a), std::vector<Tensor>(24)};
          c.inputs[0] = real(!sequence    ? Shape{kBatch, kFeatures}
                             : time_major ? Shape{kTime, kBatch, kFeatures}
                                          : Shape{kBatch, kTime, kFeatures},
                             1);
          put_lstm(c, 1, kFeatures, kBatch, 18, 19, dtype, p);
          finish(c, {0, 18, 19}, 3);
          check_on_gpu(c, "tf_lstm", near_of(dtype));
        }
}

TEST_F(VulkanTfCells, LstmInManyDispatches) {
  TfLstmAttrs a;
  a.sequence = true;
  a.act = {ActKind::kTanh};
  const int64_t n = 150, f = 90, time = 120;
  OpCase c{"long", Op::kTfLstm, make_attrs<TfLstmAttrs>(a), std::vector<Tensor>(24)};
  c.inputs[0] = real({1, time, f}, 1);
  for (size_t g = 0; g < 4; ++g) {
    c.inputs[1 + g] = random_tensor(DType::kF32, {n, f}, -0.1, 0.1, 2);
    c.inputs[5 + g] = random_tensor(DType::kF32, {n, n}, -0.1, 0.1, 3);
    c.inputs[12 + g] = real({n}, 4);
  }
  c.inputs[18] = real({1, n}, 5);
  c.inputs[19] = real({1, n}, 6);
  finish(c, {0, 18, 19}, 3);
  check_on_gpu(c, "tf_lstm", {1e-4, 1e-4});
}

TEST_F(VulkanTfCells, BidirectionalLstm) {
  for (DType dtype : {DType::kF32, DType::kI8})
    for (bool merge : {false, true})
      for (int aux : {0, 1, 2}) {  // 2: with weights of its own
        TfLstmAttrs a;
        a.sequence = a.bidirectional = true;
        a.merge_outputs = merge;
        a.time_major = aux == 1;
        a.act = {ActKind::kTanh};
        const Parts p{.projection = merge};
        const Shape x = a.time_major ? Shape{kTime, kBatch, kFeatures} : Shape{kBatch, kTime, kFeatures};
        OpCase c{Cat(to_string(dtype), " merge ", merge, " aux ", aux), Op::kTfLstm, make_attrs<TfLstmAttrs>(a),
                 std::vector<Tensor>(48)};
        c.inputs[0] = real(x, 1);
        put_lstm(c, 1, kFeatures, kBatch, 35, 36, dtype, p);
        put_lstm(c, 18, kFeatures, kBatch, 37, 38, dtype, p);
        if (aux > 0) c.inputs[39] = real(x, 2);
        if (aux == 2)
          for (size_t g = 0; g < 4; ++g) {
            c.inputs[40 + g] = weights(dtype, {kUnits, kFeatures}, 50);
            c.inputs[44 + g] = weights(dtype, {kUnits, kFeatures}, 51);
          }
        finish(c, {0, 35, 36, 37, 38, 39}, merge ? 1 : 6);
        check_on_gpu(c, "tf_lstm", near_of(dtype));
      }
}

TEST_F(VulkanTfCells, BasicLstm) {
  TfLstmAttrs a;
  a.basic = true;
  OpCase c{"basic", Op::kTfLstm, make_attrs<TfLstmAttrs>(a)};
  c.inputs = {real({kBatch, kFeatures}, 1), real({kBatch, kUnits}, 2), real({4 * kUnits, kFeatures + kUnits}, 3),
              real({4 * kUnits}, 4), real({kBatch, kUnits}, 5)};
  finish(c, {0, 1, 4}, 4);
  check_on_gpu(c, "tf_lstm");
}

TEST_F(VulkanTfCells, Rnn) {
  for (DType dtype : {DType::kF32, DType::kI8})
    for (bool bidirectional : {false, true})
      for (bool time_major : {false, true})
        for (bool merge : {false, true})
          for (int aux : {0, 1, 2}) {
            if (!bidirectional && (merge || aux)) continue;
            TfRnnAttrs a;
            a.sequence = true;
            a.time_major = time_major;
            a.bidirectional = bidirectional;
            a.merge_outputs = merge;
            a.asymmetric_inputs = merge;
            a.act = {time_major ? ActKind::kRelu : ActKind::kTanh};
            const Shape x = time_major ? Shape{kTime, kBatch, kFeatures} : Shape{kBatch, kTime, kFeatures};
            OpCase c{Cat(to_string(dtype), " both ", bidirectional, " time major ", time_major, " merge ", merge,
                         " aux ", aux),
                     Op::kTfRnn, make_attrs<TfRnnAttrs>(a), std::vector<Tensor>(bidirectional ? 12 : 5)};
            c.inputs[0] = real(x, 1);
            for (size_t first = 1; first < (bidirectional ? 9u : 5u); first += 4) {
              const auto seed = static_cast<uint32_t>(first);
              c.inputs[first] = weights(dtype, {kUnits, kFeatures}, seed + 1);
              c.inputs[first + 1] = weights(dtype, {kUnits, kUnits}, seed + 2);
              c.inputs[first + 2] = real({kUnits}, seed + 3);
              c.inputs[first + 3] = real({kBatch, kUnits}, seed + 4);
            }
            if (aux > 0) c.inputs[9] = real(x, 9);
            if (aux == 2) c.inputs[10] = c.inputs[11] = weights(dtype, {kUnits, kFeatures}, 10);
            finish(c, {0, 4, 8, 9}, merge ? 1 : bidirectional ? 4 : 2);
            check_on_gpu(c, "tf_rnn", near_of(dtype));
          }
}

TEST_F(VulkanTfCells, Svdf) {
  constexpr int64_t kFilters = 6, kMemory = 5;
  for (DType dtype : {DType::kF32, DType::kI8})
    for (bool asymmetric : {false, true}) {
      TfSvdfAttrs a;
      a.rank = 2;
      a.asymmetric_inputs = asymmetric;
      a.act = {ActKind::kRelu};
      OpCase c{Cat(to_string(dtype), " asymmetric ", asymmetric), Op::kTfSvdf, make_attrs<TfSvdfAttrs>(a)};
      c.inputs = {real({kBatch, kFeatures}, 1), weights(dtype, {kFilters, kFeatures}, 2),
                  weights(dtype, {kFilters, kMemory}, 3), real({kFilters / 2}, 4),
                  real({kBatch, kFilters * kMemory}, 5)};
      finish(c, {0, 4}, 2);
      check_on_gpu(c, "tf_svdf", near_of(dtype));
    }
  TfSvdfAttrs a;
  const auto quantized = [](DType dtype, const Shape& shape, double most, float scale, int32_t zero = 0) {
    Tensor t = random_tensor(dtype, shape, -most, most, 6);
    t.set_quant(per_tensor(scale, zero));
    return t;
  };
  OpCase c{"int8", Op::kTfSvdf, make_attrs<TfSvdfAttrs>(a)};
  c.inputs = {quantized(DType::kI8, {kBatch, kFeatures}, 127, 0.05f, 3),
              quantized(DType::kI8, {kFilters, kFeatures}, 127, 0.01f),
              quantized(DType::kI16, {kFilters, kMemory}, 3000, 0.001f),
              random_tensor(DType::kI32, {kFilters}, -1000, 1000, 7),
              quantized(DType::kI16, {kBatch, kFilters * kMemory}, 3000, 0.002f)};
  finish(c, {0, 4}, 2);
  c.outputs = {ValueType::tensor(DType::kI8, {kBatch, kFilters}, per_tensor(0.3f, -5)),
               ValueType::tensor(DType::kI16, {kBatch, kFilters * kMemory}, per_tensor(0.002f, 0))};
  check_on_gpu(c, "tf_svdf");
}

TEST_F(VulkanTfCells, IntegerLstm) {
  const auto quantized = [](DType dtype, const Shape& shape, double most, float scale, uint32_t seed,
                            int32_t zero = 0) {
    Tensor t = random_tensor(dtype, shape, -most, most, seed);
    t.set_quant(per_tensor(scale, zero));
    return t;
  };
  for (const Parts& p : kParts)
    for (bool time_major : {false, true}) {
      if (p.diagonal) continue;
      TfLstmAttrs a;
      a.sequence = true;
      a.time_major = time_major;
      a.act = {ActKind::kTanh};
      a.cell_clip = p.peephole ? 0.9 : 0;
      a.proj_clip = p.norm ? 0.7 : 0;
      for (int i = 0; i < 5; ++i)
        a.intermediates.push_back(ValueType::tensor(i < 4 ? DType::kI16 : DType::kI8, {},
                                                    per_tensor(i < 4 ? 0.001f : 0.007f, i < 4 ? 0 : 3)));
      const int64_t outputs = p.projection ? kOutputs : kUnits;
      OpCase c{Cat("int8", to_string(p), " time major ", time_major), Op::kTfLstm, make_attrs<TfLstmAttrs>(a),
               std::vector<Tensor>(24)};
      c.inputs[0] =
          quantized(DType::kI8, time_major ? Shape{kTime, kBatch, kFeatures} : Shape{kBatch, kTime, kFeatures}, 127,
                    0.008f, 1, 2);
      for (size_t g = p.coupled ? 1 : 0; g < 4; ++g) {
        const auto seed = static_cast<uint32_t>(g);
        c.inputs[1 + g] = quantized(DType::kI8, {kUnits, kFeatures}, 127, 0.006f, seed + 2);
        c.inputs[5 + g] = quantized(DType::kI8, {kUnits, outputs}, 127, 0.006f, seed + 9);
        c.inputs[12 + g] = random_tensor(DType::kI32, {kUnits}, -20000, 20000, seed + 20);
        if (p.peephole && g != 2)
          c.inputs[9 + (g == 3 ? 2 : g)] = quantized(DType::kI16, {kUnits}, 20000, 3e-5f, seed + 30);
        if (p.norm) c.inputs[20 + g] = quantized(DType::kI16, {kUnits}, 20000, 5e-5f, seed + 40);
      }
      if (p.projection) {
        c.inputs[16] = quantized(DType::kI8, {kOutputs, kUnits}, 127, 0.006f, 50);
        c.inputs[17] = random_tensor(DType::kI32, {kOutputs}, -2000, 2000, 51);
      }
      c.inputs[18] = quantized(DType::kI8, {kBatch, outputs}, 100, 0.0078f, 52, -4);
      c.inputs[19] = quantized(DType::kI16, {kBatch, kUnits}, 9000, 1.f / 2048, 53);
      finish(c, {0, 18, 19}, 3);
      ValueType y = ValueType::tensor(DType::kI8);
      y.ranked = false;
      y.quant = per_tensor(0.0078f, -4);
      c.outputs[0] = y;
      check_on_gpu(c, "tf_lstm_i8");
    }
}

}  // namespace
}  // namespace smelt::vulkan
