// Callers' memory: nothing beyond its end is touched, any alignment will do, inputs are only read.
#include <memory>

#include "suite.h"
#include "support/guarded.h"

namespace abi {
namespace {
using smelt::test::Guarded;

struct Net {
  const char* name;
  ModelSpec model;
};

/// Networks over x[n] or x[1,n,...] whose kernels read rows of odd lengths.
std::vector<Net> nets(int n) {
  return {
      {"relu", relu_model(n)},
      {"add", add_model(n)},
      {"softmax", {{{"x", 1, {1, n}}}, {{"y", 1, {1, n}}}, {{"Softmax", {"x"}, {"y"}}}}},
      {"reduce", {{{"x", 1, {3, n}}}, {{"y", 1, {3, 1}}}, {{"ReduceMax", {"x"}, {"y"}, {}, "", {{"axes", {1}}}}}}},
      {"transpose", {{{"x", 1, {3, n}}}, {{"y", 1, {n, 3}}}, {{"Transpose", {"x"}, {"y"}}}}},
      {"matmul", {{{"a", 1, {3, n}}, {"b", 1, {n, 5}}}, {{"y", 1, {3, 5}}}, {{"MatMul", {"a", "b"}, {"y"}}}}},
      {"conv",
       {{{"x", 1, {1, 3, 7, n + 3}}, {"w", 1, {2, 3, 3, 3}}},
        {{"y", 1, {1, 2, 5, n + 1}}},
        {{"Conv", {"x", "w"}, {"y"}}}}},
      {"max_pool",
       {{{"x", 1, {1, 3, 4, n + 1}}},
        {{"y", 1, {1, 3, 3, n}}},
        {{"MaxPool", {"x"}, {"y"}, {}, "", {{"kernel_shape", {2, 2}}}}}}},
      {"concat", {{{"a", 1, {n}}, {"b", 1, {3}}}, {{"y", 1, {n + 3}}}, {{"Concat", {"a", "b"}, {"y"}, {{"axis", 0}}}}}},
      {"layer_norm",
       {{{"x", 1, {2, n}}, {"s", 1, {n}}}, {{"y", 1, {2, n}}}, {{"LayerNormalization", {"x", "s"}, {"y"}}}}},
      {"cast", {{{"x", 1, {n}}}, {{"y", 10, {n}}}, {{"Cast", {"x"}, {"y"}, {{"to", 10}}}}}},
  };
}

size_t element_bytes(int type) { return type == 10 ? 2 : 4; }

struct Bound {
  std::vector<uint64_t> shape;
  size_t bytes;
};
Bound bound(const Tensor& t) {
  Bound b{{}, element_bytes(t.type)};
  for (const Dim& d : t.dims) {
    b.shape.push_back(static_cast<uint64_t>(d.value));
    b.bytes *= static_cast<size_t>(d.value);
  }
  return b;
}

/// Runs a network with every tensor flush against a forbidden page, and `shift` bytes off its natural place.
void run_at_the_edge(const ModelSpec& m, size_t shift) {
  Device d;
  onnxGraph g = init(d, serialize(m));
  std::vector<Bound> bounds;
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<onnxTensorDescriptorV1> in, out;
  for (const Tensor& t : m.inputs) bounds.push_back(bound(t));
  bounds.push_back(bound(m.outputs[0]));
  for (size_t i = 0; i < bounds.size(); ++i) {
    memory.push_back(std::make_unique<Guarded>(bounds[i].bytes + shift));
    const bool output = i == m.inputs.size();
    const Tensor& t = output ? m.outputs[0] : m.inputs[i];
    if (!output)
      for (size_t k = 0; k < bounds[i].bytes / 4; ++k) {
        const float v = static_cast<float>(k % 7) - 3;
        std::memcpy(memory[i]->as<char>() + 4 * k, &v, 4);
      }
    (output ? out : in).push_back(describe(t.name.c_str(), t.type, bounds[i].shape, memory[i]->data()));
    if (!output) memory[i]->read_only();
  }
  run(d, g, in, out);
  EXPECT_OK(api.ReleaseGraph(g));
}

void add_edge_checks(Checks& checks) {
  checks.push_back(
      {"memory/unknown_property_without_a_value", [] {
         // The list ends with its key: a value that is not there must not be read.
         const uint64_t key = 99;
         Guarded list(&key, sizeof key);
         Device d;
         onnxBackend b;
         EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_PROPERTY, api.InitBackend(d.id, list.as<uint64_t>(), &b));
         const std::string m = serialize(relu_model());
         onnxGraph g;
         EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_PROPERTY,
                       api.InitGraph(d.backend, list.as<uint64_t>(), m.size(), m.data(), 0, nullptr, &g, 0, nullptr));
       }});
  checks.push_back({"memory/model_bytes_at_the_edge", [] {
                      const std::string m = serialize(relu_model());
                      Guarded bytes(m.data(), m.size());
                      bytes.read_only();
                      Device d;
                      EXPECT_OK(api.GetBackendCompatibility(d.id, m.size(), bytes.data()));
                      onnxGraph g;
                      EXPECT_OK(api.InitGraph(d.backend, nullptr, m.size(), bytes.data(), 0, nullptr, &g, 0, nullptr));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  checks.push_back({"memory/rank_is_not_trusted", [] {
                      // A rank that the caller's shape does not have: refused before it is read that far.
                      const uint64_t four = 4;
                      Guarded shape(&four, sizeof four);
                      Device d;
                      onnxGraph g = init(d, serialize(relu_model()));
                      std::vector<float> x(4), y(4);
                      auto in = describe("x", 1, {4}, x.data()), out = describe("y", 1, {4}, y.data());
                      in.shape = out.shape = shape.as<uint64_t>();
                      in.dimensions = UINT32_MAX;
                      EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, api.SetGraphIO(g, 1, &in, 1, &out));
                      in.dimensions = 1;
                      EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  checks.push_back(
      {"memory/tag_at_the_edge", [] {
         // Only the tag of an unknown descriptor is there, and the padding that keeps it aligned.
         const int32_t tag[2] = {5, 0};
         Guarded memory(tag, sizeof tag);
         Device d;
         onnxGraph g = init(d, serialize(relu_model()));
         EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_TAG, api.SetGraphIO(g, 1, memory.as<onnxTensorDescriptorV1>(), 1,
                                                                      memory.as<onnxTensorDescriptorV1>()));
         const std::string m = serialize(add_model());
         onnxGraph other;
         EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_TAG,
                       api.InitGraph(d.backend, nullptr, m.size(), m.data(), 1, memory.as<onnxTensorDescriptorV1>(),
                                     &other, 0, nullptr));
         onnxMemoryFenceV1 good = fence();
         EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_TAG, api.RunGraph(g, memory.as<onnxMemoryFenceV1>(), &good));
         EXPECT_OK(api.ReleaseGraph(g));
       }});
}

}  // namespace

void add_memory_checks(Checks& checks) {
  for (const int n : {1, 5, 8, 13, 16, 31, 64, 67})
    for (const Net& net : nets(n))
      checks.push_back({std::string("memory/edge/") + net.name + "/" + std::to_string(n),
                        [m = net.model] { run_at_the_edge(m, 0); }});
  for (const size_t shift : {1, 2, 3})
    for (const Net& net : nets(13))
      checks.push_back({std::string("memory/unaligned/") + net.name + "/" + std::to_string(shift),
                        [m = net.model, shift] { run_at_the_edge(m, shift); }});
  checks.push_back({"memory/unaligned_results", [] {
                      Device d;
                      onnxGraph g = init(d, serialize(relu_model()));
                      std::vector<char> x(17), y(17, 7);
                      const float values[4] = {-1, 2, -3, 4};
                      std::memcpy(x.data() + 1, values, 16);
                      run(d, g, {describe("x", 1, {4}, x.data() + 1)}, {describe("y", 1, {4}, y.data() + 1)});
                      float got[4];
                      std::memcpy(got, y.data() + 1, 16);
                      EXPECT(got[0] == 0 && got[1] == 2 && got[2] == 0 && got[3] == 4 && y[0] == 7);
                      // The bytes are read when the run starts, not when the location was given.
                      const float more[4] = {5, 6, 7, 8};
                      std::memcpy(x.data() + 1, more, 16);
                      run(d, g);
                      std::memcpy(got, y.data() + 1, 16);
                      EXPECT(got[0] == 5 && got[3] == 8);
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  checks.push_back({"memory/output_over_input", [] {
                      Device d;
                      onnxGraph g = init(d, serialize(relu_model()));
                      std::vector<float> x{-1, 2, -3, 4};
                      run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, x)});
                      EXPECT((x == std::vector<float>{0, 2, 0, 4}));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  checks.push_back({"memory/one_buffer_for_two_inputs", [] {
                      ModelSpec m{{{"a", 1, {3}}, {"b", 1, {3}}}, {{"y", 1, {3}}}, {{"Add", {"a", "b"}, {"y"}}}};
                      Device d;
                      onnxGraph g = init(d, serialize(m));
                      std::vector<float> x{1, 2, 3}, y(3);
                      run(d, g, {describe("a", {3}, x), describe("b", {3}, x)}, {describe("y", {3}, y)});
                      EXPECT((y == std::vector<float>{2, 4, 6}));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  add_edge_checks(checks);
}

}  // namespace abi
