// Generates tokens greedily with a language model that keeps a key-value cache: forward(tokens [1, n], position [1]).
//     generate [--vulkan] MODEL COUNT TOKEN...
#include <smelt/model.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

/// The highest score of the last position.
int64_t best(const smelt::Tensor& scores) {
  const int64_t n = scores.shape().back();
  const float* last = scores.data<float>() + scores.elements() - n;
  return std::max_element(last, last + n) - last;
}

smelt::Result<std::vector<int64_t>> generate(const char* file, smelt::BackendKind backend, size_t count,
                                             const std::vector<int64_t>& prompt) {
  auto model = smelt::Model::load(file);
  if (!model.ok()) return model.error();
  auto session = smelt::Session::create(*model, {.backend = backend});
  if (!session.ok()) return session.error();
  std::vector<int64_t> tokens, fresh = prompt;
  int64_t position = 0;
  while (tokens.size() < count) {
    const auto n = static_cast<int64_t>(fresh.size());
    const std::vector<int64_t> start{position};
    const std::vector<smelt::Datum> inputs{smelt::Tensor::from<int64_t>(smelt::DType::kI64, {1, n}, fresh),
                                           smelt::Tensor::from<int64_t>(smelt::DType::kI64, {1}, start)};
    auto outputs = session->run(inputs);  // the session holds the cache between runs
    if (!outputs.ok()) return outputs.error();
    position += n;
    fresh = {best(outputs->at(0).tensor)};
    tokens.push_back(fresh[0]);
  }
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  auto backend = smelt::BackendKind::kCpu;
  if (argc > 1 && std::strcmp(argv[1], "--vulkan") == 0) {
    backend = smelt::BackendKind::kVulkan;
    ++argv, --argc;
  }
  if (argc < 4) {
    std::fprintf(stderr, "usage: generate [--vulkan] MODEL COUNT TOKEN...\n");
    return 2;
  }
  std::vector<int64_t> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(std::atoll(argv[i]));
  const auto tokens = generate(argv[1], backend, static_cast<size_t>(std::max(0, std::atoi(argv[2]))), prompt);
  if (!tokens.ok()) {
    std::fprintf(stderr, "generate: %s\n", tokens.error().message().c_str());
    return 1;
  }
  for (int64_t token : *tokens) std::printf("%lld ", static_cast<long long>(token));
  std::printf("\n");
}
