// Compatibility and onnxInitGraph: argument errors, broken bytes, broken models, properties. Both functions answer
// alike.
#include <algorithm>

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
  if (g) EXPECT_OK(api.ReleaseGraph(g));
}

struct Broken {
  const char* name;
  ModelSpec model;
  std::vector<onnxStatus> wanted;
};

void add_broken(Checks& checks) {
  const std::vector<onnxStatus> invalid{ONNXIFI_STATUS_INVALID_MODEL};
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
      {"self_loop", {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Add", {"x", "y"}, {"y"}}}}, invalid},
      {"missing_output", {{{"x", 1, {4}}}, {{"q", 1, {4}}}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"no_outputs", {{{"x", 1, {4}}}, {}, {{"Relu", {"x"}, {"y"}}}}, invalid},
      {"missing_attribute",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Concat", {"x"}, {"y"}}}},
       {ONNXIFI_STATUS_INVALID_MODEL, ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE}},
      {"mistyped_attribute",
       {{{"x", 1, {4}}}, {{"y", 1, {4}}}, {{"Concat", {"x"}, {"y"}, {}, "", {{"axis", {0, 1}}}}}},
       {ONNXIFI_STATUS_INVALID_MODEL, ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE}},
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
  };
  for (const Broken& b : *list)
    checks.push_back({std::string("model/") + b.name, [&b] { both(serialize(b.model), b.wanted); }});
}

void argument_errors(Checks& checks) {
  static const std::string* const model = new std::string(serialize(relu_model()));
  const auto add = [&](const char* name, std::function<void(Device&)> f) {
    checks.push_back({std::string("arguments/") + name, [f] {
                        Device d;
                        f(d);
                      }});
  };
  add("compatibility_wild_id", [](Device&) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_ID,
                  api.GetBackendCompatibility(reinterpret_cast<onnxBackendID>(7), model->size(), model->data()));
  });
  add("compatibility_null_model",
      [](Device& d) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER, api.GetBackendCompatibility(d.id, 10, nullptr)); });
  add("compatibility_size_0", [](Device& d) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_SIZE, api.GetBackendCompatibility(d.id, 0, model->data()));
  });
  add("init_null_graph", [](Device& d) {
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_POINTER,
                  api.InitGraph(d.backend, nullptr, model->size(), model->data(), 0, nullptr, nullptr, 0, nullptr));
  });
  const auto graph_null = [](onnxStatus want, onnxStatus got, onnxGraph g) {
    EXPECT(got == want);
    EXPECT(g == nullptr);
  };
  add("init_wild_backend", [=](Device&) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(reinterpret_cast<onnxBackend>(5), nullptr, model->size(), model->data(), 0,
                                       nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_BACKEND, s, g);
  });
  add("init_null_model", [=](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(d.backend, nullptr, 10, nullptr, 0, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_POINTER, s, g);
  });
  add("init_size_0", [=](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(d.backend, nullptr, 0, model->data(), 0, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_SIZE, s, g);
  });
  add("init_null_weights", [=](Device& d) {
    auto g = reinterpret_cast<onnxGraph>(3);
    const onnxStatus s = api.InitGraph(d.backend, nullptr, model->size(), model->data(), 1, nullptr, &g, 0, nullptr);
    graph_null(ONNXIFI_STATUS_INVALID_POINTER, s, g);
  });
  add("init_garbage_sequence_length_and_reader", [](Device& d) {
    onnxGraph g;
    EXPECT_OK(api.InitGraph(d.backend, nullptr, model->size(), model->data(), 0, nullptr, &g, 0xDEADBEEF,
                            reinterpret_cast<void*>(0x1357)));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add("init_no_weights_with_pointer", [](Device& d) {
    onnxGraph g;
    const onnxTensorDescriptorV1 garbage{};
    EXPECT_OK(api.InitGraph(d.backend, nullptr, model->size(), model->data(), 0, &garbage, &g, 0, nullptr));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add("release_graph_null", [](Device&) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.ReleaseGraph(nullptr)); });
  add("release_graph_twice", [](Device& d) {
    onnxGraph g = init(d, *model);
    EXPECT_OK(api.ReleaseGraph(g));
    EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.ReleaseGraph(g));
  });
  add("release_backend_as_graph",
      [](Device& d) { EXPECT_STATUS(ONNXIFI_STATUS_INVALID_GRAPH, api.ReleaseGraph(d.backend)); });
  add("release_graph_as_backend", [](Device& d) {
    onnxGraph g = init(d, *model);
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
  argument_errors(checks);
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
  const size_t pieces = 16;
  for (size_t p = 0; p < pieces; ++p)
    checks.push_back({"bytes/truncated/" + std::to_string(p), [model, p] {
                        for (size_t n = 1 + p; n < model.size(); n += pieces) survives(model.substr(0, n));
                      }});
  for (size_t p = 0; p < pieces; ++p)
    checks.push_back({"bytes/flipped/" + std::to_string(p), [model, p] {
                        for (size_t i = p; i < model.size(); i += pieces)
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
