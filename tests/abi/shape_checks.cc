// Shapes that the model leaves open: validated where the caller gives them, outputs of variable size, large numbers.
#include "suite.h"

namespace abi {
namespace {

/// A graph whose tensors the check describes call by call.
struct Graph {
  Device d;
  onnxGraph g;
  std::vector<std::vector<uint64_t>> shapes;
  std::vector<std::vector<float>> values;

  explicit Graph(const ModelSpec& m) : g(init(d, serialize(m))) {}
  ~Graph() { api.ReleaseGraph(g); }

  struct Arg {
    const char* name;
    std::vector<uint64_t> shape;
  };
  /// SetGraphIO with float tensors of these shapes (large ones get no memory of their own).
  onnxStatus set(const std::vector<Arg>& inputs, const std::vector<Arg>& outputs) {
    shapes.clear();
    values.clear();
    std::vector<onnxTensorDescriptorV1> in, out;
    for (const auto* list : {&inputs, &outputs})
      for (const Arg& a : *list) shapes.push_back(a.shape);
    size_t at = 0;
    for (const auto* list : {&inputs, &outputs})
      for (const Arg& a : *list) {
        uint64_t n = 1;
        for (uint64_t v : a.shape) n = v > 4096 ? 1 : n * v;
        values.emplace_back(n, list == &inputs ? 2.0f : 99.0f);
        (list == &inputs ? in : out).push_back(describe(a.name, 1, shapes[at++], values.back().data()));
      }
    return api.SetGraphIO(g, static_cast<uint32_t>(in.size()), in.data(), static_cast<uint32_t>(out.size()),
                          out.data());
  }
  /// Runs; the values of the last tensor given.
  const std::vector<float>& result() {
    run(d, g);
    return values.back();
  }
  onnxStatus run_status() {
    onnxEvent ready;
    EXPECT_OK(api.InitEvent(d.backend, &ready));
    EXPECT_OK(api.SignalEvent(ready));
    onnxMemoryFenceV1 a = fence(ready), b = fence();
    const onnxStatus s = api.RunGraph(g, &a, &b);
    EXPECT_OK(api.ReleaseEvent(ready));
    if (s != ONNXIFI_STATUS_SUCCESS) return s;
    const onnxStatus w = api.WaitEvent(b.event);
    EXPECT_OK(api.ReleaseEvent(b.event));
    return w;
  }
};

ModelSpec add_of(const char* a, const char* b, const char* y) {
  return {{{"a", 1, {a}}, {"b", 1, {b}}}, {{"y", 1, {y}}}, {{"Add", {"a", "b"}, {"y"}}}};
}
ModelSpec relu_of(const char* x, const char* y) { return {{{"x", 1, {x}}}, {{"y", 1, {y}}}, {{"Relu", {"x"}, {"y"}}}}; }

void add(Checks& checks, const char* name, std::function<void()> body) {
  checks.push_back({std::string("shapes/") + name, std::move(body)});
}

/// NonZero of x[5], a location for `room` indices.
onnxStatus non_zero(size_t capacity, std::vector<int64_t>& y) {
  ModelSpec m{{{"x", 1, {5}}}, {{"y", 7, {1, "k"}}}, {{"NonZero", {"x"}, {"y"}}}};
  Device d;
  onnxGraph g = init(d, serialize(m));
  std::vector<float> x{0, 1, 0, 2, 3};
  y.assign(capacity + 2, -9);
  const std::vector<uint64_t> five{5}, given{1, capacity};
  const auto in = describe("x", 1, five, x.data()), out = describe("y", 7, given, y.data());
  EXPECT_OK(api.SetGraphIO(g, 1, &in, 1, &out));
  onnxEvent ready;
  EXPECT_OK(api.InitEvent(d.backend, &ready));
  EXPECT_OK(api.SignalEvent(ready));
  onnxMemoryFenceV1 a = fence(ready), b = fence();
  EXPECT_OK(api.RunGraph(g, &a, &b));
  const onnxStatus s = api.WaitEvent(b.event);
  onnxExtensionFunctionPointer p;
  EXPECT_OK(api.GetExtensionFunctionAddress(d.id, "onnxWaitEventForFunction", &p));
  onnxEventState state;
  onnxStatus status;
  EXPECT_OK(reinterpret_cast<onnxWaitEventForFunction>(reinterpret_cast<void*>(p))(b.event, 0, &state, &status, nullptr,
                                                                                   nullptr));
  EXPECT(state == ONNXIFI_EVENT_STATE_SIGNALLED);
  EXPECT(status == (s == ONNXIFI_STATUS_SUCCESS ? ONNXIFI_STATUS_SUCCESS : ONNXIFI_STATUS_MISMATCHING_SHAPE));
  EXPECT_OK(api.ReleaseGraph(g));
  return s;
}

void large_numbers(Checks& checks) {
  for (const uint64_t n : {UINT64_C(1) << 41, UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_MAX}) {
    checks.push_back({"shapes/huge_symbolic/" + std::to_string(n), [n] {
                        Graph g(relu_of("N", "N"));
                        EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_SHAPE, g.set({{"x", {n}}}, {{"y", {n}}}));
                        EXPECT_OK(g.set({{"x", {2}}}, {{"y", {2}}}));
                      }});
    checks.push_back({"shapes/huge_for_fixed/" + std::to_string(n), [n] {
                        Graph g(relu_model());
                        EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"x", {n}}}, {{"y", {4}}}));
                        EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"x", {4}}}, {{"y", {n}}}));
                      }});
  }
  add(checks, "huge_product", [] {
    ModelSpec m{{{"x", 1, {"A", "B", "C"}}}, {{"y", 1, {"A", "B", "C"}}}, {{"Relu", {"x"}, {"y"}}}};
    Graph g(m);
    const uint64_t n = UINT64_C(1) << 22;
    EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_SHAPE, g.set({{"x", {n, n, n}}}, {{"y", {n, n, n}}}));
  });
  add(checks, "rank_17", [] {
    Graph g(relu_model());
    const std::vector<uint64_t> ones(17, 1);
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"x", ones}}, {{"y", {4}}}));
  });
}

}  // namespace

