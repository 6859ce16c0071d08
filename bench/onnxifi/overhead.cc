// What a run through the C ABI costs beyond Session::run, on a Relu of a few elements.
//   smelt_onnxifi_bench [ELEMENTS] [ROUNDS]
// The two ways alternate in short rounds, so that a busy machine disturbs both alike; medians over the rounds.
#include <onnxifi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "smelt/model.h"
#include "tests/abi/proto_writer.h"

namespace {

constexpr int kRunsPerRound = 500;

void check(onnxStatus status, const char* what) {
  if (status == ONNXIFI_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: status 0x%04x\n", what, static_cast<unsigned>(status));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

double micros_per_run(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRunsPerRound; ++i) run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / kRunsPerRound;
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct Abi {
  onnxBackendID ids[16];
  size_t count = 16;
  onnxBackend backend = nullptr;
  onnxGraph graph = nullptr;
  onnxTensorDescriptorV1 in{}, out{};
  uint64_t shape[1];
  onnxSetIOAndRunGraphFunction set_io_and_run = nullptr;

  Abi(const std::string& model, std::vector<float>& x, std::vector<float>& y) : shape{x.size()} {
    CHECK(onnxGetBackendIDs(ids, &count));
    CHECK(onnxInitBackend(ids[0], nullptr, &backend));
    CHECK(onnxInitGraph(backend, nullptr, model.size(), model.data(), 0, nullptr, &graph, 0, nullptr));
    in.tag = ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1;
    in.dataType = ONNXIFI_DATATYPE_FLOAT32;
    in.memoryType = ONNXIFI_MEMORY_TYPE_CPU;
    in.dimensions = 1;
    in.shape = shape;
    out = in;
    in.name = "x";
    in.buffer = reinterpret_cast<onnxPointer>(x.data());
    out.name = "y";
    out.buffer = reinterpret_cast<onnxPointer>(y.data());
    CHECK(onnxSetGraphIO(graph, 1, &in, 1, &out));
    onnxExtensionFunctionPointer f = nullptr;
    CHECK(onnxGetExtensionFunctionAddress(ids[0], "onnxSetIOAndRunGraphFunction", &f));
    set_io_and_run = reinterpret_cast<onnxSetIOAndRunGraphFunction>(reinterpret_cast<void*>(f));
  }
  ~Abi() {
    onnxReleaseGraph(graph);
    onnxReleaseBackend(backend);
    for (size_t i = 0; i < count; ++i) onnxReleaseBackendID(ids[i]);
  }

  /// Everything that a caller does for one run, both events included.
  void run() {
    onnxMemoryFenceV1 ready{ONNXIFI_TAG_MEMORY_FENCE_V1, ONNXIFI_SYNCHRONIZATION_EVENT, {nullptr}}, done = ready;
    CHECK(onnxInitEvent(backend, &ready.event));
    CHECK(onnxSignalEvent(ready.event));
    CHECK(onnxRunGraph(graph, &ready, &done));
    CHECK(onnxWaitEvent(done.event));
    CHECK(onnxReleaseEvent(done.event));
    CHECK(onnxReleaseEvent(ready.event));
  }
  void run_by_extension() {
    onnxMemoryFenceV1 done{ONNXIFI_TAG_MEMORY_FENCE_V1, ONNXIFI_SYNCHRONIZATION_EVENT, {nullptr}};
    CHECK(set_io_and_run(graph, 1, &in, 1, &out, &done, nullptr));
    CHECK(onnxWaitEvent(done.event));
    CHECK(onnxReleaseEvent(done.event));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int elements = argc > 1 ? std::atoi(argv[1]) : 64, rounds = argc > 2 ? std::atoi(argv[2]) : 60;
  if (elements < 1 || rounds < 1) return 2;
  const std::string model = abi::serialize(abi::relu_model(elements));
  std::vector<float> x(static_cast<size_t>(elements), -1), y(x.size());

  auto loaded = smelt::Model::load_bytes(std::as_bytes(std::span(model)));
  if (!loaded.ok()) return 1;
  auto session = smelt::Session::create(*loaded);
  if (!session.ok()) return 1;
  const std::vector<smelt::Datum> inputs{
      smelt::Datum(smelt::Tensor::view(smelt::DType::kF32, smelt::Shape{elements}, x.data(), nullptr))};
  Abi abi(model, x, y);

  std::vector<double> direct, full, extension, full_extra, extension_extra;
  for (int r = 0; r < rounds; ++r) {
    direct.push_back(micros_per_run([&] {
      if (!session->run(inputs).ok()) std::exit(1);
    }));
    full.push_back(micros_per_run([&] { abi.run(); }));
    extension.push_back(micros_per_run([&] { abi.run_by_extension(); }));
    full_extra.push_back(full.back() - direct.back());
    extension_extra.push_back(extension.back() - direct.back());
  }
  std::printf("Relu of %d float32, microseconds a run, medians of %d rounds of %d runs\n", elements, rounds,
              kRunsPerRound);
  std::printf("  Session::run                               %7.2f\n", median(direct));
  std::printf("  onnxRunGraph and onnxWaitEvent, two events %7.2f   overhead %6.2f\n", median(full),
              median(full_extra));
  std::printf("  onnxSetIOAndRunGraph and onnxWaitEvent     %7.2f   overhead %6.2f\n", median(extension),
              median(extension_extra));
  return 0;
}
