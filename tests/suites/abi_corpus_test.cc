// The golden ONNX cases through libonnxifi.so: the same statuses and, bit by bit, the same numbers as Session::run.
// Each model also runs without its initializers, which descriptors give instead.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "cli/golden_case.h"
#include "cli/inputs.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/tensor.h"
#include "smelt/model.h"
#include "tests/support/abi_library.h"
#include "tests/support/paths.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

using Descriptors = test::AbiDescriptors;

test::AbiLibrary& library() {
  static auto* const l = [] {
    auto* const made = new test::AbiLibrary(SMELT_ONNXIFI);
    if (!made->start()) ADD_FAILURE() << "no backend";
    return made;
  }();
  return *l;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A descriptor can say it: a dense tensor of a numeric type without empty dimensions.
bool describable(const Datum& d) {
  return d.is_tensor() && d.tensor.elements() > 0 && onnxifi::element_number(d.tensor.dtype()) != 0;
}
bool describable(const std::vector<Datum>& list, bool optional) {
  for (const Datum& d : list)
    if (!(optional && d.none()) && !describable(d)) return false;
  return true;
}

/// A model without its initializers, which become descriptors; false when they cannot.
bool strip(const std::string& bytes, std::string& stripped, Descriptors& weights, std::deque<Tensor>& values) {
  auto parsed = onnx::parse_model(bytes, 1000000);
  if (!parsed.ok()) return false;
  const onnx::GraphProto& graph = (*parsed)->graph;
  if (graph.initializers.empty() || !graph.sparse_initializers.empty()) return false;
  const Source source{std::as_bytes(std::span(bytes)), nullptr, "model", "", nullptr};
  onnx::TensorReader reader(source);
  for (const auto& t : graph.initializers) {
    auto value = reader.read(t);
    if (!value.ok() || !describable(Datum(*value))) return false;
    values.push_back(std::move(*value));
    weights.add(std::string(t.name), values.back());
  }
  const auto copy = [](std::string_view from, std::string& to, auto&& special) {
    protozero::pbf_writer writer(to);
    protozero::pbf_reader r(from.data(), from.size());
    while (r.next()) {
      if (special(r, writer)) continue;
      const auto tag = r.tag();
      switch (r.wire_type()) {
        case protozero::pbf_wire_type::varint:
          writer.add_uint64(tag, r.get_uint64());
          break;
        case protozero::pbf_wire_type::fixed32:
          writer.add_fixed32(tag, r.get_fixed32());
          break;
        case protozero::pbf_wire_type::fixed64:
          writer.add_fixed64(tag, r.get_fixed64());
          break;
        default:
          const auto v = r.get_view();
          writer.add_bytes(tag, v.data(), v.size());
      }
    }
  };
  copy(bytes, stripped, [&](protozero::pbf_reader& r, protozero::pbf_writer& w) {
    if (r.tag() != 7) return false;
    const auto v = r.get_view();
    std::string inner;
    copy({v.data(), v.size()}, inner, [](protozero::pbf_reader& g, protozero::pbf_writer&) {
      if (g.tag() != 5) return false;
      g.skip();
      return true;
    });
    w.add_bytes(7, inner.data(), inner.size());
    return true;
  });
  return true;
}

/// Whether the file declares another shape for an output than it has: then the ABI refuses it.
bool declares_another_shape(const std::string& bytes, const std::vector<Datum>& outputs) {
  const auto parsed = onnx::parse_model(bytes, 1000000);
  if (!parsed.ok()) return false;
  const auto& declared = (*parsed)->graph.outputs;
  for (size_t i = 0; i < declared.size() && i < outputs.size(); ++i) {
    const auto& type = declared[i].type;
    if (!type.has_shape) continue;
    const Shape& shape = outputs[i].tensor.shape();
    if (type.dims.size() != static_cast<size_t>(shape.rank())) return true;
    for (int k = 0; k < shape.rank(); ++k)
      if (type.dims[static_cast<size_t>(k)].value >= 0 && type.dims[static_cast<size_t>(k)].value != shape[k])
        return true;
  }
  return false;
}

class AbiCorpus : public testing::TestWithParam<const char*> {
 protected:
  void check(const fs::path& folder) {
    SCOPED_TRACE(folder.filename().string());
    const std::string bytes = read_file(folder / "model.onnx");
    if (bytes.empty()) return;
    auto model = Model::load_bytes(std::as_bytes(std::span(bytes)));
    if (!model.ok()) {
      onnxGraph g = nullptr;
      EXPECT_NE(init(bytes, {}, g), ONNXIFI_STATUS_SUCCESS);
      ++refused_;
      return;
    }
    const auto given = cli::gather_inputs(*model, "", {.files = cli::case_inputs(folder)});
    if (!given.ok() || !describable(given->values, true)) return;
    const std::vector<Datum>& inputs = given->values;
    auto session = Session::create(*model);
    ASSERT_TRUE(session.ok());
    const auto wanted = session->run(inputs);
    if (wanted.ok() && !describable(*wanted, false)) return;
    compare(*model, bytes, {}, inputs, wanted);
    std::string stripped;
    Descriptors weights;
    std::deque<Tensor> values;
    if (strip(bytes, stripped, weights, values)) compare(*model, stripped, weights, inputs, wanted);
  }

  static onnxStatus init(const std::string& bytes, const Descriptors& weights, onnxGraph& g) {
    return library().onnxInitGraph(library().backend, nullptr, bytes.size(), bytes.data(), weights.size(),
                                   weights.list.data(), &g, 0, nullptr);
  }

  void compare(const Model& model, const std::string& bytes, const Descriptors& weights,
               const std::vector<Datum>& inputs, const Result<std::vector<Datum>>& wanted) {
    onnxGraph g = nullptr;
    const onnxStatus s = init(bytes, weights, g);
    if (weights.list.empty()) {
      EXPECT_EQ(s, library().onnxGetBackendCompatibility(library().ids[0], bytes.size(), bytes.data()));
    }
    const bool contradiction = wanted.ok() && declares_another_shape(bytes, *wanted);
    if (s != ONNXIFI_STATUS_SUCCESS && contradiction) {
      EXPECT_EQ(s, ONNXIFI_STATUS_MISMATCHING_SHAPE);
      ++contradictions_;
      return;
    }
    ASSERT_EQ(s, ONNXIFI_STATUS_SUCCESS);
    Descriptors in, out;
    const auto inputs_of = model.inputs(), outputs_of = model.outputs();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].is_tensor()) in.add(inputs_of[i].name, inputs[i].tensor);
    if (!wanted.ok()) {
      ++failing_;
      library().onnxReleaseGraph(g);
      return;
    }
    std::deque<Tensor> results;
    for (size_t i = 0; i < wanted->size(); ++i) {
      const Tensor& t = (*wanted)[i].tensor;
      out.add(outputs_of[i].name, results.emplace_back(t.dtype(), t.shape()));
    }
    const onnxStatus ran = library().run(g, in, out);
    if (contradiction) {
      EXPECT_EQ(ran, ONNXIFI_STATUS_MISMATCHING_SHAPE);
      EXPECT_EQ(library().onnxReleaseGraph(g), ONNXIFI_STATUS_SUCCESS);
      ++contradictions_;
      return;
    }
    EXPECT_EQ(ran, ONNXIFI_STATUS_SUCCESS);
    for (size_t i = 0; i < wanted->size(); ++i)
      EXPECT_EQ(std::memcmp(results[i].raw(), (*wanted)[i].tensor.raw(), results[i].bytes()), 0) << "output " << i;
    EXPECT_EQ(library().onnxReleaseGraph(g), ONNXIFI_STATUS_SUCCESS);
    (weights.list.empty() ? ran_ : ran_with_weights_)++;
  }

  size_t ran_ = 0, ran_with_weights_ = 0, refused_ = 0, failing_ = 0, contradictions_ = 0;
};

TEST_P(AbiCorpus, SameAsSession) {
  ASSERT_NE(library().handle, nullptr) << dlerror();
  size_t cases = 0;
  for (const auto& e : fs::directory_iterator(corpus_folder() / "onnx" / GetParam())) {
    check(e.path());
    ++cases;
  }
  std::printf(
      "%zu cases: %zu ran, %zu ran with weights in descriptors, %zu declare another shape, %zu refused alike, %zu fail "
      "when run\n",
      cases, ran_, ran_with_weights_, contradictions_, refused_, failing_);
  EXPECT_GT(ran_ + refused_, cases / 2);
}

INSTANTIATE_TEST_SUITE_P(, AbiCorpus, testing::Values("ops", "nets"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt
