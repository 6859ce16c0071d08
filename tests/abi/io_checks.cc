// onnxSetGraphIO: every error on both sides, recovery, repeated calls, shapes.
#include <cmath>

#include "suite.h"

namespace abi {
namespace {

struct Fixture {
  Device d;
  onnxGraph g;
  std::vector<float> x{-1, 2, -3, 4}, y = std::vector<float>(4, 99);
  std::vector<uint64_t> shape{4};
  onnxTensorDescriptorV1 in = describe("x", 1, shape, x.data()), out = describe("y", 1, shape, y.data());

  explicit Fixture(const ModelSpec& m = relu_model()) : g(init(d, serialize(m))) {}
  ~Fixture() { api.ReleaseGraph(g); }
  onnxStatus set() { return api.SetGraphIO(g, 1, &in, 1, &out); }
  void works() {
    EXPECT_OK(set());
    run(d, g);
    EXPECT((y == std::vector<float>{0, 2, 0, 4}));
  }
  onnxStatus run_status() {
    onnxEvent ready;
    EXPECT_OK(api.InitEvent(d.backend, &ready));
    onnxMemoryFenceV1 a = fence(ready), b = fence();
    const onnxStatus s = api.RunGraph(g, &a, &b);
    EXPECT_OK(api.SignalEvent(ready));
    if (s == ONNXIFI_STATUS_SUCCESS) {
      EXPECT_OK(api.WaitEvent(b.event));
      EXPECT_OK(api.ReleaseEvent(b.event));
    }
    EXPECT_OK(api.ReleaseEvent(ready));
    return s;
  }
};

struct Fault {
  const char* name;
  onnxStatus wanted;
  std::function<void(onnxTensorDescriptorV1&)> change;
};

const std::vector<Fault>& faults() {
  static const uint64_t zero[1] = {0}, five[1] = {5};
  static const uint64_t square[2] = {2, 2};
  static const std::vector<Fault>* const list = new std::vector<Fault>{
      {"tag", ONNXIFI_STATUS_UNSUPPORTED_TAG,
       [](auto& t) {
         t.tag = 0;
         t.name = reinterpret_cast<const char*>(0x3);
       }},
      {"unknown_name", ONNXIFI_STATUS_INVALID_NAME, [](auto& t) { t.name = "nobody"; }},
      {"null_name", ONNXIFI_STATUS_INVALID_NAME, [](auto& t) { t.name = nullptr; }},
      {"undefined_type", ONNXIFI_STATUS_INVALID_DATATYPE, [](auto& t) { t.dataType = 0; }},
      {"string_type", ONNXIFI_STATUS_INVALID_DATATYPE, [](auto& t) { t.dataType = 8; }},
      {"huge_type", ONNXIFI_STATUS_INVALID_DATATYPE, [](auto& t) { t.dataType = UINT64_C(1) << 33; }},
      {"other_type", ONNXIFI_STATUS_MISMATCHING_DATATYPE, [](auto& t) { t.dataType = 6; }},
      {"bool_type", ONNXIFI_STATUS_MISMATCHING_DATATYPE, [](auto& t) { t.dataType = 9; }},
      {"cuda_memory", ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE, [](auto& t) { t.memoryType = 1; }},
      {"opencl_memory", ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE, [](auto& t) { t.memoryType = 2; }},
      {"texture_memory", ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE, [](auto& t) { t.memoryType = 4; }},
      {"d3d_memory", ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE, [](auto& t) { t.memoryType = 8; }},
      {"unknown_memory", ONNXIFI_STATUS_INVALID_MEMORY_TYPE, [](auto& t) { t.memoryType = 16; }},
      {"zero_dimension", ONNXIFI_STATUS_INVALID_SHAPE, [](auto& t) { t.shape = zero; }},
      {"other_extent", ONNXIFI_STATUS_MISMATCHING_SHAPE, [](auto& t) { t.shape = five; }},
      {"other_rank", ONNXIFI_STATUS_MISMATCHING_SHAPE,
       [](auto& t) {
         t.dimensions = 2;
         t.shape = square;
       }},
      {"scalar", ONNXIFI_STATUS_MISMATCHING_SHAPE,
       [](auto& t) {
         t.dimensions = 0;
         t.shape = nullptr;
       }},
      {"null_shape", ONNXIFI_STATUS_INVALID_POINTER, [](auto& t) { t.shape = nullptr; }},
      {"null_buffer", ONNXIFI_STATUS_INVALID_MEMORY_LOCATION, [](auto& t) { t.buffer = 0; }},
      {"null_scales", ONNXIFI_STATUS_INVALID_POINTER,
       [](auto& t) {
         t.quantizationParams = 2;
         t.quantizationAxis = 0;
         t.scales = nullptr;
       }},
  };
  return *list;
}

void add(Checks& checks, const char* name, std::function<void(Fixture&)> f) {
  checks.push_back({std::string("io/") + name, [f] {
                      Fixture fixture;
                      f(fixture);
                    }});
}

ModelSpec batch_model() {
  return {{{"a", 1, {"N", 2}}, {"b", 1, {"N", 2}}}, {{"y", 1, {"N", 2}}}, {{"Add", {"a", "b"}, {"y"}}}};
}

}  // namespace

void add_io_checks(Checks& checks) {
  for (const Fault& fault : faults())
    for (bool output : {false, true})
      checks.push_back({std::string("io/") + (output ? "output/" : "input/") + fault.name, [&fault, output] {
                          Fixture f;
                          const auto good_in = f.in, good_out = f.out;
                          fault.change(output ? f.out : f.in);
                          EXPECT(f.set() == fault.wanted);
                          EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, f.run_status());
                          f.in = good_in;
                          f.out = good_out;
                          f.works();
                        }});
  add(checks, "works", [](Fixture& f) { f.works(); });
  add(checks, "null_outputs",
      [](Fixture& f) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.SetGraphIO(f.g, 1, &f.in, 1, nullptr)); });
  add(checks, "null_inputs",
      [](Fixture& f) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.SetGraphIO(f.g, 1, nullptr, 1, &f.out)); });
  add(checks, "missing_input",
      [](Fixture& f) { EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, api.SetGraphIO(f.g, 0, nullptr, 1, &f.out)); });
  add(checks, "missing_output",
      [](Fixture& f) { EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, api.SetGraphIO(f.g, 1, &f.in, 0, &f.out)); });
  add(checks, "input_twice", [](Fixture& f) {
    const onnxTensorDescriptorV1 two[2] = {f.in, f.in};
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_NAME, api.SetGraphIO(f.g, 2, two, 1, &f.out));
  });
  add(checks, "output_twice", [](Fixture& f) {
    const onnxTensorDescriptorV1 two[2] = {f.out, f.out};
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_NAME, api.SetGraphIO(f.g, 1, &f.in, 2, two));
  });
  add(checks, "wild_graph", [](Fixture& f) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.SetGraphIO(reinterpret_cast<onnxGraph>(0x71), 1, &f.in, 1, &f.out));
  });
  add(checks, "all_tags_come_first", [](Fixture& f) {
    f.in.name = "nobody";
    f.out.tag = 3;
    EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_TAG, f.set());
  });
  add(checks, "name_before_type", [](Fixture& f) {
    f.in.name = "nobody";
    f.in.dataType = 0;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_NAME, f.set());
  });
  add(checks, "type_before_memory", [](Fixture& f) {
    f.in.dataType = 0;
    f.in.memoryType = 16;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_DATATYPE, f.set());
  });
  add(checks, "memory_before_shape", [](Fixture& f) {
    f.shape[0] = 0;
    f.in.memoryType = 16;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_MEMORY_TYPE, f.set());
  });
  add(checks, "shape_before_buffer", [](Fixture& f) {
    f.shape[0] = 0;
    f.in.buffer = 0;
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_SHAPE, f.set());
  });
  add(checks, "last_call_wins", [](Fixture& f) {
    std::vector<float> other(4, 55);
    f.works();
    f.out.buffer = reinterpret_cast<onnxPointer>(other.data());
    f.y.assign(4, 99);
    EXPECT_OK(f.set());
    run(f.d, f.g);
    EXPECT((other == std::vector<float>{0, 2, 0, 4}) && f.y[0] == 99);
  });
  add(checks, "a_failed_call_invalidates_earlier_locations", [](Fixture& f) {
    f.works();
    auto good = f.in;
    f.in.tag = 0;
    EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_TAG, f.set());
    EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, f.run_status());
    f.in = good;
    f.works();
  });
  add(checks, "shape_memory_may_be_reused", [](Fixture& f) {
    EXPECT_OK(f.set());
    f.shape[0] = 1000000;
    run(f.d, f.g);
    EXPECT((f.y == std::vector<float>{0, 2, 0, 4}));
  });
  add(checks, "guard_bytes_around_outputs", [](Fixture& f) {
    std::vector<float> wide(12, 7);
    f.out.buffer = reinterpret_cast<onnxPointer>(wide.data() + 4);
    EXPECT_OK(f.set());
    run(f.d, f.g);
    for (int i = 0; i < 4; ++i) EXPECT(wide[i] == 7 && wide[i + 8] == 7);
    EXPECT(wide[5] == 2);
  });
  checks.push_back(
      {"io/no_inputs", [] {
         ModelSpec m{{}, {{"y", 1, {2}}}, {{"Relu", {"c"}, {"y"}}}, {{{"c", 1, {2}}, raw<float>({-5, 6})}}};
         Device d;
         onnxGraph g = init(d, serialize(m));
         std::vector<float> y(2);
         run(d, g, {}, {describe("y", {2}, y)});
         EXPECT((y == std::vector<float>{0, 6}));
         EXPECT_OK(api.ReleaseGraph(g));
       }});
  checks.push_back({"io/unused_input", [] {
                      ModelSpec m = relu_model();
                      m.inputs.push_back({"unused", 1, {3}});
                      Device d;
                      onnxGraph g = init(d, serialize(m));
                      std::vector<float> x{-1, 1, -1, 1}, u(3), y(4);
                      run(d, g, {describe("x", {4}, x), describe("unused", {3}, u)}, {describe("y", {4}, y)});
                      EXPECT((y == std::vector<float>{0, 1, 0, 1}));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  for (uint64_t batch : {1, 2, 3, 7, 64})
    checks.push_back(
        {"io/symbolic_batch/" + std::to_string(batch), [batch] {
           Device d;
           onnxGraph g = init(d, serialize(batch_model()));
           std::vector<float> a(batch * 2, 1), b(batch * 2, 2), y(batch * 2);
           run(d, g, {describe("a", {batch, 2}, a), describe("b", {batch, 2}, b)}, {describe("y", {batch, 2}, y)});
           for (float v : y) EXPECT(v == 3);
           EXPECT_OK(api.ReleaseGraph(g));
         }});
  checks.push_back(
      {"io/batch_changes_from_run_to_run", [] {
         Device d;
         onnxGraph g = init(d, serialize(batch_model()));
         for (uint64_t batch : {4, 1, 9, 2, 4, 30, 1}) {
           std::vector<float> a(batch * 2, 1), b(batch * 2, static_cast<float>(batch)), y(batch * 2);
           run(d, g, {describe("a", {batch, 2}, a), describe("b", {batch, 2}, b)}, {describe("y", {batch, 2}, y)});
           for (float v : y) EXPECT(v == static_cast<float>(batch + 1));
         }
         EXPECT_OK(api.ReleaseGraph(g));
       }});
  checks.push_back(
      {"io/one_symbol_two_values", [] {
         Device d;
         onnxGraph g = init(d, serialize(batch_model()));
         std::vector<float> a(6), b(4), y(6);
         const std::vector<uint64_t> three{3, 2}, two{2, 2};
         const onnxTensorDescriptorV1 in[2] = {describe("a", 1, three, a.data()), describe("b", 1, two, b.data())};
         const auto out = describe("y", 1, three, y.data());
         EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, api.SetGraphIO(g, 2, in, 1, &out));
         EXPECT_OK(api.ReleaseGraph(g));
       }});
  checks.push_back(
      {"io/output_contradicts_symbol", [] {
         Device d;
         onnxGraph g = init(d, serialize(batch_model()));
         std::vector<float> a(6), b(6), y(6);
         const std::vector<uint64_t> three{3, 2}, two{2, 2};
         const onnxTensorDescriptorV1 in[2] = {describe("a", 1, three, a.data()), describe("b", 1, three, b.data())};
         const auto out = describe("y", 1, two, y.data());
         EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, api.SetGraphIO(g, 2, in, 1, &out));
         EXPECT_OK(api.ReleaseGraph(g));
       }});
  checks.push_back({"io/variable_output_is_written_densely", [] {
                      // NonZero of 5 elements gives [1, k]; the location holds [1, 5].
                      ModelSpec m{{{"x", 1, {5}}}, {{"y", 7, {1, "k"}}}, {{"NonZero", {"x"}, {"y"}}}};
                      Device d;
                      onnxGraph g = init(d, serialize(m));
                      std::vector<float> x{0, 1, 0, 2, 0};
                      std::vector<int64_t> y(5, -9);
                      run(d, g, {describe("x", {5}, x)}, {describe("y", {1, 5}, y, 7)});
                      EXPECT((y == std::vector<int64_t>{1, 3, -9, -9, -9}));
                      EXPECT_OK(api.ReleaseGraph(g));
                    }});
  for (const auto& [name, target, want] :
       std::vector<std::tuple<std::string, std::vector<int64_t>, std::vector<uint64_t>>>{
           {"flat", {-1}, {6}}, {"copy", {0, -1}, {2, 3}}, {"split", {3, -1}, {3, 2}}})
    checks.push_back({"io/reshape_" + name, [target = target, want = want] {
                        ModelSpec m{{{"x", 1, {2, 3}}},
                                    {{"y", 1, {}}},
                                    {{"Reshape", {"x", "s"}, {"y"}}},
                                    {{{"s", 7, {static_cast<int>(target.size())}}, raw(target)}}};
                        m.outputs[0].dims.clear();
                        for (uint64_t v : want) m.outputs[0].dims.emplace_back(static_cast<int>(v));
                        Device d;
                        onnxGraph g = init(d, serialize(m));
                        std::vector<float> x{1, 2, 3, 4, 5, 6}, y(6);
                        run(d, g, {describe("x", {2, 3}, x)}, {describe("y", want, y)});
                        EXPECT(x == y);
                        EXPECT_OK(api.ReleaseGraph(g));
                      }});
}

}  // namespace abi