void add_shape_checks(Checks& checks) {
  large_numbers(checks);
  add(checks, "symbols_that_must_agree", [] {
    Graph g(add_of("N", "M", "K"));
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"a", {3}}, {"b", {4}}}, {{"y", {4}}}));
    EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, g.run_status());
    EXPECT_OK(g.set({{"a", {4}}, {"b", {4}}}, {{"y", {4}}}));
    EXPECT(g.result() == std::vector<float>(4, 4));
    EXPECT_OK(g.set({{"a", {4}}, {"b", {1}}}, {{"y", {4}}}));
    EXPECT(g.result() == std::vector<float>(4, 4));
  });
  add(checks, "inner_dimensions_that_must_agree", [] {
    ModelSpec m{{{"a", 1, {"M", "K"}}, {"b", 1, {"L", "N"}}}, {{"y", 1, {"M", "N"}}}, {{"MatMul", {"a", "b"}, {"y"}}}};
    Graph g(m);
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"a", {2, 3}}, {"b", {4, 5}}}, {{"y", {2, 5}}}));
    EXPECT_OK(g.set({{"a", {2, 3}}, {"b", {3, 5}}}, {{"y", {2, 5}}}));
    EXPECT(g.result() == std::vector<float>(10, 12));
  });
  add(checks, "output_symbol_of_its_own_too_small", [] {
    Graph g(relu_of("N", "M"));
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"x", {4}}}, {{"y", {3}}}));
    EXPECT_STATUS(ONNXIFI_STATUS_UNIDENTIFIED_NAME, g.run_status());
  });
  add(checks, "output_symbol_of_its_own_is_an_upper_limit", [] {
    Graph g(relu_of("N", "M"));
    EXPECT_OK(g.set({{"x", {4}}}, {{"y", {6}}}));
    EXPECT((g.result() == std::vector<float>{2, 2, 2, 2, 99, 99}));
  });
  add(checks, "concatenated_sizes", [] {
    ModelSpec m{{{"a", 1, {"A"}}, {"b", 1, {"B"}}}, {{"y", 1, {"C"}}}, {{"Concat", {"a", "b"}, {"y"}, {{"axis", 0}}}}};
    Graph g(m);
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"a", {2}}, {"b", {3}}}, {{"y", {4}}}));
    EXPECT_OK(g.set({{"a", {2}}, {"b", {3}}}, {{"y", {5}}}));
    EXPECT(g.result() == std::vector<float>(5, 2));
  });
  add(checks, "zero_in_a_symbolic_dimension", [] {
    Graph g(relu_of("N", "N"));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_SHAPE, g.set({{"x", {0}}}, {{"y", {0}}}));
  });
  add(checks, "many_shapes_in_turn", [] {
    Graph g(add_of("N", "N", "N"));
    for (int round = 0; round < 2; ++round)
      for (uint64_t n = 1; n <= 40; ++n) {
        EXPECT_OK(g.set({{"a", {n}}, {"b", {n}}}, {{"y", {n}}}));
        EXPECT(g.result() == std::vector<float>(n, 4));
      }
  });
  add(checks, "output_without_a_declared_shape", [] {
    ModelSpec m = relu_of("N", "N");
    m.outputs[0].unranked = true;
    Graph g(m);
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, g.set({{"x", {4}}}, {{"y", {2, 2}}}));
    EXPECT_OK(g.set({{"x", {4}}}, {{"y", {4}}}));
    EXPECT(g.result() == std::vector<float>(4, 2));
  });
  add(checks, "input_without_a_declared_shape", [] {
    ModelSpec m = relu_of("N", "M");
    m.inputs[0].unranked = m.outputs[0].unranked = true;
    Graph g(m);
    EXPECT_OK(g.set({{"x", {2, 3}}}, {{"y", {2, 3}}}));
    EXPECT(g.result() == std::vector<float>(6, 2));
    EXPECT_OK(g.set({{"x", {5}}}, {{"y", {5}}}));
    EXPECT(g.result() == std::vector<float>(5, 2));
    EXPECT_STATUS(ONNXIFI_STATUS_UNSUPPORTED_SHAPE,
                  g.set({{"x", std::vector<uint64_t>(17, 1)}}, {{"y", std::vector<uint64_t>(17, 1)}}));
  });
  add(checks, "shape_operator_tells_the_true_size", [] {
    ModelSpec m{
        {{"x", 1, {5}}}, {{"y", 7, {1, "k"}}, {"s", 7, {2}}}, {{"NonZero", {"x"}, {"y"}}, {"Shape", {"y"}, {"s"}}}};
    Device d;
    onnxGraph g = init(d, serialize(m));
    std::vector<float> x{0, 1, 0, 2, 3};
    std::vector<int64_t> y(5, -9), s(2);
    run(d, g, {describe("x", {5}, x)}, {describe("y", {1, 5}, y, 7), describe("s", {2}, s, 7)});
    EXPECT((s == std::vector<int64_t>{1, 3}));
    EXPECT((y == std::vector<int64_t>{1, 3, 4, -9, -9}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "variable_output_fits_exactly", [] {
    std::vector<int64_t> y;
    EXPECT_OK(non_zero(3, y));
    EXPECT((y == std::vector<int64_t>{1, 3, 4, -9, -9}));
  });
  add(checks, "variable_output_has_no_room", [] {
    std::vector<int64_t> y;
    EXPECT_STATUS(ONNXIFI_STATUS_INTERNAL_ERROR, non_zero(2, y));
    EXPECT(y.back() == -9 && y[2] == -9);
  });
  add(checks, "shape_from_an_input", [] {
    ModelSpec m{{{"x", 1, {6}}, {"s", 7, {2}}}, {{"y", 1, {"A", "B"}}}, {{"Reshape", {"x", "s"}, {"y"}}}};
    Device d;
    onnxGraph g = init(d, serialize(m));
    std::vector<float> x{1, 2, 3, 4, 5, 6}, y(6);
    std::vector<int64_t> s{2, 3};
    run(d, g, {describe("x", {6}, x), describe("s", {2}, s, 7)}, {describe("y", {2, 3}, y)});
    EXPECT(x == y);
    s = {3, -1};
    run(d, g, {describe("x", {6}, x), describe("s", {2}, s, 7)}, {describe("y", {3, 2}, y)});
    EXPECT(x == y);
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "default_of_an_input", [] {
    // From IR 4 on an initializer that is listed as an input is its default.
    ModelSpec m = add_model();
    m.initializers = {{{"w", 1, {4}}, raw<float>({10, 20, 30, 40})}};
    Device d;
    onnxGraph g = init(d, serialize(m));
    std::vector<float> x{1, 2, 3, 4}, w{5, 5, 5, 5}, y(4);
    run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
    EXPECT((y == std::vector<float>{11, 22, 33, 44}));
    run(d, g, {describe("x", {4}, x), describe("w", {4}, w)}, {describe("y", {4}, y)});
    EXPECT((y == std::vector<float>{6, 7, 8, 9}));
    run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
    EXPECT((y == std::vector<float>{11, 22, 33, 44}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
}

}  // namespace abi
