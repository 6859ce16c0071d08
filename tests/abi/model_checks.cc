// Compatibility and onnxInitGraph: argument errors, broken bytes, broken models, properties. Both functions answer
// alike.
#include <algorithm>
#include <ctime>

#include "suite.h"

namespace abi {
namespace {

/// Both functions give one of the statuses, and the same one.
void both(const std::string& bytes, const std::vector<onnxStatus>& wanted) {
  Device d;
  const onnxStatus a = api.GetBackendCompatibility(d.id, bytes.size(), bytes.data());
  auto g = reinterpret_cast<onnxGraph>(0x33);
  const onnxStatus b = api.InitGraph(d.backend, nullptr, bytes.size(), bytes.data(), 0, nullptr, &g, 0, nullptr);
  if (std::find(wanted.begin(), wanted.end(), a) == wanted.end()) throw Failure("compatibility gave " + text(a));
  if (a != b) throw Failure("compatibility gave " + text(a) + ", onnxInitGraph " + text(b));
  EXPECT((b == ONNXIFI_STATUS_SUCCESS) == (g != nullptr));
  if (g) EXPECT_OK(api.ReleaseGraph(g));
}

/// Any status but success is fine; a crash or a hang is not.
void survives(const std::string& bytes) {
  Device d;
  const onnxStatus a = api.GetBackendCompatibility(d.id, bytes.size(), bytes.data());
  onnxGraph g = nullptr;
  const onnxStatus b = api.InitGraph(d.backend, nullptr, bytes.size(), bytes.data(), 0, nullptr, &g, 0, nullptr);
  EXPECT(a == b);
  EXPECT((b == ONNXIFI_STATUS_SUCCESS) == (g != nullptr));
  if (!g) return;
  // What came out runs, or says why not.
  std::vector<float> values(3 * 4, 1);
  const std::vector<uint64_t> four{4};
  const onnxTensorDescriptorV1 in[2] = {describe("x", 1, four, values.data()), describe("w", 1, four, &values[4])};
  const auto out = describe("y", 1, four, &values[8]);
  if (api.SetGraphIO(g, 2, in, 1, &out) == ONNXIFI_STATUS_SUCCESS) {
    onnxEvent ready;
    EXPECT_OK(api.InitEvent(d.backend, &ready));
    EXPECT_OK(api.SignalEvent(ready));
    onnxMemoryFenceV1 f = fence(ready), done = fence();
    EXPECT_OK(api.RunGraph(g, &f, &done));
    const onnxStatus s = api.WaitEvent(done.event);
    EXPECT(s == ONNXIFI_STATUS_SUCCESS || s == ONNXIFI_STATUS_INTERNAL_ERROR);
  }
  EXPECT_OK(api.ReleaseGraph(g));
}

struct Broken {
  const char* name;
  ModelSpec model;
  std::vector<onnxStatus> wanted;
};

/// y = c ? Neg(x) : op(x), both bodies reading x of the surrounding graph.
ModelSpec branches(const std::string& op) {
  const ModelSpec yes{{}, {{"p", 1, {4}}}, {{"Neg", {"x"}, {"p"}}}}, no{{}, {{"q", 1, {4}}}, {{op, {"x"}, {"q"}}}};
  ModelSpec m{{{"c", 9, {}}, {"x", 1, {4}}}, {{"y", 1, {4}}}, {{"If", {"c"}, {"y"}}}};
  m.nodes[0].graphs = {{"then_branch", graph_message(yes)}, {"else_branch", graph_message(no)}};
  return m;
}

void add_broken(Checks& checks) {
  const std::vector<onnxStatus> invalid{ONNXIFI_STATUS_INVALID_MODEL};
  const std::vector<onnxStatus> good{ONNXIFI_STATUS_SUCCESS};
  const auto two = [](ModelSpec m, auto change) {
    change(m);
    return m;
  };
  static const std::vector<Broken>* const list = new std::vector<Broken>{
      {"undefined_input", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Add", {"x", "z"}, {"y"}}}}, invalid},
      {"two_producers", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}}, {"Neg", {"x"}, {"y"}}}}, invalid},
      {"cycle",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Add", {"x", "b"}, {"a"}}, {"Relu", {"a"}, {"b"}}, {"Relu", {"b"}, {"y"}}}},
       invalid},
      {"out_of_order", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"a"}, {"y"}}, {"Neg", {"x"}, {"a"}}}}, invalid},
      {"out_of_order_in_a_branch",
       [] {
         ModelSpec m = branches("Relu");
         const ModelSpec late{{}, {{"q", 1, {4}}}, {{"Relu", {"t"}, {"q"}}, {"Neg", {"x"}, {"t"}}}};
         m.nodes[0].graphs[1].second = graph_message(late);
         return m;
       }(),
       invalid},
      {"scan_direction_2",
       [] {
         const ModelSpec body{{{"v", 1, {}}}, {{"r", 1, {}}}, {{"Neg", {"v"}, {"r"}}}};
         ModelSpec m{{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Scan", {"x"}, {"y"}, {{"num_scan_inputs", 1}}}}};
         m.nodes[0].lists = {{"scan_input_directions", {2}}};
         m.nodes[0].graphs = {{"body", graph_message(body)}};
         return m;
       }(),
       invalid},
      {"self_loop", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Add", {"x", "y"}, {"y"}}}}, invalid},
      {"missing_output", {{{"x", 1, {4}}}, {{"q", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"no_outputs", {{{"x", 1, {4}}}, {}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"missing_attribute",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Concat", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_INVALID_MODEL, ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE}},
      {"mistyped_attribute",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Concat", {"x"}, {"y"}, {}, "", {{"axis", {0, 1}}}}}},
       {ONNXIFI_STATUS_INVALID_MODEL, ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE}},
      {"unknown_attribute",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}, {{"slope", 1}}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE}},
      {"attribute_of_another_operator",
       {{{"x", 1, {1, 1, 4}}},
        {{"y", 1, {1, 1, 3}}},
        {{"MaxPool", {"x"}, {"y"}, {{"axis", 1}}, "", {{"kernel_shape", {2}}}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE}},
      {"attribute_of_an_early_version",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}, {}, "", {{"consumed_inputs", {0}}}}}},
       good},
      {"unknown_operator",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Frobnicate", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_OPERATOR}},
      {"unknown_domain",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}, {}, "org.nowhere"}}, {}, 8, 17, "org.nowhere"},
       {ONNXIFI_STATUS_UNSUPPORTED_OPERATOR}},
      {"opset_too_new", two(relu_model(), [](ModelSpec& m) { m.opset = 1000; }), {ONNXIFI_STATUS_UNSUPPORTED_VERSION}},
      {"ir_too_new", two(relu_model(), [](ModelSpec& m) { m.ir = 1000; }), {ONNXIFI_STATUS_UNSUPPORTED_VERSION}},
      {"too_few_inputs", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Add", {"x"}, {"y"}}}}, invalid},
      {"too_many_inputs", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x", "x", "x"}, {"y"}}}}, invalid},
      {"shapes_do_not_broadcast",
       {{{"a", 1, {4}}, {"b", 1, {3}}}, {{"y", 1, {4}}}, {{"Add", {"a", "b"}, {"y"}}}},
       {ONNXIFI_STATUS_INVALID_MODEL, ONNXIFI_STATUS_MISMATCHING_SHAPE}},
      {"declared_shape_differs",
       {{{"x", 1, {4}}}, {{"y", 1, {5}}}, {{"Relu", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_MISMATCHING_SHAPE, ONNXIFI_STATUS_INVALID_MODEL}},
      {"declared_type_differs",
       {{{"x", 1, {4}}}, {{"y", 7, {4}}}, {{"Relu", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_MISMATCHING_DATATYPE}},
      {"duplicate_input", {{{"x", 1, {4}}, {"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"duplicate_output", {{{"x", 1, {4}}}, {{"y", 1, {4}}, {"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"unnamed_output", {{{"x", 1, {4}}}, {{"", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"unnamed_input", {{{"", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"no_operator", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"", {"x"}, {"y"}}}}, invalid},
      {"opset_0", two(relu_model(), [](ModelSpec& m) { m.opset = 0; }), invalid},
      {"ir_0", two(relu_model(), [](ModelSpec& m) { m.ir = 0; }), invalid},
      {"operator_of_a_later_opset",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Mish", {"x"}, {"y"}}}}, [](ModelSpec& m) { m.opset = 17; }),
       {ONNXIFI_STATUS_UNSUPPORTED_OPERATOR}},
      {"unknown_operator_after_a_good_one",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"a"}}, {"Frobnicate", {"a"}, {"y"}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_OPERATOR}},
      {"unknown_operator_in_a_function",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Mine", {"x"}, {"y"}, {}, "org.mine"}}},
           [](ModelSpec& m) {
             m.domain = "org.mine";
             m.functions = {function_message("org.mine", "Mine", {"a"}, {"b"}, {{"Frobnicate", {"a"}, {"b"}}})};
           }),
       {ONNXIFI_STATUS_UNSUPPORTED_OPERATOR}},
      {"unknown_operator_in_a_branch", branches("Frobnicate"), {ONNXIFI_STATUS_UNSUPPORTED_OPERATOR}},
      {"undefined_input_type", {{{"x", 0, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"unknown_input_type",
       {{{"x", 99, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_DATATYPE}},
      {"unknown_output_type",
       {{{"x", 1, {4}}}, {{"y", 99, {4}}}, {{"Relu", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_DATATYPE, ONNXIFI_STATUS_MISMATCHING_DATATYPE}},
      // No descriptor can carry strings.
      {"string_input",
       {{{"x", 8, {4}}}, {{"y", 8, {4}}}, {{"Identity", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_DATATYPE}},
      {"string_output",
       {{{"x", 1, {4}}}, {{"y", 8, {4}}}, {{"Cast", {"x"}, {"y"}, {{"to", 8}}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_DATATYPE}},
      {"sequence_output",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"SequenceConstruct", {"x"}, {"y"}}}}, [](ModelSpec&) {}),
       {ONNXIFI_STATUS_UNSUPPORTED_DATATYPE, ONNXIFI_STATUS_MISMATCHING_DATATYPE}},
      {"rank_17",
       {{{"x", 1, std::vector<Dim>(17, 1)}}, {{"y", 1, std::vector<Dim>(17, 1)}}, {{"Relu", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_UNSUPPORTED_SHAPE}},
      {"intermediate_shape_differs",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"a"}}, {"Neg", {"a"}, {"y"}}}},
           [](ModelSpec& m) {
             m.infos = {{"a", 1, {5}}};
           }),
       {ONNXIFI_STATUS_MISMATCHING_SHAPE}},
      {"intermediate_rank_differs",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"a"}}, {"Neg", {"a"}, {"y"}}}},
           [](ModelSpec& m) {
             m.infos = {{"a", 1, {2, 2}}};
           }),
       {ONNXIFI_STATUS_MISMATCHING_SHAPE}},
      {"intermediate_type_differs",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"a"}}, {"Neg", {"a"}, {"y"}}}},
           [](ModelSpec& m) {
             m.infos = {{"a", 7, {4}}};
           }),
       {ONNXIFI_STATUS_MISMATCHING_DATATYPE}},
      {"declared_rank_differs",
       {{{"x", 1, {4}}}, {{"y", 1, {2, 2}}}, {{"Relu", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_MISMATCHING_SHAPE}},
      {"inputs_of_two_types",
       {{{"a", 1, {4}}, {"b", 7, {4}}}, {{"y", 1, {4}}}, {{"Add", {"a", "b"}, {"y"}}}},
       {ONNXIFI_STATUS_INVALID_MODEL, ONNXIFI_STATUS_UNSUPPORTED_DATATYPE, ONNXIFI_STATUS_MISMATCHING_DATATYPE}},
      // What the reader must take.
      {"good/intermediate_declared",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Relu", {"x"}, {"a"}}, {"Neg", {"a"}, {"y"}}}},
           [](ModelSpec& m) {
             m.infos = {{"a", 1, {4}}};
           }),
       good},
      {"good/function",
       two({{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Mine", {"x"}, {"y"}, {}, "org.mine"}}},
           [](ModelSpec& m) {
             m.domain = "org.mine";
             m.functions = {function_message("org.mine", "Mine", {"a"}, {"b"}, {{"Relu", {"a"}, {"b"}}})};
           }),
       good},
      {"good/branches", branches("Relu"), good},
      {"good/identity_of_an_input", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Identity", {"x"}, {"y"}}}}, good},
      {"good/output_is_an_input", {{{"x", 1, {4}}}, {{"x", 1, {4}}}, {}}, good},
      // The weights of a query lie in inputs without values.
      {"good/conv_without_values",
       {{{"x", 1, {1, 3, 8, 8}}, {"w", 1, {4, 3, 3, 3}}, {"b", 1, {4}}},
        {{"y", 1, {1, 4, 6, 6}}},
        {{"Conv", {"x", "w", "b"}, {"y"}}}},
       good},
      {"good/gemm_without_values",
       {{{"x", 1, {1, 8}}, {"w", 1, {8, 3}}, {"b", 1, {3}}}, {{"y", 1, {1, 3}}}, {{"Gemm", {"x", "w", "b"}, {"y"}}}},
       good},
      {"good/reshape_without_values",
       {{{"x", 1, {2, 3}}, {"s", 7, {1}}}, {{"y", 1, {6}}}, {{"Reshape", {"x", "s"}, {"y"}}}},
       good},
      {"good/slice_without_values",
       {{{"x", 1, {9}}, {"b", 7, {1}}, {"e", 7, {1}}}, {{"y", 1, {"n"}}}, {{"Slice", {"x", "b", "e"}, {"y"}}}},
       good},
      {"good/quantize_without_values",
       {{{"x", 1, {4}}, {"s", 1, {}}, {"z", 2, {}}}, {{"y", 2, {4}}}, {{"QuantizeLinear", {"x", "s", "z"}, {"y"}}}},
       good},
      {"good/dequantize_without_values",
       {{{"x", 2, {4}}, {"s", 1, {}}, {"z", 2, {}}}, {{"y", 1, {4}}}, {{"DequantizeLinear", {"x", "s", "z"}, {"y"}}}},
       good},
      {"good/qlinear_matmul_without_values",
       {{{"a", 2, {2, 4}},
         {"as", 1, {}},
         {"az", 2, {}},
         {"b", 2, {4, 3}},
         {"bs", 1, {}},
         {"bz", 2, {}},
         {"ys", 1, {}},
         {"yz", 2, {}}},
        {{"y", 2, {2, 3}}},
        {{"QLinearMatMul", {"a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {"y"}}}},
       good},
  };
  for (const Broken& b : *list)
    checks.push_back({std::string("model/") + b.name, [&b] { both(serialize(b.model), b.wanted); }});
}

const std::string& relu_bytes() {
  static const auto* const model = new std::string(serialize(relu_model()));
  return *model;
}

void add_argument_check(Checks& checks, const char* name, std::function<void(Device&)> f) {
  checks.push_back({std::string("arguments/") + name, [f] {
                      Device d;
                      f(d);
                    }});
}

void graph_null(onnxStatus want, onnxStatus got, onnxGraph g) {
  EXPECT(got == want);
  EXPECT(g == nullptr);
}

void add_argument_errors(Checks& checks) {
  const auto add = [&](const char* name, auto f) { add_argument_check(checks, name, f); };
  add("compatibility_wild_id", [](Device&) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.GetBackendCompatibility(reinterpret_cast<onnxBackendID>(7),
                                                                         relu_bytes().size(), relu_bytes().data()));
  });
  add("compatibility_null_model",
      [](Device& d) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetBackendCompatibility(d.id, 10, nullptr)); });
  add("compatibility_size_0", [](Device& d) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_SIZE, api.GetBackendCompatibility(d.id, 0, relu_bytes().data()));
  });
  add("init_null_graph", [](Device& d) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.InitGraph(d.backend, nullptr, relu_bytes().size(),
                                                                relu_bytes().data(), 0, nullptr, nullptr, 0, nullptr));
  });
  add("init_wild_backend", [](Device&) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(reinterpret_cast<onnxBackend>(5), nullptr, relu_bytes().size(),
                                       relu_bytes().data(), 0, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_BACKEND, s, g);
  });
  add("init_null_model", [](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(d.backend, nullptr, 10, nullptr, 0, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_POINTER, s, g);
  });
  add("init_size_0", [](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(d.backend, nullptr, 0, relu_bytes().data(), 0, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_SIZE, s, g);
  });
  add("init_null_weights", [](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s =
        api.InitGraph(d.backend, nullptr, relu_bytes().size(), relu_bytes().data(), 1, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_POINTER, s, g);
  });
  add("init_garbage_sequence_length_and_reader", [](Device& d) {
    onnxGraph g;
    EXPECT_OK(api.InitGraph(d.backend, nullptr, relu_bytes().size(), relu_bytes().data(), 0, nullptr, &g, 0xDEADBEEF,
                            reinterpret_cast<void*>(0x1357)));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add("init_no_weights_with_pointer", [](Device& d) {
    onnxGraph g;
    const onnxTensorDescriptorV1 garbage{};
    EXPECT_OK(api.InitGraph(d.backend, nullptr, relu_bytes().size(), relu_bytes().data(), 0, &garbage, &g, 0, nullptr));
    EXPECT_OK(api.ReleaseGraph(g));
  });
}

void add_argument_order(Checks& checks) {
  const auto add = [&](const char* name, auto f) { add_argument_check(checks, name, f); };
  add("order/backend_before_model", [](Device&) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(nullptr, nullptr, 0, nullptr, 1, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_BACKEND, s, g);
  });
  add("order/pointers_before_size", [](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(d.backend, nullptr, 0, nullptr, 0, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_POINTER, s, g);
  });
  add("order/size_before_properties", [](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const uint64_t properties[3] = {99, 1, 0};
    const onnxStatus s = api.InitGraph(d.backend, properties, 0, relu_bytes().data(), 0, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_SIZE, s, g);
  });
  add("order/properties_before_descriptors", [](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const uint64_t properties[3] = {99, 1, 0};
    const onnxTensorDescriptorV1 bad{};
    const onnxStatus s =
        api.InitGraph(d.backend, properties, relu_bytes().size(), relu_bytes().data(), 1, &bad, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_UNSUPPORTED_PROPERTY, s, g);
  });
  add("order/descriptors_before_model", [](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxTensorDescriptorV1 bad{};
    const onnxStatus s = api.InitGraph(d.backend, nullptr, 4, "\xff\xff\xff\xff", 1, &bad, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_UNSUPPORTED_TAG, s, g);
  });
}

void add_release_errors(Checks& checks) {
  const auto add = [&](const char* name, auto f) { add_argument_check(checks, name, f); };
  add("compatibility_of_a_released_id", [](Device&) {
    onnxBackendID ids[64];
    size_t n = 64;
    EXPECT_OK(api.GetBackendIDs(ids, &n));
    for (size_t i = 0; i < n; ++i) EXPECT_OK(api.ReleaseBackendID(ids[i]));
    EXPECT_OK(
        api.GetBackendCompatibility(ids[0], relu_bytes().size(), relu_bytes().data()));  // the fixture's reference
  });
  add("1000_queries_take_less_than_a_second", [](Device& d) {
    const std::clock_t begin = std::clock();  // of the processor: others may have the machine
    for (int i = 0; i < 1000; ++i)
      EXPECT_OK(api.GetBackendCompatibility(d.id, relu_bytes().size(), relu_bytes().data()));
    EXPECT(std::clock() - begin < CLOCKS_PER_SEC * (kSanitized ? 20 : 1));
  });
  add("release_graph_null", [](Device&) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.ReleaseGraph(nullptr)); });
  add("release_graph_twice", [](Device& d) {
    onnxGraph g = init(d, relu_bytes());
    EXPECT_OK(api.ReleaseGraph(g));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.ReleaseGraph(g));
  });
  add("release_backend_as_graph",
      [](Device& d) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.ReleaseGraph(d.backend)); });
  add("release_graph_as_backend", [](Device& d) {
    onnxGraph g = init(d, relu_bytes());
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_BACKEND, api.ReleaseBackend(g));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add("init_backend_null_result",
      [](Device& d) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.InitBackend(d.id, nullptr, nullptr)); });
  add("init_backend_wild_id", [](Device&) {
    auto b = reinterpret_cast<onnxBackend>(1);
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID, api.InitBackend(reinterpret_cast<onnxBackendID>(0x44), nullptr, &b));
    EXPECT(b == nullptr);
  });
  add("release_backend_twice", [](Device& d) {
    onnxBackend b;
    EXPECT_OK(api.InitBackend(d.id, nullptr, &b));
    EXPECT_OK(api.ReleaseBackend(b));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_BACKEND, api.ReleaseBackend(b));
  });
}

