// Weights through descriptors.
#include <cstring>

#include "suite.h"

namespace abi {
namespace {

struct Fixture {
  Device d;
  std::string model = serialize(add_model());
  std::vector<float> w{10, 20, 30, 40}, x{1, 2, 3, 4}, y = std::vector<float>(4);
  std::vector<uint64_t> shape{4};

  onnxTensorDescriptorV1 weight() { return describe("w", 1, shape, w.data()); }
  void refused(onnxStatus want, std::vector<onnxTensorDescriptorV1> weights, void* reader = nullptr) {
    auto g = reinterpret_cast<onnxGraph>(1);
    const onnxStatus s = api.InitGraph(d.backend, nullptr, model.size(), model.data(),
                                       static_cast<uint32_t>(weights.size()), weights.data(), &g, 0, reader);
    if (s != want) throw Failure("gave " + text(s) + ", expected " + text(want));
    EXPECT(g == nullptr);
  }
  void works(std::vector<onnxTensorDescriptorV1> weights) {
    onnxGraph g = init(d, model, weights);
    std::vector<float> in = x;
    run(d, g, {describe("x", 1, shape, in.data())}, {describe("y", 1, shape, y.data())});
    EXPECT((y == std::vector<float>{11, 22, 33, 44}));
    EXPECT_OK(api.ReleaseGraph(g));
  }
};

void add(Checks& checks, const std::string& name, std::function<void(Fixture&)> f) {
  checks.push_back({"weights/" + name, [f] {
                      Fixture fixture;
                      f(fixture);
                    }});
}

}  // namespace

void add_weight_checks(Checks& checks) {
  add(checks, "as_input", [](Fixture& f) { f.works({f.weight()}); });
  add(checks, "not_listed_as_input", [](Fixture& f) {
    ModelSpec m = add_model();
    m.inputs.pop_back();
    f.model = serialize(m);
    f.works({f.weight()});
  });
  add(checks, "memory_may_be_reused_after_init", [](Fixture& f) {
    onnxGraph g = init(f.d, f.model, {f.weight()});
    f.w.assign(4, -1);
    f.model.assign(f.model.size(), '\0');
    run(f.d, g, {describe("x", {4}, f.x)}, {describe("y", {4}, f.y)});
    EXPECT((f.y == std::vector<float>{11, 22, 33, 44}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "partial_list_leaves_the_rest_to_run_time", [](Fixture& f) {
    ModelSpec m{{{"x", 1, {4}}, {"w", 1, {4}}, {"v", 1, {4}}},
                {{"y", 1, {4}}},
                {{"Add", {"x", "w"}, {"t"}}, {"Mul", {"t", "v"}, {"y"}}}};
    f.model = serialize(m);
    onnxGraph g = init(f.d, f.model, {f.weight()});
    std::vector<float> v{2, 2, 2, 2};
    run(f.d, g, {describe("v", {4}, v), describe("x", {4}, f.x)}, {describe("y", {4}, f.y)});
    EXPECT((f.y == std::vector<float>{22, 44, 66, 88}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "static_weights_need_no_location", [](Fixture& f) { f.works({f.weight()}); });
  add(checks, "any_order", [](Fixture& f) {
    ModelSpec m{{{"x", 1, {4}}, {"w", 1, {4}}, {"v", 1, {4}}},
                {{"y", 1, {4}}},
                {{"Add", {"x", "w"}, {"t"}}, {"Sub", {"t", "v"}, {"y"}}}};
    f.model = serialize(m);
    std::vector<float> zero(4);
    f.works({describe("v", 1, f.shape, zero.data()), f.weight()});
  });
  add(checks, "unaligned", [](Fixture& f) {
    std::vector<char> bytes(17);
    std::memcpy(bytes.data() + 1, f.w.data(), 16);
    f.works({describe("w", 1, f.shape, bytes.data() + 1)});
  });
  add(checks, "scalar_with_null_shape", [](Fixture& f) {
    ModelSpec m{{{"x", 1, {4}}, {"w", 1, {}}}, {{"y", 1, {4}}}, {{"Add", {"x", "w"}, {"y"}}}};
    f.model = serialize(m);
    onnxGraph g = init(f.d, f.model, {describe("w", 1, {}, f.w.data())});
    run(f.d, g, {describe("x", {4}, f.x)}, {describe("y", {4}, f.y)});
    EXPECT((f.y == std::vector<float>{11, 12, 13, 14}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "garbage_quantization_pointers_without_parameters", [](Fixture& f) { f.works({f.weight()}); });
  add(checks, "quantization_per_tensor_with_axis_1", [](Fixture& f) {
    static const float scale = 0.5f;
    static const int32_t bias = 3;
    auto w = f.weight();
    w.quantizationAxis = 1;
    w.quantizationParams = 1;
    w.scales = &scale;
    w.biases = &bias;
    f.works({w});
  });
  add(checks, "quantization_per_channel", [](Fixture& f) {
    static const float scales[4] = {1, 1, 1, 1};
    static const int32_t biases[4] = {};
    auto w = f.weight();
    w.quantizationAxis = 0;
    w.quantizationParams = 4;
    w.scales = scales;
    w.biases = biases;
    f.works({w});
  });
  add(checks, "quantization_null_scales", [](Fixture& f) {
    auto w = f.weight();
    w.quantizationAxis = 0;
    w.quantizationParams = 4;
    w.scales = nullptr;
    f.refused(ONNXIFI_STATUS_INVALID_POINTER, {w});
  });
  add(checks, "quantization_too_many", [](Fixture& f) {
    static const float scales[9] = {};
    static const int32_t biases[9] = {};
    auto w = f.weight();
    w.quantizationAxis = 0;
    w.quantizationParams = 5;
    w.scales = scales;
    w.biases = biases;
    f.refused(ONNXIFI_STATUS_INVALID_SHAPE, {w});
    w.quantizationParams = 4;
    w.quantizationAxis = 1;
    f.refused(ONNXIFI_STATUS_INVALID_SHAPE, {w});
  });
  add(checks, "bad_tag", [](Fixture& f) {
    auto w = f.weight();
    w.tag = 1;
    w.name = reinterpret_cast<const char*>(0x3);  // not read
    f.refused(ONNXIFI_STATUS_UNSUPPORTED_TAG, {w});
  });
  add(checks, "unknown_name",
      [](Fixture& f) { f.refused(ONNXIFI_STATUS_INVALID_NAME, {describe("nobody", 1, f.shape, f.w.data())}); });
  add(checks, "null_name",
      [](Fixture& f) { f.refused(ONNXIFI_STATUS_INVALID_NAME, {describe(nullptr, 1, f.shape, f.w.data())}); });
  add(checks, "given_twice", [](Fixture& f) { f.refused(ONNXIFI_STATUS_INVALID_NAME, {f.weight(), f.weight()}); });
  add(checks, "beside_initializers", [](Fixture& f) {
    ModelSpec m = add_model();
    m.initializers = {{{"w", 1, {4}}, raw(f.w)}};
    f.model = serialize(m);
    f.refused(ONNXIFI_STATUS_INVALID_MODEL, {f.weight()});
  });
  add(checks, "wrong_shape", [](Fixture& f) {
    f.shape = {2, 2};
    f.refused(ONNXIFI_STATUS_MISMATCHING_SHAPE, {f.weight()});
  });
  add(checks, "wrong_extent", [](Fixture& f) {
    f.shape = {3};
    f.refused(ONNXIFI_STATUS_MISMATCHING_SHAPE, {f.weight()});
  });
  add(checks, "wrong_type",
      [](Fixture& f) { f.refused(ONNXIFI_STATUS_MISMATCHING_DATATYPE, {describe("w", 6, f.shape, f.w.data())}); });
  add(checks, "zero_dimension", [](Fixture& f) {
    f.shape = {0};
    f.refused(ONNXIFI_STATUS_INVALID_SHAPE, {f.weight()});
  });
  add(checks, "null_shape", [](Fixture& f) {
    auto w = f.weight();
    w.shape = nullptr;
    f.refused(ONNXIFI_STATUS_INVALID_POINTER, {w});
  });
  add(checks, "null_buffer",
      [](Fixture& f) { f.refused(ONNXIFI_STATUS_INVALID_MEMORY_LOCATION, {describe("w", 1, f.shape, nullptr)}); });
  add(checks, "offline_without_reader", [](Fixture& f) {
    auto w = f.weight();
    w.isOffline = 1;
    f.refused(ONNXIFI_STATUS_INVALID_MEMORY_LOCATION, {w});
  });
  add(checks, "offline_with_reader_is_refused", [](Fixture& f) {
    auto w = f.weight();
    w.isOffline = 1;
    f.refused(ONNXIFI_STATUS_INVALID_MEMORY_LOCATION, {w}, reinterpret_cast<void*>(0x1));
  });
  for (const int ir : {3, 8}) {
    const std::string suffix = "/ir_" + std::to_string(ir);
    const auto model = [ir](Fixture& f, ModelSpec m) {
      m.ir = ir;
      f.model = serialize(m);
    };
    add(checks, "listed" + suffix, [=](Fixture& f) {
      model(f, add_model());
      f.works({f.weight()});
    });
    add(checks, "a_location_for_a_static_weight_is_not_read" + suffix, [=](Fixture& f) {
      model(f, add_model());
      onnxGraph g = init(f.d, f.model, {f.weight()});
      std::vector<float> other(4, -1);
      run(f.d, g, {describe("x", {4}, f.x), describe("w", {4}, other)}, {describe("y", {4}, f.y)});
      EXPECT((f.y == std::vector<float>{11, 22, 33, 44}));
      const std::vector<uint64_t> five{5};
      const onnxTensorDescriptorV1 in[2] = {describe("x", 1, f.shape, f.x.data()), describe("w", 1, five, &other)};
      const auto out = describe("y", 1, f.shape, f.y.data());
      EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, api.SetGraphIO(g, 2, in, 1, &out));
      EXPECT_OK(api.ReleaseGraph(g));
    });
    add(checks, "initializer_needs_no_location" + suffix, [=](Fixture& f) {
      ModelSpec m = add_model();
      m.initializers = {{{"w", 1, {4}}, raw(f.w)}};
      model(f, m);
      f.works({});
    });
    add(checks, "read_by_a_body_only" + suffix, [=](Fixture& f) {
      const ModelSpec yes{{}, {{"p", 1, {4}}}, {{"Add", {"x", "w"}, {"p"}}}},
          no{{}, {{"q", 1, {4}}}, {{"Neg", {"w"}, {"q"}}}};
      ModelSpec m{{{"c", 9, {}}, {"x", 1, {4}}}, {{"y", 1, {4}}}, {{"If", {"c"}, {"y"}}}};
      m.nodes[0].graphs = {{"then_branch", graph_message(yes)}, {"else_branch", graph_message(no)}};
      model(f, m);
      onnxGraph g = init(f.d, f.model, {f.weight()});
      std::vector<uint8_t> c{1};
      run(f.d, g, {describe("c", 9, {}, c.data()), describe("x", {4}, f.x)}, {describe("y", {4}, f.y)});
      EXPECT((f.y == std::vector<float>{11, 22, 33, 44}));
      c[0] = 0;
      run(f.d, g);
      EXPECT((f.y == std::vector<float>{-10, -20, -30, -40}));
      EXPECT_OK(api.ReleaseGraph(g));
    });
  }
  add(checks, "binds_a_symbol", [](Fixture& f) {
    ModelSpec m{{{"x", 1, {"N"}}, {"w", 1, {"N"}}}, {{"y", 1, {"N"}}}, {{"Add", {"x", "w"}, {"y"}}}};
    f.model = serialize(m);
    onnxGraph g = init(f.d, f.model, {f.weight()});
    std::vector<float> x(5), y(5);
    const std::vector<uint64_t> five{5}, four{4}, one{1};
    const auto set = [&](const std::vector<uint64_t>& in, const std::vector<uint64_t>& out) {
      const auto a = describe("x", 1, in, x.data()), b = describe("y", 1, out, y.data());
      return api.SetGraphIO(g, 1, &a, 1, &b);
    };
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, set(five, five));
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, set(one, four));
    EXPECT_STATUS(ONNXIFI_STATUS_MISMATCHING_SHAPE, set(four, five));
    EXPECT_OK(set(four, four));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  add(checks, "two_weights_one_symbol", [](Fixture& f) {
    ModelSpec m{{{"x", 1, {4}}, {"w", 1, {"N"}}, {"v", 1, {"N"}}},
                {{"y", 1, {4}}},
                {{"Add", {"x", "w"}, {"t"}}, {"Add", {"t", "v"}, {"y"}}}};
    f.model = serialize(m);
    const std::vector<uint64_t> one{1};
    f.refused(ONNXIFI_STATUS_MISMATCHING_SHAPE, {f.weight(), describe("v", 1, one, f.w.data())});
  });
  add(checks, "all_tags_come_first", [](Fixture& f) {
    auto bad = f.weight();
    bad.tag = 7;
    f.refused(ONNXIFI_STATUS_UNSUPPORTED_TAG, {describe("nobody", 0, f.shape, f.w.data()), bad});
  });
  add(checks, "name_before_type",
      [](Fixture& f) { f.refused(ONNXIFI_STATUS_INVALID_NAME, {describe(nullptr, 0, f.shape, f.w.data())}); });
  add(checks, "shape_before_buffer", [](Fixture& f) {
    f.shape = {0};
    f.refused(ONNXIFI_STATUS_INVALID_SHAPE, {describe("w", 1, f.shape, nullptr)});
  });
  add(checks, "name_of_a_node_output",
      [](Fixture& f) { f.refused(ONNXIFI_STATUS_INVALID_NAME, {describe("y", 1, f.shape, f.w.data())}); });
  add(checks, "empty_name",
      [](Fixture& f) { f.refused(ONNXIFI_STATUS_INVALID_NAME, {describe("", 1, f.shape, f.w.data())}); });
  add(checks, "huge_extent", [](Fixture& f) {
    f.shape = {UINT64_MAX};
    f.refused(ONNXIFI_STATUS_MISMATCHING_SHAPE, {f.weight()});
    ModelSpec m = add_model();
    m.inputs[1].dims = {"N"};
    f.model = serialize(m);
    f.refused(ONNXIFI_STATUS_UNSUPPORTED_SHAPE, {f.weight()});
  });
  add(checks, "broken_model_bytes", [](Fixture& f) {
    f.model = std::string(40, '\xff');
    f.refused(ONNXIFI_STATUS_INVALID_PROTOBUF, {f.weight()});
  });
  add(checks, "unknown_operator", [](Fixture& f) {
    ModelSpec m = add_model();
    m.nodes[0].op = "Frobnicate";
    f.model = serialize(m);
    f.refused(ONNXIFI_STATUS_UNSUPPORTED_OPERATOR, {f.weight()});
  });
  add(checks, "name_memory_may_be_reused_after_init", [](Fixture& f) {
    std::string name = "w";
    auto w = f.weight();
    w.name = name.c_str();
    onnxGraph g = init(f.d, f.model, {w});
    name = "?";
    f.shape = {9};
    run(f.d, g, {describe("x", {4}, f.x)}, {describe("y", {4}, f.y)});
    EXPECT((f.y == std::vector<float>{11, 22, 33, 44}));
    EXPECT_OK(api.ReleaseGraph(g));
  });
  for (int type : {0, 8, 27, 99})
    checks.push_back({"weights/datatype_" + std::to_string(type), [type] {
                        Fixture f;
                        f.refused(ONNXIFI_STATUS_INVALID_DATATYPE, {describe("w", type, f.shape, f.w.data())});
                      }});
  for (uint64_t memory : {1, 2, 4, 8, 3, 5, 64})
    checks.push_back({"weights/memory_type_" + std::to_string(memory), [memory] {
                        Fixture f;
                        auto w = f.weight();
                        w.memoryType = memory;
                        const bool known = memory == 1 || memory == 2 || memory == 4 || memory == 8;
                        f.refused(known ? ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE : ONNXIFI_STATUS_INVALID_MEMORY_TYPE,
                                  {w});
                      }});
}

}  // namespace abi
