// ONNX test folders (model.onnx, test_data_set_N) through libonnxifi.so: one line a set, as `smelt verify` prints them.
#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "cli/onnx_case.h"
#include "smelt/model.h"
#include "tests/support/abi_library.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

struct Tally {
  int passed = 0, failed = 0, skipped = 0;
  void line(const char* verdict, int& count, const std::string& name, const std::string& text) {
    ++count;
    std::printf("%-4s  %s%s%s\n", verdict, name.c_str(), text.empty() ? "" : ": ", text.c_str());
  }
  void pass(const std::string& name) { line("pass", passed, name, ""); }
  void fail(const std::string& name, const std::string& why) { line("FAIL", failed, name, why); }
  void skip(const std::string& name, const std::string& why) { line("skip", skipped, name, why); }
};

/// Why a descriptor cannot carry a value, or nothing.
std::string beyond_descriptors(const Datum& d) {
  if (d.none()) return "an absent optional";
  if (!d.is_tensor()) return "a sequence or map";
  if (onnxifi::element_number(d.tensor.dtype()) == ONNXIFI_DATATYPE_UNDEFINED) return to_string(d.tensor.dtype());
  return d.tensor.elements() == 0 ? "an empty tensor" : "";
}

std::string status_text(onnxStatus status) { return Cat("status 0x", fmt::format("{:04x}", status)); }

/// One set of one model; empty when the outputs match.
std::string run_set(const test::AbiLibrary& library, onnxGraph graph, const Model& model, const cli::OnnxTestSet& set) {
  test::AbiDescriptors in, out;
  const auto inputs = model.inputs(), outputs = model.outputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (set.inputs[i].is_tensor()) in.add(inputs[i].name, set.inputs[i].tensor);
  std::deque<Tensor> results;
  for (size_t i = 0; i < set.wanted.size(); ++i) {
    const Tensor& t = set.wanted[i].tensor;
    out.add(outputs[i].name, results.emplace_back(t.dtype(), t.shape()));
  }
  const onnxStatus ran = library.run(graph, in, out);
  if (ran != ONNXIFI_STATUS_SUCCESS) return status_text(ran);
  for (size_t i = 0; i < results.size(); ++i)
    if (auto why = cli::mismatch(set.wanted[i], results[i], {}); !why.empty()) return Cat("output ", i, ": ", why);
  return "";
}

Status run_folder(const test::AbiLibrary& library, const fs::path& folder, Tally& tally) {
  std::ifstream file(folder / "model.onnx", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  SMELT_ASSIGN(const Model model, Model::load_bytes(std::as_bytes(std::span(bytes))));
  SMELT_ASSIGN(const auto sets, cli::read_onnx_sets(model, folder));
  for (const cli::OnnxTestSet& set : sets) {
    const std::string name = Cat(folder.string(), " ", set.name);
    std::string why = set.wanted.size() < model.outputs().size() ? "no stored outputs" : "";
    const auto ports = model.inputs();
    for (size_t i = 0; i < set.inputs.size() && why.empty(); ++i)
      if (!(set.inputs[i].none() && ports[i].optional)) why = beyond_descriptors(set.inputs[i]);
    for (size_t i = 0; i < set.wanted.size() && why.empty(); ++i) why = beyond_descriptors(set.wanted[i]);
    if (!why.empty()) {
      tally.skip(name, Cat("tensor descriptors cannot carry it: ", why));
      continue;
    }
    onnxGraph graph = nullptr;
    const onnxStatus s =
        library.onnxInitGraph(library.backend, nullptr, bytes.size(), bytes.data(), 0, nullptr, &graph, 0, nullptr);
    why = s == ONNXIFI_STATUS_SUCCESS ? run_set(library, graph, model, set) : Cat("onnxInitGraph: ", status_text(s));
    if (graph) library.onnxReleaseGraph(graph);
    why.empty() ? tally.pass(name) : tally.fail(name, why);
  }
  return Ok();
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s LIBRARY FOLDER...\n", argv[0]);
    return 2;
  }
  smelt::test::AbiLibrary library(argv[1]);
  if (!library.start()) {
    std::fprintf(stderr, "%s: no backend\n", argv[1]);
    return 2;
  }
  smelt::Tally tally;
  for (int i = 2; i < argc; ++i)
    if (auto s = smelt::run_folder(library, argv[i], tally); !s.ok()) {
      tally.fail(argv[i], "");
      std::fprintf(stderr, "%s/model.onnx: %s\n", argv[i], s.error().message().c_str());
    }
  std::printf("%d passed, %d failed, %d skipped\n", tally.passed, tally.failed, tally.skipped);
  return tally.failed ? 3 : 0;
}