struct Property {
  const char* name;
  std::vector<uint64_t> list;
  onnxStatus wanted;
};

void properties(Checks& checks) {
  static const std::vector<Property>* const backend =
      new std::vector<Property>{{"empty", {0}, ONNXIFI_STATUS_SUCCESS},
                                {"throughput", {1, 0, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"latency", {1, 1, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"low_power", {1, 2, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"low_delay", {1, 3, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"aot", {1, 4, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"optimization_bad", {1, 5, 0}, ONNXIFI_STATUS_INVALID_PROPERTY},
                                {"log_error", {2, 4, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"log_debug", {2, 1, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"log_bad_0", {2, 0, 0}, ONNXIFI_STATUS_INVALID_PROPERTY},
                                {"log_bad_5", {2, 5, 0}, ONNXIFI_STATUS_INVALID_PROPERTY},
                                {"two", {1, 1, 2, 3, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"second_bad", {1, 1, 2, 9, 0}, ONNXIFI_STATUS_INVALID_PROPERTY},
                                {"cuda", {4, 1, 0}, ONNXIFI_STATUS_UNSUPPORTED_PROPERTY},
                                {"opencl", {8, 1, 0}, ONNXIFI_STATUS_UNSUPPORTED_PROPERTY},
                                {"unknown", {3, 1, 0}, ONNXIFI_STATUS_UNSUPPORTED_PROPERTY},
                                {"unknown_high", {UINT64_C(1) << 40, 1, 0}, ONNXIFI_STATUS_UNSUPPORTED_PROPERTY}};
  static const std::vector<Property>* const graph =
      new std::vector<Property>{{"empty", {0}, ONNXIFI_STATUS_SUCCESS},
                                {"instrument_off", {1, 0, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"instrument_on", {1, 1, 0}, ONNXIFI_STATUS_SUCCESS},
                                {"instrument_bad", {1, 2, 0}, ONNXIFI_STATUS_INVALID_PROPERTY},
                                {"unknown", {99, 1, 0}, ONNXIFI_STATUS_UNSUPPORTED_PROPERTY}};
  for (const Property& p : *backend)
    checks.push_back({std::string("backend_property/") + p.name, [&p] {
                        Device d;
                        auto b = reinterpret_cast<onnxBackend>(1);
                        EXPECT(api.InitBackend(d.id, p.list.data(), &b) == p.wanted);
                        EXPECT((b != nullptr) == (p.wanted == ONNXIFI_STATUS_SUCCESS));
                        if (b) EXPECT_OK(api.ReleaseBackend(b));
                      }});
  for (const Property& p : *graph)
    checks.push_back(
        {std::string("graph_property/") + p.name, [&p] {
           Device d;
           const std::string m = serialize(relu_model());
           auto g = reinterpret_cast<onnxGraph>(1);
           EXPECT(api.InitGraph(d.backend, p.list.data(), m.size(), m.data(), 0, nullptr, &g, 0, nullptr) == p.wanted);
           EXPECT((g != nullptr) == (p.wanted == ONNXIFI_STATUS_SUCCESS));
           if (g) EXPECT_OK(api.ReleaseGraph(g));
         }});
}

}  // namespace

void add_model_checks(Checks& checks) {
  add_argument_errors(checks);
  add_argument_order(checks);
  add_release_errors(checks);
  properties(checks);
  add_broken(checks);
  checks.push_back({"bytes/garbage", [] { both(std::string(200, '\xff'), {ONNXIFI_STATUS_INVALID_PROTOBUF}); }});
  checks.push_back({"bytes/text", [] {
                      both("This is no model at all, only a line of text.\n",
                           {ONNXIFI_STATUS_INVALID_PROTOBUF, ONNXIFI_STATUS_INVALID_MODEL});
                    }});
  checks.push_back({"bytes/one_zero", [] {
                      both(std::string(1, '\0'), {ONNXIFI_STATUS_INVALID_PROTOBUF, ONNXIFI_STATUS_INVALID_MODEL});
                    }});
  checks.push_back(
      {"bytes/empty_message_field", [] { both(Message().bytes(7, "").str(), {ONNXIFI_STATUS_INVALID_MODEL}); }});
  const std::string model = serialize(add_model());
  const size_t parts = 16;
  for (size_t p = 0; p < parts; ++p)
    checks.push_back({"bytes/truncated/" + std::to_string(p), [model, p] {
                        for (size_t n = 1 + p; n < model.size(); n += parts) survives(model.substr(0, n));
                      }});
  for (size_t p = 0; p < parts; ++p)
    checks.push_back({"bytes/flipped/" + std::to_string(p), [model, p] {
                        for (size_t i = p; i < model.size(); i += parts)
                          for (int bit = 0; bit < 8; ++bit) {
                            std::string m = model;
                            m[i] = static_cast<char>(m[i] ^ (1 << bit));
                            survives(m);
                          }
                      }});
  for (size_t offset = 1; offset < 8; ++offset)
    checks.push_back({"bytes/unaligned/" + std::to_string(offset), [offset] {
                        Device d;
                        ModelSpec m = add_model();
                        m.initializers = {{{"w", 1, {4}}, raw<float>({1, 2, 3, 4})}};
                        const std::string shifted = std::string(offset, 'x') + serialize(m);
                        onnxGraph g;
                        EXPECT_OK(api.InitGraph(d.backend, nullptr, shifted.size() - offset, shifted.data() + offset, 0,
                                                nullptr, &g, 0, nullptr));
                        std::vector<float> x{1, 1, 1, 1}, y(4);
                        run(d, g, {describe("x", {4}, x)}, {describe("y", {4}, y)});
                        EXPECT((y == std::vector<float>{2, 3, 4, 5}));
                        EXPECT_OK(api.ReleaseGraph(g));
                      }});
}

}  // namespace abi
