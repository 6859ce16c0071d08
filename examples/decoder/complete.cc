// Continues a text. The vocabulary is a file with one token a line, in the order of their numbers; "<0x0A>" is a byte.
//     complete MODEL VOCABULARY COUNT TEXT
// The weights of decoder_4bit.pte are random: its text means nothing.
#include <smelt/model.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

constexpr int64_t kCache = 128;  // positions that the model's cache holds

std::vector<std::string> read_vocabulary(const char* path) {
  std::vector<std::string> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line); out.push_back(line))
    if (line.size() == 6 && line.starts_with("<0x"))
      line = std::string(1, static_cast<char>(std::stoi(line.substr(3), nullptr, 16)));
  if (out.empty()) throw std::runtime_error(std::string(path) + ": no vocabulary");
  return out;
}

std::vector<int64_t> tokens_of(std::string_view text, const std::vector<std::string>& vocabulary) {
  std::vector<int64_t> out;
  while (!text.empty()) {  // the longest token that the text begins with
    size_t best = 0, length = 0;
    for (size_t i = 0; i < vocabulary.size(); ++i)
      if (text.starts_with(vocabulary[i]) && vocabulary[i].size() > length) length = vocabulary[best = i].size();
    if (length == 0) throw std::runtime_error("no token of the vocabulary begins '" + std::string(text) + "'");
    out.push_back(static_cast<int64_t>(best));
    text.remove_prefix(length);
  }
  return out;
}

int main(int argc, char** argv) try {
  if (argc != 5) return std::cerr << "usage: complete MODEL VOCABULARY COUNT TEXT\n", 2;
  const auto vocabulary = read_vocabulary(argv[2]);
  auto session = smelt::Session::create(smelt::Model::load(argv[1]).value()).value();
  std::vector<int64_t> fresh = tokens_of(argv[4], vocabulary);
  std::cout << argv[4];
  for (int64_t position = 0, left = std::stoll(argv[3]); left > 0; --left) {
    const auto n = static_cast<int64_t>(fresh.size());
    if (position + n > kCache) throw std::runtime_error("the cache of 128 positions is full");
    const std::vector<int64_t> start{position};
    const std::vector<smelt::Datum> inputs{smelt::Tensor::from<int64_t>(smelt::DType::kI64, {1, n}, fresh),
                                           smelt::Tensor::from<int64_t>(smelt::DType::kI64, {1}, start)};
    const auto scores = session.run(inputs).value()[0].tensor;
    const float* last = scores.data<float>() + scores.elements() - scores.shape().back();
    fresh = {std::max_element(last, last + scores.shape().back()) - last};
    std::cout << vocabulary.at(static_cast<size_t>(fresh[0])) << (left == 1 ? "\n" : "") << std::flush;
    position += n;
  }
} catch (const std::exception& e) {
  std::cerr << "\ncomplete: " << e.what() << "\n";
  return 1;
}
