// Generates tokens greedily with a language model that keeps a key-value cache: forward(tokens [1, n], position [1]).
//     generate [--vulkan] MODEL COUNT TOKEN...
// The weights of decoder_4bit.pte are random: its tokens mean nothing.
#include <smelt/model.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int64_t kCache = 128;  // positions that the model's cache holds

int64_t best(const smelt::Tensor& scores) {  // the highest of the last position
  const int64_t n = scores.shape().back();
  const float* last = scores.data<float>() + scores.elements() - n;
  return std::max_element(last, last + n) - last;
}

std::vector<int64_t> generate(const char* file, smelt::BackendKind backend, size_t count, std::vector<int64_t> fresh) {
  const auto model = smelt::Model::load(file).value();  // value() throws what went wrong
  auto session = smelt::Session::create(model, {.backend = backend}).value();
  std::vector<int64_t> tokens;
  for (int64_t position = 0; tokens.size() < count; tokens.push_back(fresh[0])) {
    const auto n = static_cast<int64_t>(fresh.size());
    if (position + n > kCache) {
      std::fprintf(stderr, "generate: the cache of %lld positions is full\n", static_cast<long long>(kCache));
      break;
    }
    const std::vector<int64_t> start{position};
    const std::vector<smelt::Datum> inputs{smelt::Tensor::from<int64_t>(smelt::DType::kI64, {1, n}, fresh),
                                           smelt::Tensor::from<int64_t>(smelt::DType::kI64, {1}, start)};
    const auto outputs = session.run(inputs).value();  // the session holds the cache between runs
    fresh = {best(outputs.at(0).tensor)};
    position += n;
  }
  return tokens;
}

int main(int argc, char** argv) try {
  const bool vulkan = argc > 1 && std::strcmp(argv[1], "--vulkan") == 0;
  argv += vulkan, argc -= vulkan;
  if (argc < 4) return std::fprintf(stderr, "usage: generate [--vulkan] MODEL COUNT TOKEN...\n"), 2;
  std::vector<int64_t> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(std::atoll(argv[i]));
  const auto backend = vulkan ? smelt::BackendKind::kVulkan : smelt::BackendKind::kCpu;
  for (int64_t token : generate(argv[1], backend, static_cast<size_t>(std::max(0, std::atoi(argv[2]))), prompt))
    std::printf("%lld ", static_cast<long long>(token));
  std::printf("\n");
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "generate: %s\n", e.what());
  return 1;
}
